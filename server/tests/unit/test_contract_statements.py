"""Every statement of the founding contract has tests, or an answer of ours where the contract leaves it open."""

import ast

from support.history.contract_statements import OPEN_POINTS, TESTS, statements
from support.source_trees import parsed


def test_every_statement_has_tests_or_says_why_not() -> None:
    bare = [each.id for each in statements() if not (each.tests or each.left_open or each.open)]
    assert bare == []


def test_every_test_that_a_statement_names_is_there() -> None:
    named = {test for each in statements() for test in each.tests}
    there = {f"{file}::{name}" for file in {test.partition("::")[0] for test in named} for name in functions_of(file)}
    assert sorted(named - there) == []
    # Those that the gate runs.
    assert {test.partition("/")[0] for test in named} <= {"tidy", "unit", "integration", "e2e"}


def functions_of(file: str) -> list[str]:
    tree = parsed((TESTS / file).read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_our_page_answers_every_statement_that_the_contract_leaves_open() -> None:
    page = OPEN_POINTS.read_text()
    assert [each.id for each in statements() if each.left_open and each.says not in page] == []

"""The tables of faults: every fault can be applied, and every test that must catch it exists."""

import ast
from functools import cache
from pathlib import Path

import pytest

from proof.sabotages import AREAS
from proof.sabotages.fault import TESTS, Fault, SourceFault
from proof.sabotages.page import sabotage_page
from support.source_trees import parsed

FAULTS = [fault for faults in AREAS.values() for fault in faults]
FAULTS_MIN = 29
DOCS = Path(__file__).parents[4] / "docs"


@cache
def names_of_tests(file: str) -> frozenset[str]:
    tree = parsed((TESTS / file).read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


def test_there_are_faults_in_every_area_and_each_has_a_name_of_its_own() -> None:
    assert all(AREAS.values())
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= FAULTS_MIN


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_applies_to_the_source_as_it_is(fault: Fault) -> None:
    assert fault.problem() is None
    if isinstance(fault, SourceFault):
        assert fault.old != fault.new


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_that_catch_a_fault_exist(fault: Fault) -> None:
    assert fault.tests
    for test in fault.tests:
        file, _, name = test.partition("::")
        assert name.partition("[")[0] in names_of_tests(file), test


def test_the_page_is_made_from_the_tables() -> None:
    assert (DOCS / "sabotage.md").read_text() == sabotage_page(), "run make generate"

"""ARCHITECTURE.md names files and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

from support.source_trees import parsed

ROOT = Path(__file__).parents[3]
SERVER = ROOT / "server/src/openbell_server"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
STOP = re.compile(r"^\| (\d) \|.*\| `([\w/.]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
STOPS = STOP.findall(PAGE)


def defined(path: Path) -> set[str]:
    """Functions, and methods as Class.method."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    tree = parsed(path.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name for node in tree.body if isinstance(node, functions)} | {
        f"{owner.name}.{node.name}" for owner in classes for node in owner.body if isinstance(node, functions)
    }


def test_an_order_is_followed_in_eight_stops() -> None:
    assert [number for number, _, _ in STOPS] == list("12345678")


@pytest.mark.parametrize(("number", "file", "function"), STOPS)
def test_every_stop_exists(number: str, file: str, function: str) -> None:
    assert function in defined(SERVER / file), f"stop {number}"


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:domain|application|adapters|brokers|transport|processes|devtools|cli)/[\w/.]+)`", PAGE)
    assert [name for name in named if not (SERVER / name).exists()] == []

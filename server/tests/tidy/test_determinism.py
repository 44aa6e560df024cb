"""What runs in simulation takes clocks, chance and ids from outside: the same seed must be the same run."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source_trees import parsed

SERVER = Path(__file__).parents[3] / "server/src/openbell_server"
FILES = sorted([*(SERVER / "domain").rglob("*.py"), *(SERVER / "application").rglob("*.py")])
MODULES = {"time", "random", "secrets", "threading", "multiprocessing", "concurrent.futures", "socket"}
NAMES = {"uuid1", "uuid4", "urandom", "getrandom", "to_thread", "run_in_executor", "utcnow"}
# Of a date or time only: others may be called so.
CLOCKS = {("datetime", "now"), ("datetime", "today"), ("date", "today")}


def escapes(tree: ast.AST) -> Iterator[str]:
    """Whatever the seed has no hold on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module for _ in [0] if node.module in MODULES)
            yield from (alias.name for alias in node.names if alias.name in NAMES)
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in NAMES or (owner, node.attr) in CLOCKS:
                yield f"{owner}.{node.attr}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_on_the_simulated_path_escapes_the_seed(path: Path) -> None:
    assert list(escapes(parsed(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "from random import Random",
        "from uuid import UUID, uuid4",
        "datetime.now(UTC)",
        "os.urandom(8)",
        "await asyncio.to_thread(work)",
        "loop.run_in_executor(None, work)",
    ],
)
def test_an_escape_is_seen(line: str) -> None:
    assert len(list(escapes(parsed(line)))) == 1

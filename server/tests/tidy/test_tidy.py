"""Keeps the house tidy: sizes, names, where SQL lives, what the domain may import, and what must never be committed."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SERVER = ROOT / "server/src/openbell_server"
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
VAGUE = re.compile(
    r"(^|_)(utils?|helpers?|common|managers?|misc|base|core|shared|data|info|handlers?|processors?)(_|$)"
)
SQL_TEXT = re.compile(
    r"\b(select\s.+\sfrom|insert\s+into|update\s+\w+\s+set|delete\s+from|create\s+table)\b",
    re.IGNORECASE | re.DOTALL,
)
MACHINE_PATHS = re.compile(
    r"(?<![\w.])/(?:work|farm|root)/|pypi\.org/simple|registry\.npmjs|files\.pythonhosted|/opt/pypi"
)


def tracked(*patterns: str) -> list[Path]:
    """Files git knows or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def python_files() -> list[Path]:
    return [path for path in tracked("*.py") if "wire" not in path.parts]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def strings_outside_docstrings(tree: ast.AST) -> Iterator[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_no_file_is_longer_than_400_lines() -> None:
    code = [path for path in tracked("*.py", "*.sql", "*.proto") if "wire" not in path.parts]
    assert [str(p) for p in code if len(p.read_text().splitlines()) > FILE_LINES_MAX] == []


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{path}:{function.name}"
        for path in python_files()
        for function in functions(ast.parse(path.read_text()))
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_every_module_says_what_it_is_for() -> None:
    assert [str(p) for p in python_files() if not ast.get_docstring(ast.parse(p.read_text()))] == []


def test_names_are_never_vague() -> None:
    names = [str(p) for p in python_files() if VAGUE.search(p.stem) or VAGUE.search(p.parent.name)]
    classes = [
        f"{path}:{node.name}"
        for path in python_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and VAGUE.search(re.sub(r"(?<!^)(?=[A-Z])", "_", node.name).lower())
    ]
    assert names + classes == []


def test_sql_lives_in_sql_files() -> None:
    places = [
        f"{path}: {text[:40]}"
        for path in python_files()
        if "tests" not in path.parts
        for text in strings_outside_docstrings(ast.parse(path.read_text()))
        if SQL_TEXT.search(text)
    ]
    assert places == []


def test_the_domain_imports_the_standard_library_only() -> None:
    for path in (SERVER / "domain").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for module in modules:
                top = module.split(".")[0]
                inside = module.startswith("openbell_server.domain")
                assert inside or top in sys.stdlib_module_names, f"{path} imports {module}"
                assert top not in {"random", "time", "logging", "secrets", "socket", "asyncio"}, (
                    f"{path} imports {module}"
                )


def test_every_broker_folder_is_registered() -> None:
    registry = (SERVER / "brokers/registry.py").read_text()
    folders = [p.parent.name for p in (SERVER / "brokers").glob("*/definition.py")]
    assert folders
    assert [name for name in folders if f"{name}.definition" not in registry] == []


@pytest.mark.parametrize("path", tracked(), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_machine_path_or_registry_address_is_committed(path: Path) -> None:
    if path == Path(__file__):
        return
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return
    assert MACHINE_PATHS.search(text) is None

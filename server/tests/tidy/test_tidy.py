"""Keeps the house tidy: sizes, names, where SQL lives, what the domain may import, and what must never be committed."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.source_trees import parsed

ROOT = Path(__file__).parents[3]
SERVER = ROOT / "server/src/openbell_server"
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
FOLDER_FILES_MAX = 25
DIALECT_WORDS_MAX = 10
# Pages that still have such words; a page leaves the list when it is rewritten, and none is added.
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
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Tuples, which are compared faster than unions.
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


@cache
def tracked(*patterns: str) -> tuple[Path, ...]:
    """Files git knows or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout
    return tuple(ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file())


def python_files() -> list[Path]:
    return [path for path in tracked("*.py") if "wire" not in path.parts]


@dataclass
class Source:
    """What the tests look at in one Python file."""

    path: Path
    has_docstring: bool
    # Names, and numbers of lines.
    functions: list[tuple[str, int]]
    classes: list[str]
    strings: list[str]
    # Lines of initializers that have a docstring.
    initializers: list[int]


@cache
def sources() -> list[Source]:
    """Every Python file, parsed once for all tests."""
    return [read_source(path) for path in python_files()]


def read_source(path: Path) -> Source:
    tree = parsed(path.read_text())
    functions, classes, initializers, docstrings = [], [], [], {id(expression_of(tree))}
    for node in statements(tree):
        if isinstance(node, DEFINITIONS):
            docstrings.add(id(expression_of(node)))
        if isinstance(node, FUNCTIONS):
            functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
            if node.name == "__init__" and ast.get_docstring(node):
                initializers.append(node.lineno)
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
    # SQL may stand in tests.
    strings = [] if "tests" in path.parts else [text for text, place in texts(tree) if place not in docstrings]
    return Source(path, bool(ast.get_docstring(tree)), functions, classes, strings, initializers)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement inside; expressions, which are most of a file, hold none."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, block, ()):
            yield node
            yield from statements(node)


def expression_of(node: ast.Module | Definition) -> ast.expr | None:
    """What a definition begins with, if that is an expression: its docstring."""
    first = node.body[0] if node.body else None
    return first.value if isinstance(first, ast.Expr) else None


def texts(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every string, and the identity of its node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, id(node)


def test_no_file_is_longer_than_400_lines() -> None:
    code = [path for path in tracked("*.py", "*.sql", "*.proto") if "wire" not in path.parts]
    assert [str(p) for p in code if len(p.read_text().splitlines()) > FILE_LINES_MAX] == []


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{source.path}:{name}"
        for source in sources()
        for name, lines in source.functions
        if lines > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_every_module_says_what_it_is_for() -> None:
    assert [str(source.path) for source in sources() if not source.has_docstring] == []


def test_names_are_never_vague() -> None:
    names = [str(p) for p in python_files() if VAGUE.search(p.stem) or VAGUE.search(p.parent.name)]
    classes = [
        f"{source.path}:{name}"
        for source in sources()
        for name in source.classes
        if VAGUE.search(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())
    ]
    assert names + classes == []


def test_sql_lives_in_sql_files() -> None:
    places = [f"{source.path}: {text[:40]}" for source in sources() for text in source.strings if SQL_TEXT.search(text)]
    assert places == []


def test_readme_fits_one_screen_and_a_half() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 80
    assert re.search(r"docs/images/\w+\.svg", text)


def test_the_domain_imports_the_standard_library_and_the_exchange_only() -> None:
    for path in (SERVER / "domain").rglob("*.py"):
        for node in ast.walk(parsed(path.read_text())):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for module in modules:
                top = module.split(".")[0]
                # The exchange is as pure: an import contract of its own.
                inside = module.startswith(("openbell_server.domain", "openbell_exchange"))
                assert inside or top in sys.stdlib_module_names, f"{path} imports {module}"
                assert top not in {"random", "time", "logging", "secrets", "socket", "asyncio"}, (
                    f"{path} imports {module}"
                )


def test_every_broker_folder_is_registered() -> None:
    registry = (SERVER / "brokers/registry.py").read_text()
    folders = [p.parent.name for p in (SERVER / "brokers").glob("*/definition.py")]
    assert folders
    assert [name for name in folders if f"{name}.definition" not in registry] == []


def test_no_machine_path_or_registry_address_is_committed() -> None:
    texts = {path: path.read_text(errors="replace") for path in tracked() if path != Path(__file__)}
    assert [str(path) for path, text in texts.items() if MACHINE_PATHS.search(text)] == []


def test_no_folder_of_product_code_has_more_than_25_python_files() -> None:
    folders = Counter(path.parent for path in python_files() if "src" in path.parts)
    assert [(str(folder), number) for folder, number in folders.items() if number > FOLDER_FILES_MAX] == []


def test_initializers_have_no_docstring() -> None:
    assert [f"{each.path}:{line}" for each in sources() for line in each.initializers if "src" in each.path.parts] == []


def test_product_code_and_documentation_use_the_terms_of_the_field() -> None:
    """The tool lists each word of a private dialect, with the term to use instead."""
    most = ("--max", str(DIALECT_WORDS_MAX), "--docs-max", "0")
    counted = subprocess.run(
        [sys.executable, ROOT / "tools/plain_words.py", *most],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert counted.returncode == 0, counted.stdout

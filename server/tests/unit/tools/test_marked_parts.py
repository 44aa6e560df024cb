"""The numbers and the code that README and the demo's page show are those of the files they come from."""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("page", ["README.md", "docs/demo.md"])
def test_the_marked_parts_of_a_page_are_as_their_files(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    parts = import_module("marked_parts")
    assert (ROOT / page).read_text() == parts.filled(page), "make docs fills them"

"""The numbers and the code that pages show are those of the files they come from."""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("page", ["README.md", "docs/README.md", "docs/demo.md", "docs/guarantees.md"])
def test_the_marked_parts_of_a_page_are_as_their_files(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = import_module("marked_parts")
    # Every change of the code makes some results older, without a change of the page.
    text, filled = ((ROOT / page).read_text(), parts.filled(page))
    assert text.replace(parts.OLDER, "") == filled.replace(parts.OLDER, ""), "make docs fills them"

"""Terms of a private dialect are counted in prose and in names, and each has a term to use instead."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
PAGE = """# Whoever reads

The broker told us.

```text
it said
```

`words()` and [a link](told.md) are code. A level is: cannot tell.
"""


@pytest.fixture
def plain_words(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return import_module("plain_words")


def test_prose_is_counted_by_line_without_code_and_links(plain_words: Any) -> None:
    assert list(plain_words.in_prose(PAGE)) == [(1, "Whoever"), (3, "told")]


def test_names_in_code_are_split(plain_words: Any) -> None:
    assert plain_words.in_code("def told_plainly(lastWord): password = 1") == {"told": 1, "word": 1}


@pytest.mark.parametrize("term", ["told", "Words", "asked for", "taken back", "STRANGERS"])
def test_each_term_has_another_to_use_instead(plain_words: Any, term: str) -> None:
    assert plain_words.instead_of(term)


def test_a_total_above_its_maximum_fails_and_names_the_place(
    plain_words: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plain_words, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "code.py").write_text("told = 1\n")
    for options, failed in (
        (["--docs-max", "1"], 1),
        (["--docs-max", "2"], 0),
        (["--max", "0"], 1),
        (["--max", "1"], 0),
    ):
        monkeypatch.setattr(sys, "argv", ["plain_words.py", str(tmp_path), *options])
        assert plain_words.main() == failed, options
    assert "page.md:3: told; use: reported, notified" in capsys.readouterr().out

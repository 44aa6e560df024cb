"""README's blocks, run as printed in a fresh clone."""

import re
from pathlib import Path

import pytest

from front_door import ROOT, clone, left_after_interrupt, readme_blocks, run, running_dev


@pytest.mark.timeout(600)  # a first setup fetches every package
def test_what_readme_prints_works_in_a_fresh_clone(tmp_path: Path) -> None:
    blocks = readme_blocks()
    assert [language for language, _ in blocks] == ["bash", "bash", "bash", "python"]
    three_commands, start, curl, python = (text for _, text in blocks)
    checkout = clone(tmp_path)
    for command in three_commands.strip().splitlines()[1:]:
        run(["bash", "-euc", command], checkout, 300)
    with running_dev(checkout, ["bash", "-euc", f"exec {start.strip()}"]) as dev:
        assert '"intent_id"' in run(["bash", "-euc", curl], checkout, 60)
        program = tmp_path / "first.py"
        program.write_text(python)
        told = run(["bash", "-euc", f". .openbell/dev.env; .venv/bin/python {program}"], checkout, 60)
        assert "FILLED" in told
        assert left_after_interrupt(dev) == (0, 0)


def test_the_documentation_has_no_dead_link() -> None:
    run([str(ROOT / ".venv/bin/python"), "tools/docs.py"], ROOT, 30)


def test_readme_fits_one_screen_and_a_half() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 80
    assert re.search(r"docs/images/\w+\.svg", text)

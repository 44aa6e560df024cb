"""Which results of the proof count, and what a night measures again."""

import subprocess
import sys
from pathlib import Path

import pytest

from proof import nightly, results
from proof.parts import PARTS, Part

ROOT = Path(__file__).parents[4]
GOOD: results.Row = {"figure": "orders lost", "value": 0, "bar": 0, "ok": True}
BAD: results.Row = {"figure": "orders lost", "value": 1, "bar": 0, "ok": False}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one covered file and one other, with the part `races`."""
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path / "docs/proof")
    parts = {"races": Part(("covered",), 1, frozenset({"known"})), "bench": Part(())}
    for module in (results, nightly):
        monkeypatch.setattr(module, "PARTS", parts)
    (tmp_path / "covered").write_text("1")
    (tmp_path / "other").write_text("1")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(project: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, *arguments], cwd=project, check=True, timeout=60)


def commit(project: Path) -> None:
    git(project, "add", ".")
    git(project, "commit", "-qm", "x")


def recorded(*rows: results.Row) -> results.Result:
    results.record("races", results.commit_of("races"), rows)
    found = results.read_result("races")
    assert found is not None
    return found


def test_a_result_is_current_until_a_path_that_it_covers_changes(project: Path) -> None:
    result = recorded(GOOD)
    assert result.is_current
    (project / "other").write_text("2")
    commit(project)
    assert result.is_current
    (project / "covered").write_text("2")
    assert not result.is_current
    commit(project)
    assert not result.is_current


def test_a_result_of_uncommitted_changes_has_no_commit_and_is_never_current(project: Path) -> None:
    (project / "covered").write_text("2")
    result = recorded(GOOD)
    assert (result.commit, result.is_current) == ("", False)


def test_a_result_of_a_commit_that_is_not_here_is_not_current(project: Path) -> None:
    results.record("races", "1" * 40, [GOOD])
    found = results.read_result("races")
    assert found
    assert not found.is_current


def test_a_figure_that_is_known_to_fall_short_does_not_count_as_a_shortfall(project: Path) -> None:
    assert recorded(GOOD, BAD | {"figure": "known"}).shortfalls == []
    assert recorded(GOOD, BAD).shortfalls == ["orders lost"]


@pytest.mark.parametrize(("row", "status"), [(GOOD, 0), (BAD, 1)])
def test_a_night_measures_what_is_not_current_and_fails_on_a_shortfall(
    project: Path, monkeypatch: pytest.MonkeyPatch, row: results.Row, status: int
) -> None:
    measured = []

    def measure(part: str) -> int:
        measured.append(part)
        recorded(row)
        return status

    monkeypatch.setattr(nightly, "measure", measure)
    assert nightly.run_nightly() == status
    assert measured == ["races"]


def test_a_night_skips_what_is_current(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(GOOD)
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert nightly.run_nightly() == 0
    assert "current" in capsys.readouterr().out


def test_a_part_that_does_not_end_fails_the_night(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    assert nightly.run_nightly() == 1
    assert "did not end" in capsys.readouterr().out


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_a_module_and_every_path_that_it_covers_is_there(part: str) -> None:
    assert (ROOT / f"server/tests/proof/{part.replace('-', '_')}.py").exists()
    paths = [path for path in PARTS[part].covers if not path.startswith(":(exclude)")]
    assert [path for path in paths if not any(ROOT.glob(path))] == []


def test_the_page_of_checks_lists_the_parts_of_the_gate_and_those_of_the_night() -> None:
    gate, night = (ROOT / "docs/checks.md").read_text().split("## Parts ")[1:]
    for section, wanted in ((gate, True), (night, False)):
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
        listed = {name.strip() for row in rows for name in row.split(",")} - {"Part"}
        assert listed == {name for name, part in PARTS.items() if (part.gate_seconds is not None) == wanted}

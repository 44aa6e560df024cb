"""Golden runs: they end as recorded, on every schedule, and a mistake in the code is noticed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proof.golden_scripts import SCRIPTS, script_of
from simulation import golden
from simulation.golden_run import golden_run
from simulation.sabotages import sabotaged

TESTS = Path(__file__).parents[2]


def test_the_first_forty_seeds_end_as_recorded() -> None:
    assert golden.compare(40) == []


@pytest.mark.parametrize("schedule", [1, 2, 3])
def test_a_seed_ends_the_same_on_another_schedule(schedule: int) -> None:
    assert golden.compare(4, schedule=schedule) == []


def test_a_seed_ends_the_same_where_strings_are_hashed_otherwise() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "simulation.golden", "compare", "4"],
        env={**os.environ, "PYTHONHASHSEED": "2", "PYTHONPATH": str(TESTS)},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stdout == "0 of 4 seeds end differently\n"


def test_a_mistake_in_the_code_changes_the_end() -> None:
    with sabotaged("a fill that is reported twice counts twice"):
        assert any(golden_run(seed, 1).digest != golden_run_digest(seed) for seed in range(4))


def golden_run_digest(seed: int) -> str:
    return golden.recorded_digests()[golden.name_of(seed)]


def test_a_difference_that_is_meant_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    meant = tmp_path / "meant.json"
    meant.write_text('[{"name": "seed-1", "digest": "b", "reason": "it says so"}]')
    monkeypatch.setattr(golden, "MEANT", meant)
    recorded = {"seed-1": "a", "seed-2": "a"}
    assert golden.differing({"seed-1": "b", "seed-2": "a"}, recorded) == []
    assert golden.differing({"seed-1": "c", "seed-2": "b"}, recorded) == ["seed-1", "seed-2"]


def test_every_meant_difference_has_a_reason_and_a_run_that_is_recorded() -> None:
    names = {*golden.recorded_digests(), *(script_of(number).name for number in range(SCRIPTS))}
    assert {each["name"] for each in golden.meant_differences()} <= names


def test_a_script_is_the_same_each_time() -> None:
    assert script_of(7) == script_of(7) != script_of(8)

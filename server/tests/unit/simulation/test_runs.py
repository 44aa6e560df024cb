"""Whole runs: a seed meets its bars in any order of hashes, and a mistake in the code does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.run import Plan, run

TESTS = Path(__file__).parents[2]


def traces(hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "simulation", "--seed", "0", "--traces", "2"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(TESTS)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def test_a_seed_leaves_the_same_trace_in_any_process() -> None:
    assert traces("1") == traces("2") != ""


def test_a_run_through_trouble_breaks_no_bar() -> None:
    assert run(Plan(seed=4, id_class="A")).findings == ()


# What once went wrong: a replace that asked for the terms an order had, one that an end was held against too soon, and
# a repeated cancel that was refused because the first one had ended the order.
@pytest.mark.parametrize(
    ("seed", "id_class"), [(700, "A"), (711, "C"), (933, "W"), (1254, "B"), (1664, "A"), (1169, "W")]
)
def test_a_seed_that_once_broke_a_bar_breaks_none(seed: int, id_class: str) -> None:
    assert run(Plan(seed=seed, id_class=id_class)).findings == ()


def test_a_sabotaged_run_breaks_one_and_says_how_to_see_it_again() -> None:
    plan = Plan(seed=0, id_class="A", sabotage="a fill that is reported twice counts twice")
    assert run(plan).findings
    assert plan.replay == "make sim SEED=0 CLASS=A SABOTAGE='a fill that is reported twice counts twice'"


def test_a_death_at_a_point_happens_and_breaks_no_bar() -> None:
    verdict = run(Plan(seed=0, id_class="A", crash_at="executor.after_door"))
    assert (verdict.has_crashed, verdict.findings) == (True, ())

"""Orders through deaths, pauses and lies in simulation, by seed; and the same seed is the same run, in any process."""

import os
import subprocess
import sys
from dataclasses import dataclass

from proof.figures import Figures
from simulation.many import show, workers
from simulation.profiles import PROFILES
from simulation.run import Plan

TWICE_SECONDS_MAX = 540


@dataclass(frozen=True, slots=True)
class Size:
    """How many seeds, and how many of them are run twice."""

    seeds: int
    twice: int


SIZES = {"full": Size(2000, 200), "gate": Size(40, 4)}


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    with workers() as run_all:
        verdicts = list(run_all(Plan(seed=seed) for seed in range(size.seeds)))
    figures.exactly("seeds", len(verdicts), size.seeds)
    figures.exactly("kinds of brokers", len({verdict.plan.broker.name for verdict in verdicts}), len(PROFILES))
    figures.at_least("intents", sum(verdict.intents for verdict in verdicts), size.seeds * 50)
    figures.shown("steps", sum(verdict.steps for verdict in verdicts))
    figures.shown("virtual hours", round(sum(verdict.seconds for verdict in verdicts) / 3600, 1))
    show(figures, verdicts)
    differing = _differing(size.twice, [verdict.trace for verdict in verdicts[: size.twice]])
    figures.shown("seeds run again in another process", size.twice)
    figures.exactly("seeds whose traces differ", len(differing), 0)
    for seed in differing:
        print(f"{Plan(seed=seed).replay}  # another trace in another process", flush=True)


def _differing(count: int, known: list[str]) -> list[int]:
    """Seeds that leave another trace where strings are hashed otherwise."""
    told = subprocess.run(
        [sys.executable, "-m", "simulation", "--seed", "0", "--traces", str(count)],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        check=True,
        capture_output=True,
        text=True,
        timeout=TWICE_SECONDS_MAX,
    ).stdout
    again = dict(line.split() for line in told.splitlines())
    return [seed for seed in range(count) if again.get(str(seed)) != known[seed]]

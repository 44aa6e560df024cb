"""Runs end with what they ended with before: seeded simulations, and scripts on real processes.

Recorded in server/tests/simulation/recorded; `python -m simulation.golden record` and `python -m proof.golden record`
record again. What is compared, and what is not, is written in simulation/golden.py and golden_platform.py.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from openbell_server.devtools.local_platform import LocalPlatform
from proof.figures import Figures
from proof.golden_platform import run_scripts, was_late
from proof.golden_scripts import SCRIPTS, Script, script_of
from simulation import golden
from simulation.many import WORKERS

RECORD: Final = golden.FOLDER / "scripts.json"
# Of the other schedules.
PERTURB_SECONDS_MAX: Final = 600


@dataclass(frozen=True, slots=True)
class Size:
    """How much is compared; `perturbed` are seeds that run on another schedule, in a process of their own."""

    seeds: int
    perturbed: int
    faulted: int
    scripts: int


SIZES = {"full": Size(golden.SEEDS, 200, golden.FAULTED_SEEDS, SCRIPTS), "gate": Size(60, 10, 4, 0)}


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    wrong = golden.compare(size.seeds, workers=WORKERS)
    figures.shown("simulation seeds compared", size.seeds)
    figures.exactly("simulation seeds that end differently", len(wrong), 0)
    figures.shown("seeds run on another schedule", size.perturbed)
    figures.exactly("seeds that end differently on another schedule", _differing_when_perturbed(size.perturbed), 0)
    summary = golden.faulted_summary(size.faulted, workers=WORKERS)
    figures.shown("seeds with faults by the schedule", size.faulted)
    figures.exactly("of these, findings and intents missing", _differing_summary(summary), 0)
    if size.scripts:
        _prove_scripts(figures, size.scripts)
    figures.shown("differences that are meant", len(golden.meant_differences()))


def _prove_scripts(figures: Figures, count: int) -> None:
    scripts = [script_of(number) for number in range(count)]
    found, recorded = _run(scripts), golden.readable(RECORD)
    wrong = golden.differing(_digests(found), _digests(recorded))
    # On a machine that stood still some commands come too late: only those scripts get a second chance.
    late = [script for script in scripts if script.name in wrong and was_late(script, found[script.name])]
    found |= _run(late) if late else {}
    figures.shown("scripts run again, since a command came too late", len(late))
    wrong = golden.differing(_digests(found), _digests(recorded))
    for name in wrong:
        print(f"{name} is now {digest_of(found[name])}")
        print(*golden.explain(name, found[name], recorded.get(name)), sep="\n", flush=True)
    figures.shown("scripts compared", len(found))
    figures.exactly("scripts that end differently", len(wrong), 0)


def _differing_summary(summary: Mapping[str, int]) -> int:
    recorded = json.loads(golden.FAULTED.read_text())
    return sum(abs(summary[name] - value) for name, value in recorded.items())


def _differing_when_perturbed(count: int) -> int:
    """Where strings are hashed otherwise, steps are chosen otherwise, and everything takes another time."""
    ended = subprocess.run(
        [sys.executable, "-m", "simulation.golden", "perturb", str(count), "1"],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=PERTURB_SECONDS_MAX,
    )
    print(ended.stdout, ended.stderr, flush=True)
    return int(ended.stdout.splitlines()[-1].split()[0])


def _run(scripts: Sequence[Script]) -> dict[str, list[object]]:
    brokers = [script.broker for script in scripts]
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalPlatform(Path(folder), accounts=len(scripts), brokers=brokers) as platform,
    ):
        return asyncio.run(run_scripts(platform, scripts))


def _digests(ends: Mapping[str, Sequence[object]]) -> dict[str, str]:
    return {name: digest_of(lines) for name, lines in ends.items()}


def digest_of(lines: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()[:16]


def record(count: int = SCRIPTS) -> None:
    """Write what scripts end with now, if no command came too late."""
    scripts = [script_of(number) for number in range(count)]
    found = _run(scripts)
    late = [script.name for script in scripts if was_late(script, found[script.name])]
    assert not late, f"the machine was too slow, nothing is recorded: {', '.join(late)}"
    golden.write_readable(RECORD, found)


if __name__ == "__main__":
    assert sys.argv[1:] == ["record"], "python -m proof.golden record"
    record()

"""Runs a journey in a shell: each step once, and a step whose outcome is another than the pages promise is reported."""

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from support.environment.front_door import plain_environment

STEP_SECONDS = 240
# What a step exports is known to the next one, as in one terminal.
_SHELL = "set -aeuo pipefail\nif [ -e .journey ]; then . ./.journey; fi\n{script}\nexport -p > .journey\n"


@dataclass(frozen=True, slots=True)
class Step:
    """Commands, the texts that they must print (regular expressions), and their exit code."""

    name: str
    script: str
    shows: tuple[str, ...] = ()
    exits: int = 0
    # Takes too long for the gate.
    only_full: bool = False


def failed_steps(steps: Iterable[Step], folder: Path) -> list[str]:
    """Walk through all steps; the names of those that failed. What they printed goes to stderr."""
    (folder / ".journey").unlink(missing_ok=True)
    return [step.name for step in steps if not _succeeds(step, folder)]


def _succeeds(step: Step, folder: Path) -> bool:
    try:
        ended = subprocess.run(
            ["bash", "-c", _SHELL.format(script=step.script)],
            cwd=folder,
            timeout=STEP_SECONDS,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            env=plain_environment() | {"HOME": str(folder)},
        )
    except subprocess.TimeoutExpired:
        print(f"{step.name}: no end within {STEP_SECONDS} s", file=sys.stderr)
        return False
    # A terminal of 80 columns breaks sentences.
    printed = " ".join(ended.stdout.split())
    missing = [text for text in step.shows if not re.search(text, printed)]
    if ended.returncode == step.exits and not missing:
        return True
    print(f"{step.name}: exit code {ended.returncode}, missing {missing}\n{ended.stdout[-3000:]}", file=sys.stderr)
    return False

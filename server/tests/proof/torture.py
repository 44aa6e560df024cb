"""Bots against a simulated broker: planted weaknesses are found, fixed bots pass, and a seed repeats itself."""

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from proof.figures import Figures
from proof.results import ROOT
from proof.torture_sabotages import prove_sabotages

REPLAYS: Final = {"full": 20, "gate": 2}
SEEDS: Final = {"full": 50, "gate": 1}
# Faults without waiting, so that a run takes a second.
QUICK: Final = "accept_then_reset=0.25,error_500_after_accept=0.15,too_many_requests=0.1,session_reset=0.1"
ALL: Final = QUICK + ",read_reset=0.1,read_error=0.1,unseen=0.3,restart=0.05,late_fill=0.3"
PLAINS: Final = {
    "retry": (QUICK, "doubled"),
    "look_up": (QUICK, "doubled"),
    "stream_only": ("session_reset=0.5", "lost track of"),
}
# Bots that run at a time: they wait more than they work.
_BOTS: Final = 4
FIXED: Final = ("retry_fixed", "look_up_fixed", "stream_fixed")
_TIMEOUT: Final = 300
_SAYS_WHEN: Final = "import time; print('STARTED', time.time())"


def prove(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if figures.size == "full":
            _first_report(figures, folder)
        _plain(figures, folder)
        _replays(figures, folder)
        _fixed(figures, folder)
        _start(figures)
        if figures.size == "full":
            prove_sabotages(figures, folder / "sabotages")


def _first_report(figures: Figures, folder: Path) -> None:
    """As somebody does it who has nothing but a Python and the wheel."""
    subprocess.run(["make", "--silent", "wheels"], cwd=ROOT, check=True, timeout=_TIMEOUT)
    (wheel,) = (ROOT / "build/wheels").glob("openbell_torture-*.whl")
    begun = time.monotonic()
    commands = [
        [sys.executable, "-m", "venv", "env"],
        ["env/bin/pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)],
        ["env/bin/openbell-torture", "--seed", "7", "--", "env/bin/python", "-m", "openbell_torture.examples.look_up"],
    ]
    for command in commands:
        done = subprocess.run(
            command, cwd=folder, env=_clean(), capture_output=True, text=True, check=False, timeout=_TIMEOUT
        )
    figures.exactly("the first report states that orders were doubled", int("doubled: buy" in done.stdout), 1)
    figures.at_most("commands to the first report", len(commands), 3)
    figures.at_most("seconds to the first report", round(time.monotonic() - begun, 1), 60)


def _plain(figures: Figures, folder: Path) -> None:
    for bot, (plan, weakness) in PLAINS.items():
        found = {finding["weakness"] for finding in _run(bot, plan, 7, folder)["findings"]}
        figures.exactly(f"{bot}: {weakness}", int(weakness in found), 1)


def _replays(figures: Figures, folder: Path) -> None:
    """What a run found, without the times."""
    runs = {
        json.dumps([[each["weakness"], each["text"], each["requests"]] for each in result["findings"]])
        for result in (_run("look_up", QUICK, 7, folder) for _ in range(REPLAYS[figures.size]))
    }
    figures.exactly(f"different findings in {REPLAYS[figures.size]} runs of a seed", len(runs), 1)


def _fixed(figures: Figures, folder: Path) -> None:
    for bot in FIXED:
        with ThreadPoolExecutor(_BOTS) as threads:
            runs = list(threads.map(lambda seed, of=bot: _run(of, ALL, seed, folder), range(SEEDS[figures.size])))
        for seed, result in enumerate(runs):
            for finding in result["findings"]:
                print(f"{bot}, seed {seed}: {finding}", flush=True)
        number = sum(len(result["findings"]) for result in runs)
        figures.exactly(f"{bot}: findings in {SEEDS[figures.size]} seeds", number, 0)


def _start(figures: Figures) -> None:
    begun = time.time()
    command = [sys.executable, "-m", "openbell_torture", "--", sys.executable, "-c", _SAYS_WHEN]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    started = next(float(line.split()[1]) for line in said.splitlines() if line.startswith("STARTED"))
    if figures.size == "full":
        figures.at_most("seconds until the bot is started", round(started - begun, 2), 2)
    figures.at_most("memory, MB", round(used.ru_maxrss / 1024), 150)


def _run(bot: str, plan: str, seed: int, folder: Path) -> dict[str, Any]:
    result = folder / f"{bot}-{seed}.json"
    result.unlink(missing_ok=True)
    module = f"openbell_torture.examples.{bot}"
    subprocess.run(
        [
            *(sys.executable, "-m", "openbell_torture", "--plan", plan, "--seed", str(seed), "--json", str(result)),
            *("--", sys.executable, "-m", module),
        ],
        capture_output=True,
        check=False,
        timeout=_TIMEOUT,
    )
    told: dict[str, Any] = json.loads(result.read_text())
    return told


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}

"""What a stranger meets: README's commands, `dev` from start to first fill, and nothing left after Ctrl-C."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from proof.figures import Figures
from support.environment.doc_blocks import ROOT
from support.environment.front_door import RunningDev, clone, left_after_interrupt, readme_blocks, run, running_dev

HELP_RUNS = {"full": 9, "gate": 1}
IDLE_SECONDS = {"full": 10, "gate": 1}


def prove(figures: Figures) -> None:
    server = str(Path(sys.executable).with_name("openbell-server"))
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        if figures.size == "full":
            here = clone(Path(first))
            _first_block(figures, here)
        else:
            here = Path(first)
        # Two folders stand for two checkouts: everything dev writes, it writes below the folder it runs in.
        with running_dev(here, [server, "dev"]) as dev, running_dev(Path(second), [server, "dev"]) as beside:
            begun = time.monotonic()
            for platform in (dev, beside):
                filled = run([server.replace("openbell-server", "openbell"), *FILL], here, 120, platform.environment)
                assert "FILLED" in filled
            seconds = dev.seconds_to_ready + (time.monotonic() - begun) / 2
            if figures.size == "full":
                figures.at_most("seconds from starting dev to its first fill", round(seconds, 1), 30)
            _readme_intents(figures, dev)
            _resources(figures, dev)
            addresses = {platform.environment["OPENBELL_URL"] for platform in (dev, beside)}
            figures.exactly("platforms side by side", len(addresses), 2)
            for platform in (dev, beside):
                processes, ports = left_after_interrupt(platform)
                figures.exactly("processes left after Ctrl-C", processes, 0)
                figures.exactly("ports left after Ctrl-C", ports, 0)
    _help(figures, server)


FILL = ["intents", "create", "AAPL", "BUY", "10", "--wait"]


def _first_block(figures: Figures, checkout: Path) -> None:
    """README's three commands; the clone is made already, of what is committed here."""
    language, text = readme_blocks()[0]
    assert language == "bash"
    commands = text.strip().splitlines()[1:]
    begun = time.monotonic()
    for command in commands:
        run(["bash", "-euc", command], checkout, 300)
    figures.exactly("README commands that ran", len(commands), 2)
    figures.shown("seconds from clone to the end of the demo", round(time.monotonic() - begun, 1))


def _readme_intents(figures: Figures, dev: RunningDev) -> None:
    """README's curl and Python blocks, as printed."""
    python = {"PATH": f"{ROOT / '.venv/bin'}:/usr/local/bin:/usr/bin:/bin"}
    recorded = 0
    for language, text in readme_blocks()[2:]:
        command = ["bash", "-euc", text] if language == "bash" else [sys.executable, "-c", text]
        output = run(command, dev.folder, 60, dev.environment | python)
        recorded += "intent_id" in output or "FILLED" in output
    figures.exactly("README intents recorded", recorded, 2)


def _resources(figures: Figures, dev: RunningDev) -> None:
    begun, used = time.monotonic(), dev.cpu_seconds()
    time.sleep(IDLE_SECONDS[figures.size])
    share = (dev.cpu_seconds() - used) / (time.monotonic() - begun)
    figures.shown("memory of the whole stack, MB", round(dev.memory_megabytes()))
    figures.shown("idle CPU of the whole stack, percent of one core", round(share * 100, 1))


def _help(figures: Figures, server: str) -> None:
    program = server.replace("openbell-server", "openbell")
    times = []
    for _ in range(HELP_RUNS[figures.size]):
        begun = time.monotonic()
        run([program, "--help"], ROOT, 60)
        times.append(time.monotonic() - begun)
    figure, median = "seconds for openbell --help, median", round(statistics.median(times), 3)
    if figures.size == "full":
        figures.at_most(figure, median, 0.3)
    else:
        figures.shown(figure, median)

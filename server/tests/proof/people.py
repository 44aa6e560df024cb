"""What somebody meets who has never heard of us: the quickstart as printed, the pages, the library and the commands."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from proof.figures import Figures
from proof.journeys import developer, operator, risk
from proof.journeys.steps import failed_steps
from support.environment.doc_blocks import EXECUTED, ROOT, blocks, pages
from support.environment.front_door import clone, run, running_dev
from support.rest.endpoint_calls import CALLS
from support.rest.endpoint_requests import OPERATIONS, asked_by_clients, asked_by_command

QUICKSTART = "docs/quickstart.md"
COMMANDS_MAX = 5
SECONDS_MAX = 300
PACKAGES_MAX = 15
IMPORT_SECONDS_MAX = 0.3
IMPORTS = 5
JOURNEYS = {"developer": developer.STEPS, "risk manager": risk.STEPS, "operator": operator.STEPS}
# What every environment has, and what was asked for.
NOT_BROUGHT = {"pip", "setuptools", "openbell"}


def prove(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _quickstart(figures, Path(folder))
        _install(figures, Path(folder))
    _pages(figures)
    _endpoints(figures)


def _quickstart(figures: Figures, folder: Path) -> None:
    """From an empty folder to the first fill; what is cloned is what is committed here."""
    first, dev, fill = [block.text.strip() for block in blocks(QUICKSTART) if block.tag == "bash"][:3]
    commands = [line for text in (first, dev, fill) for line in text.splitlines()]
    assert commands[0].startswith("git clone "), commands
    begun = time.monotonic()
    if figures.size == "full":
        checkout = clone(folder)
        for command in first.splitlines()[1:]:
            run(["bash", "-euc", command], checkout, SECONDS_MAX)
        start = ["bash", "-euc", f"exec {dev}"]
    else:
        checkout = folder / "openbell"
        checkout.mkdir()
        (checkout / ".venv").symlink_to(ROOT / ".venv")
        start = [str(ROOT / ".venv/bin/openbell-server"), "dev"]
    with running_dev(checkout, start) as running:
        told = run(["bash", "-euc", fill], checkout, 60)
        seconds = round(time.monotonic() - begun, 1)
        _journeys(figures, checkout)
        running.interrupt()
    figures.at_most("commands of the quickstart to a first fill", len(commands), COMMANDS_MAX)
    figures.exactly("first fills", told.count("FILLED"), 1)
    if figures.size == "full":
        figures.at_most("seconds from an empty folder to the first fill, with what is installed", seconds, SECONDS_MAX)


def _journeys(figures: Figures, checkout: Path) -> None:
    for name, steps in JOURNEYS.items():
        walked = [step for step in steps if figures.size == "full" or not step.only_full]
        failed = failed_steps(walked, checkout)
        figures.at_least(f"{name}: steps", len(walked), 10)
        figures.exactly(f"{name}: steps that need a second try", len(failed), 0)


def _install(figures: Figures, folder: Path) -> None:
    """What the client library brings along, and how long it takes to be there."""
    run([sys.executable, "-m", "venv", "fresh"], folder, 60)
    python = str(folder / "fresh/bin/python")
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT / "sdk")], folder, 180)
    listed = json.loads(run([python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"], folder, 60))
    brought = {package["name"] for package in listed} - NOT_BROUGHT
    figures.at_most("packages that `pip install ./sdk` brings", len(brought), PACKAGES_MAX)
    told = run([str(folder / "fresh/bin/openbell"), "--help"], folder, 60)
    figures.exactly("without gRPC installed, the command answers", int("intents" in told), 1)
    if figures.size == "full":
        # Once before, so that nothing is compiled any more.
        run([python, "-c", "from openbell import Client"], folder, 60)
        seconds = round(_seconds_to(python, folder, "import openbell"), 3)
        figures.at_most(f"seconds of `import openbell`, median of {IMPORTS}", seconds, IMPORT_SECONDS_MAX)
        seconds = round(_seconds_to(python, folder, "from openbell import Client"), 3)
        figures.shown(f"seconds of `from openbell import Client`, median of {IMPORTS}", seconds)


def _seconds_to(python: str, folder: Path, statement: str) -> float:
    program = f"import time; begun = time.perf_counter(); {statement}; print(time.perf_counter() - begun)"
    return statistics.median(float(run([python, "-c", program], folder, 60)) for _ in range(IMPORTS))


def _pages(figures: Figures) -> None:
    """Every block is run by the tests of the whole stack, and links are followed: in the gate they are counted."""
    executed = [block for page in pages() for block in blocks(page) if block.tag in EXECUTED]
    figures.shown("pages with code", len({block.page for block in executed}))
    figures.shown("code blocks", len(executed))
    if figures.size == "full":
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    f"--junitxml={report}",
                    "server/tests/e2e/test_documentation.py",
                ],
                cwd=ROOT,
                timeout=600,
                check=False,
                stdout=sys.stderr,
            )
            suite = ET.parse(report).getroot()[0]
        failed = sum(int(suite.attrib[kind]) for kind in ("failures", "errors"))
        figures.exactly("pages or examples that fail", failed, 0)
        links = subprocess.run([sys.executable, "tools/docs.py"], cwd=ROOT, timeout=120, check=False, stdout=sys.stderr)
        figures.exactly("documentations with a broken link", int(links.returncode != 0), 0)
        figures.at_least("pages and examples that ran", int(suite.attrib["tests"]), len({b.page for b in executed}) - 1)


def _endpoints(figures: Figures) -> None:
    figures.shown("endpoints", len(OPERATIONS))
    # Each is asked for by a test of the library; here, in the gate, some of them are.
    known = sorted(OPERATIONS.keys() & CALLS.keys())[:: 1 if figures.size == "full" else 10]
    asked = {operation: (asked_by_clients(operation), asked_by_command(operation)) for operation in known}
    missing = len(OPERATIONS.keys() - CALLS.keys())
    lacking = sum(clients != (True, True) for clients, _ in asked.values())
    figures.exactly("endpoints missing in a client", missing + lacking, 0)
    figures.exactly("endpoints missing in the command line", missing + sum(not by for _, by in asked.values()), 0)

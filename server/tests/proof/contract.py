"""Every statement of the founding contract against its tests, all of them run now."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from proof.figures import Figures
from support.history.contract_statements import OPEN_POINTS, ROOT, Outcome, Statement, outcome_of, outcomes, statements

RUN_SECONDS = 540
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout")


def prove(figures: Figures) -> None:
    said = statements()
    named = sorted({test for statement in said for test in statement.tests})
    # A database for each test takes its time: the gate runs every third one.
    tests = named if figures.size == "full" else named[::3]
    by_test = _run(tests)
    kinds: dict[Outcome, list[Statement]] = {outcome: [] for outcome in Outcome}
    for statement in (statement for statement in said if statement.tests):
        kinds[outcome_of(statement, by_test)].append(statement)
    left_open = [statement for statement in said if statement.left_open]
    page = OPEN_POINTS.read_text()
    unanswered = [statement for statement in left_open if statement.says not in page]
    nowhere = [statement for statement in said if not (statement.tests or statement.left_open or statement.open)]
    uncovered = [*nowhere, *kinds[Outcome.FAILED]]
    if figures.size == "full":
        uncovered += kinds[Outcome.NOT_RUN]
    for statement in (*uncovered, *unanswered):
        print(f"{statement.id} ({statement.where}): {statement.says}")
    figures.shown("statements of the founding contract", len(said))
    figures.shown("tests that they name", len(named))
    figures.exactly("tests run" if tests == named else "tests run, every third one", len(by_test), len(tests))
    figures.shown("statements covered by tests that passed", len(kinds[Outcome.PASSED]))
    if figures.size == "gate":
        figures.shown("statements with a test that only the full size runs", len(kinds[Outcome.NOT_RUN]))
    figures.shown("statements that are open: not built", sum(bool(statement.open) for statement in said))
    figures.exactly("statements uncovered", len(uncovered), 0)
    figures.shown("statements that the contract leaves open", len(left_open))
    figures.exactly("open statements that our page does not answer", len(unanswered), 0)


def _run(tests: list[str]) -> dict[str, Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # One process with few plug-ins: most of the time would go into starting more of either.
        command = [sys.executable, "-m", "pytest", "-q", *PLUGINS, f"--junitxml={report}"]
        names = [f"server/tests/{test}" for test in tests]
        done = subprocess.run(
            [*command, *names],
            cwd=ROOT,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            print(done.stdout[-4000:], done.stderr[-4000:])
        return outcomes(report) if report.exists() else {}

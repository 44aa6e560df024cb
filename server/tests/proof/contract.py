"""Every statement of the founding contract against its tests, all of them run now."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from proof.figures import Figures
from seed_contract import OPEN_POINTS, ROOT, Outcome, Statement, outcome_of, outcomes, statements

RUN_SECONDS = {"full": 540, "gate": 120}
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout")


def prove(figures: Figures) -> None:
    said = statements()
    tests = sorted({test for statement in said for test in statement.tests})
    by_test = _run(tests, RUN_SECONDS[figures.size])
    page = OPEN_POINTS.read_text()
    covered: list[Statement] = []
    waiting: list[Statement] = []
    uncovered: list[Statement] = []
    for statement in (statement for statement in said if statement.tests):
        outcome = outcome_of(statement, by_test)
        kind = {Outcome.PASSED: covered, Outcome.WAITING: waiting}.get(outcome, uncovered)
        kind.append(statement)
    left_open = [statement for statement in said if statement.left_open]
    unanswered = [statement for statement in left_open if statement.says not in page]
    not_built = [statement for statement in said if statement.open]
    nowhere = [s for s in said if not (s.tests or s.left_open or s.open)]
    _tell("uncovered", uncovered)
    _tell("unanswered", unanswered)
    figures.shown("statements of the founding contract", len(said))
    figures.shown("tests that they name", len(tests))
    figures.shown("statements covered by tests that passed", len(covered))
    figures.shown("statements whose endpoint is not there yet", len(waiting))
    figures.shown("statements that are open: not built", len(not_built))
    figures.exactly("statements uncovered", len(uncovered) + len(nowhere), 0)
    figures.shown("statements that the contract leaves open", len(left_open))
    figures.exactly("open statements that our page does not answer", len(unanswered), 0)


def _run(tests: list[str], seconds: int) -> dict[str, Outcome]:
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
            timeout=seconds,
            check=False,
        )
        if done.returncode not in {0, 1}:
            print(done.stdout[-4000:], done.stderr[-4000:])
        return outcomes(report) if report.exists() else {}


def _tell(what: str, found: list[Statement]) -> None:
    for statement in found:
        print(f"{what} {statement.id} ({statement.where}): {statement.says}")

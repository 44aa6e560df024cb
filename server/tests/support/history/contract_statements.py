"""The founding contract as a list of statements, and what became of each when its tests ran."""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

TESTS = Path(__file__).parents[2]
ROOT = TESTS.parents[1]
OPEN_POINTS = ROOT / "docs/open-points.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that the contract says; its tests are `file::function`, from server/tests on."""

    id: str
    where: str
    says: str
    tests: tuple[str, ...] = ()
    # The contract leaves it open, and our page answers it.
    left_open: bool = False
    # Why it is not built yet.
    open: str = ""


class Outcome(StrEnum):
    """What became of one test function, over all its parameters: the worst of them."""

    PASSED = "passed"
    NOT_RUN = "not run"
    FAILED = "failed"


def statements() -> list[Statement]:
    """All of them, with the names of files written out."""
    written = tomllib.loads((Path(__file__).with_suffix(".toml")).read_text())
    files: dict[str, str] = written["files"]
    found = []
    for row in written["statement"]:
        tests = (test.partition("::") for test in row.pop("tests", ()))
        found.append(Statement(**row, tests=tuple(f"{files[file]}::{name}" for file, _, name in tests)))
    return found


def outcomes(report: Path) -> dict[str, Outcome]:
    """By test function, from pytest's JUnit report; a test that was skipped has shown nothing."""
    worst: dict[str, Outcome] = {}
    order = list(Outcome)
    for case in ET.parse(report).iter("testcase"):
        module = case.attrib["classname"].removeprefix("server.tests.").replace(".", "/")
        test = f"{module}.py::{case.attrib['name'].partition('[')[0]}"
        is_bad = any(case.find(end) is not None for end in ("failure", "error", "skipped"))
        outcome = Outcome.FAILED if is_bad else Outcome.PASSED
        worst[test] = max(worst.get(test, Outcome.PASSED), outcome, key=order.index)
    return worst


def outcome_of(statement: Statement, by_test: dict[str, Outcome]) -> Outcome:
    """The worst of its tests; one without tests has not been run."""
    order = list(Outcome)
    found = [by_test.get(test, Outcome.NOT_RUN) for test in statement.tests]
    return max(found, key=order.index) if found else Outcome.NOT_RUN

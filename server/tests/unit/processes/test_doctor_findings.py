"""A check that breaks, hangs or lacks what it needs says so, and hides no other."""

import asyncio
from typing import Any, cast

import pytest

from openbell_server.processes.doctor import findings
from openbell_server.processes.doctor.findings import Check, Level, OutOfReach, Result, Target, fine, look_over, problem
from openbell_server.processes.doctor.run_checks import CHECKS
from openbell_server.processes.doctor.settings_checks import CHECKS as SETTINGS_CHECKS
from openbell_server.settings import Settings


def a_patient(process: str = "api", **settings: Any) -> Target:
    return Target(Settings(**settings), process, cast("Any", None))


async def breaks(_: Target) -> Result:
    raise ZeroDivisionError("at postgresql://app:planted@db")


async def hangs(_: Target) -> Result:
    await asyncio.Event().wait()
    return None


async def lacks(_: Target) -> Result:
    raise OutOfReach("the database was not reached")


async def tells(_: Target) -> Result:
    return problem("It is at postgresql://app:planted@db.", "Mend it.")


async def does_not_concern(_: Target) -> Result:
    return None


async def is_fine(_: Target) -> Result:
    return fine("All is well.")


async def test_one_check_hides_no_other_and_no_sentence_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "CHECK_SECONDS", 0.2)
    looks = (breaks, hangs, lacks, tells, does_not_concern, is_fine)
    found = await look_over(a_patient(), [Check("area", look.__name__, look) for look in looks])
    assert {each.check: each.level for each in found} == {
        "breaks": Level.CANNOT_TELL,
        "hangs": Level.CANNOT_TELL,
        "lacks": Level.CANNOT_TELL,
        "tells": Level.PROBLEM,
        "is_fine": Level.OK,
    }
    assert all(each.fix for each in found if each.level is not Level.OK)
    assert "planted" not in repr(found)


async def test_only_checks_of_the_process_are_made() -> None:
    checks = [Check("area", "for_executors", is_fine, frozenset({"executor"})), Check("area", "for_all", is_fine)]
    assert [each.check for each in await look_over(a_patient("relay"), checks)] == ["for_all"]


def test_no_two_checks_have_the_same_name() -> None:
    names = [(check.area, check.name) for check in CHECKS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("process", "settings", "check", "level"),
    [
        ("api", {"cursor_secret": ""}, "cursor_secret", Level.PROBLEM),
        ("api", {"cursor_secret": "short"}, "cursor_secret", Level.PROBLEM),
        ("api", {"cursor_secret": "ab" * 40}, "cursor_secret", Level.PROBLEM),
        ("api", {"cursor_secret": "0123456789abcdef" * 4}, "cursor_secret", Level.OK),
        ("api", {"api_host": "0.0.0.0"}, "listeners", Level.WARNING),
        ("api", {"stream_host": "0.0.0.0"}, "listeners", Level.OK),
        ("stream", {"stream_host": "::"}, "listeners", Level.WARNING),
        ("stream", {"stream_host": "::1"}, "listeners", Level.OK),
        ("relay", {"operations_port": 9000, "operations_host": "0.0.0.0"}, "operations_port", Level.WARNING),
        ("relay", {"operations_port": 0}, "operations_port", Level.WARNING),
        ("relay", {"operations_port": 9000}, "operations_port", Level.OK),
        ("paper", {"log_level": "LOUD"}, "logs", Level.PROBLEM),
        ("paper", {"crash_at": "api.after_accept"}, "crash_point", Level.PROBLEM),
    ],
)
async def test_settings_are_judged(process: str, settings: dict[str, Any], check: str, level: Level) -> None:
    found = await look_over(a_patient(process, **settings), SETTINGS_CHECKS)
    assert [each.level for each in found if each.check == check] == [level]

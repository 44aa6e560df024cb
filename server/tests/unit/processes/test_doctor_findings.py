"""A check that breaks, hangs or lacks what it needs says so, and hides no other."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from openbell_server.cli import app
from openbell_server.processes.doctor import findings, run_checks
from openbell_server.processes.doctor.findings import (
    Check,
    Finding,
    Level,
    OutOfReach,
    Result,
    Target,
    fine,
    look_over,
    problem,
    warning,
)
from openbell_server.processes.doctor.run_checks import CHECKS, report
from openbell_server.processes.doctor.settings_checks import CHECKS as SETTINGS_CHECKS
from openbell_server.settings import Settings
from openbell_server.telemetry import logs


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


async def may_fail_later(_: Target) -> Result:
    return warning("It works.", "Look at it soon.")


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


@pytest.mark.parametrize(
    ("looks", "code"),
    [
        ((is_fine, may_fail_later), 0),
        ((is_fine, tells), 1),
        ((is_fine, lacks), 2),
        ((lacks, tells, is_fine), 1),
    ],
)
async def test_the_exit_code_tells_well_from_wrong_and_from_not_known(
    looks: tuple[Callable[[Target], Awaitable[Result]], ...], code: int
) -> None:
    found = await look_over(a_patient(), [Check("area", look.__name__, look) for look in looks])
    assert report("api", found)["exit_code"] == code


def test_the_command_ends_2_when_it_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cannot_tell(*_: object) -> list[Finding]:
        return await look_over(a_patient(), [Check("area", look.__name__, look) for look in (lacks, is_fine)])

    monkeypatch.setattr(run_checks, "run_checks", cannot_tell)
    monkeypatch.setattr(logs, "configure_logging", lambda *_: None)
    for words in ([], ["--json"]):
        ended = CliRunner().invoke(app, ["doctor", *words])
        assert ended.exit_code == 2, ended.output
    assert json.loads(ended.output)["exit_code"] == 2


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

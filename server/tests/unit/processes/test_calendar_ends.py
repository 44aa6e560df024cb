"""Calendars that end soon are told of in time."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.domain.markets.calendars import MarketCalendars
from openbell_server.processes.calendar_expiry import WARNED_DAYS, ending_calendars, watch_calendars
from openbell_server.processes.doctor import calendar_checks
from openbell_server.processes.doctor.findings import Level, Target, look_over
from openbell_server.processes.operations_port import Operations
from openbell_server.settings import Settings


def known_for(days: int) -> MarketCalendars:
    markets = load_calendars().markets
    last = datetime.now(UTC).date() + timedelta(days=days)
    return MarketCalendars({**markets, "XNYS": replace(markets["XNYS"], valid_until=last)})


def test_a_calendar_is_told_of_ninety_days_before_it_ends() -> None:
    calendars = load_calendars()
    last = calendars.markets["XNYS"].valid_until
    assert last is not None

    def ending(day: date) -> dict[str, int]:
        return ending_calendars(calendars, datetime(day.year, day.month, day.day, tzinfo=UTC))

    assert ending(last - timedelta(days=WARNED_DAYS + 1)) == {}
    assert ending(last - timedelta(days=WARNED_DAYS))["XNYS"] == WARNED_DAYS
    assert ending(last + timedelta(days=1))["XNYS"] == -1


@pytest.mark.parametrize(
    ("days", "level"), [(91, Level.OK), (90, Level.WARNING), (0, Level.WARNING), (-1, Level.PROBLEM)]
)
async def test_the_doctor_tells_of_it(monkeypatch: pytest.MonkeyPatch, days: int, level: Level) -> None:
    monkeypatch.setattr(calendar_checks, "load_calendars", lambda: known_for(days))
    target = Target(Settings(), "api", cast("Any", None))
    (finding,) = await look_over(target, calendar_checks.CHECKS)
    assert finding.level is level


async def test_the_doctor_tells_of_a_calendar_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {name: market for name, market in load_calendars().markets.items() if name != "XLON"}
    monkeypatch.setattr(calendar_checks, "load_calendars", lambda: MarketCalendars(fewer))
    (finding,) = await look_over(Target(Settings(), "api", cast("Any", None)), calendar_checks.CHECKS)
    assert (finding.level, "XLON" in finding.what) == (Level.PROBLEM, True)


def test_the_days_left_are_a_metric_of_each_calendar() -> None:
    operations = Operations("api")
    watch_calendars(operations, known_for(7))
    assert 'openbell_calendar_valid_days{calendar="XNYS"} 7.0' in operations.instruments.text().decode()

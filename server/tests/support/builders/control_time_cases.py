"""What the controls of time say of commands, each at its edges; their zones and calendars are tried elsewhere."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from openbell_server.domain.controls.facts import Facts
from openbell_server.domain.markets.calendars import Hours, Market, MarketCalendars, Session
from support.builders.control_commands import Case, asks, cases_of, knows, missing_of

# A Friday on which the window and the market open at 14:30 and close at 21:00.
DAY = date(2026, 3, 6)
OPENS, CLOSES = datetime(2026, 3, 6, 14, 30, tzinfo=UTC), datetime(2026, 3, 6, 21, tzinfo=UTC)
HAIR = timedelta(microseconds=1)
MARKET = Market(
    name="XNYS",
    zone=ZoneInfo("America/New_York"),
    valid_from=DAY,
    valid_until=DAY,
    version="made up",
    hours={Session.REGULAR: [Hours(int(OPENS.timestamp()), int(CLOSES.timestamp()), DAY, DAY)]},
)
CALENDARS = MarketCalendars({"XNYS": MARKET})


def _hours(code: str, parameters: dict[str, Any], **known: Any) -> Iterator[Case]:
    def at(now: datetime) -> Facts:
        return knows(now=now, **known)

    yield from cases_of(
        code,
        parameters,
        ("pass", "inside", asks(), at(OPENS + timedelta(hours=1)), True),
        ("edge", "as it opens", asks(), at(OPENS), True),
        ("edge", "a hair before it opens", asks(), at(OPENS - HAIR), False),
        ("edge", "a hair before it closes", asks(), at(CLOSES - HAIR), True),
        ("edge", "as it closes", asks(), at(CLOSES), False),
        ("refuse", "after it closed", asks(), at(CLOSES + timedelta(hours=1)), False),
    )


def _times() -> Iterator[Case]:
    window = {"trading_start": "09:30:00", "trading_end": "16:00:00", "timezone": "America/New_York"}
    yield from _hours("OUTSIDE_TRADING_WINDOW", window)
    yield from _hours("MARKET_CLOSED", {"calendar": "XNYS"}, calendars=CALENDARS)
    beyond = knows(now=OPENS + timedelta(days=30), calendars=CALENDARS)
    yield from missing_of("MARKET_CLOSED", {"calendar": "XNYS"}, ("a day that the calendar has not", asks(), beyond))
    second = timedelta(seconds=1)
    yield from cases_of(
        "STALE_ORDER",
        {"max_age_millis": 1000},
        ("pass", "young", asks(age=HAIR), knows(), True, {"limit": 1000, "observed": 1}),
        ("edge", "as old as it may be", asks(age=second), knows(), True, {"observed": 1000}),
        ("edge", "older by a microsecond", asks(age=second + HAIR), knows(), False, {"observed": 1001}),
        ("refuse", "too old", asks(age=second * 2), knows(), False),
    )


TIME_CASES: tuple[Case, ...] = tuple(_times())

"""The paper market's day."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from openbell_exchange.days import due_at
from openbell_server.domain.orders.order_terms import TimeInForce


@pytest.mark.parametrize(
    ("time_in_force", "now", "due"),
    [
        (TimeInForce.DAY, "2026-11-15T00:00", "2026-11-15T21:00"),
        (TimeInForce.DAY, "2026-11-15T20:00", "2026-11-15T21:00"),
        (TimeInForce.DAY, "2026-11-15T20:01", "2026-11-16T21:00"),
        (TimeInForce.DAY, "2026-11-15T23:30", "2026-11-16T21:00"),
        (TimeInForce.EXT, "2026-12-31T21:00", "2027-01-01T21:00"),
        (TimeInForce.AT_OPEN, "2026-11-15T13:30", "2026-11-15T14:30"),
        (TimeInForce.AT_OPEN, "2026-11-15T13:31", "2026-11-16T14:30"),
        (TimeInForce.AT_CLOSE, "2026-11-15T13:31", "2026-11-15T21:00"),
    ],
)
def test_an_order_meets_the_first_bell_that_is_an_hour_away(time_in_force: TimeInForce, now: str, due: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    expected = datetime.fromisoformat(due).replace(tzinfo=UTC)
    assert due_at(time_in_force, moment) == expected
    assert due_at(time_in_force, moment.astimezone(timezone(timedelta(hours=-5)))) == expected


@pytest.mark.parametrize(
    "time_in_force",
    [TimeInForce.GOOD_TILL_CANCEL, TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL],
)
def test_other_orders_meet_none(time_in_force: TimeInForce) -> None:
    assert due_at(time_in_force, datetime(2026, 11, 15, tzinfo=UTC)) is None

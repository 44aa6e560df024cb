"""The table of market sessions that is shipped: whole, in order, and right where people know the answer."""

from datetime import UTC, date, datetime, time, timedelta
from importlib import resources
from itertools import pairwise

import pytest

from openbell_server.adapters.calendars.table import ALWAYS_OPEN, load_calendars
from openbell_server.domain.markets.calendars import CALENDARS, Hours, Market, Session

TABLE = load_calendars()
TABLED = sorted(set(CALENDARS) - {ALWAYS_OPEN})


def market(name: str) -> Market:
    found = TABLE.find(name)
    assert found is not None
    return found


def local(name: str, day: str, at: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), time.fromisoformat(at), market(name).zone).astimezone(UTC)


def hours_of(name: str, day: str, session: Session = Session.REGULAR) -> list[str]:
    """The hours of a trade date as clocks there show them."""
    chosen = date.fromisoformat(day)
    found = [row for kind, row in market(name).between(chosen, chosen) if kind is session]
    return [f"{shown(name, row.opens)}-{shown(name, row.closes)}" for row in found]


def shown(name: str, instant: int) -> str:
    return datetime.fromtimestamp(instant, market(name).zone).strftime("%a %H:%M")


def test_the_table_has_every_calendar_that_may_be_named_and_no_other() -> None:
    assert set(TABLE.markets) == set(CALENDARS)


def test_the_table_is_small_enough_to_be_read_whole() -> None:
    assert len(resources.files("openbell_server.adapters.calendars").joinpath("sessions.json").read_bytes()) < 300_000


@pytest.mark.parametrize("name", TABLED)
def test_sessions_are_in_order_apart_and_of_a_day_at_most(name: str) -> None:
    found = market(name)
    for rows in found.hours.values():
        assert list(rows) == sorted(rows)
        assert all(before.closes <= after.opens for before, after in pairwise(rows))
        assert all(0 < row.closes - row.opens <= 86_400 for row in rows)
        assert all(timedelta(0) <= row.trade_date - row.session_date <= timedelta(days=1) for row in rows)
        # No market closes for two weeks, and none trades on a Saturday.
        assert all(after.opens - before.closes < 14 * 86_400 for before, after in pairwise(rows))
        assert all(row.trade_date.weekday() < 5 for row in rows)
        assert found.valid_until is not None
        assert rows[0].trade_date - found.valid_from < timedelta(days=7)
        assert rows[-1].trade_date > found.valid_until


@pytest.mark.parametrize("name", ["XNYS", "XNAS", "ARCX"])
def test_extended_hours_are_around_the_regular_ones_and_nights_end_where_they_begin(name: str) -> None:
    by_kind: dict[Session, dict[date, Hours]] = {
        kind: {row.trade_date: row for row in rows} for kind, rows in market(name).hours.items()
    }
    assert set(by_kind) == {Session.REGULAR, Session.EXTENDED, Session.OVERNIGHT}
    for day, regular in by_kind[Session.REGULAR].items():
        extended, night = by_kind[Session.EXTENDED][day], by_kind[Session.OVERNIGHT][day]
        assert night.closes == extended.opens < regular.opens < regular.closes < extended.closes
        assert shown(name, night.opens)[4:] == "20:00"
    assert len({len(rows) for rows in by_kind.values()}) == 1


KNOWN = [
    ("XNYS", "2026-11-25", ["Wed 09:30-Wed 16:00"]),
    ("XNYS", "2026-11-26", []),
    ("XNYS", "2026-11-27", ["Fri 09:30-Fri 13:00"]),
    ("XNYS", "2026-12-24", ["Thu 09:30-Thu 13:00"]),
    ("XNYS", "2026-12-25", []),
    ("XNYS", "2026-07-03", []),
    ("XNYS", "2025-01-09", []),
    ("XNAS", "2026-11-27", ["Fri 09:30-Fri 13:00"]),
    ("XLON", "2026-12-24", ["Thu 08:00-Thu 12:30"]),
    ("XLON", "2026-12-28", []),
    ("XETR", "2026-12-24", []),
    ("XPAR", "2026-12-24", ["Thu 09:00-Thu 14:05"]),
    ("XTSE", "2026-07-01", []),
    ("XHKG", "2026-11-27", ["Fri 09:30-Fri 12:00", "Fri 13:00-Fri 16:00"]),
    ("XTKS", "2026-11-27", ["Fri 09:00-Fri 11:30", "Fri 12:30-Fri 15:30"]),
    ("XTKS", "2026-11-23", []),
    ("XASX", "2026-11-27", ["Fri 10:00-Fri 16:00"]),
    ("CME_EQUITY", "2026-11-25", ["Tue 17:00-Wed 16:00"]),
    ("CME_EQUITY", "2026-11-26", ["Wed 17:00-Thu 12:00"]),
    ("CME_EQUITY", "2026-12-25", []),
]


@pytest.mark.parametrize(("name", "day", "hours"), KNOWN, ids=[f"{name} {day}" for name, day, _ in KNOWN])
def test_days_that_people_know_are_as_they_know_them(name: str, day: str, hours: list[str]) -> None:
    assert hours_of(name, day) == hours


def test_half_days_end_extended_hours_early_and_a_holiday_has_no_night_before() -> None:
    assert hours_of("XNYS", "2026-11-25", Session.EXTENDED) == ["Wed 04:00-Wed 20:00"]
    assert hours_of("XNYS", "2026-11-27", Session.EXTENDED) == ["Fri 04:00-Fri 17:00"]
    assert hours_of("XNYS", "2026-11-26", Session.OVERNIGHT) == []
    assert hours_of("XNYS", "2026-11-27", Session.OVERNIGHT) == ["Thu 20:00-Fri 04:00"]
    assert hours_of("XNYS", "2026-11-30", Session.OVERNIGHT) == ["Sun 20:00-Mon 04:00"]


OPENINGS = [
    ("over a holiday", "XNYS", "2026-11-25", "16:00", Session.REGULAR, "2026-11-27", "09:30"),
    ("over a break", "XTKS", "2026-11-27", "11:30", Session.REGULAR, "2026-11-27", "12:30"),
    ("over the change of the clocks", "XNYS", "2026-10-30", "16:00", Session.REGULAR, "2026-11-02", "09:30"),
    ("from an early end", "XNYS", "2026-11-27", "17:00", Session.EXTENDED, "2026-11-30", "04:00"),
    ("any session after a weekend", "XNYS", "2026-11-27", "17:00", Session.ANY, "2026-11-29", "20:00"),
    ("after the hour without trading", "CME_EQUITY", "2026-11-25", "16:00", Session.REGULAR, "2026-11-25", "17:00"),
]


@pytest.mark.parametrize(
    ("name", "day", "at", "session", "next_day", "opens"), [each[1:] for each in OPENINGS], ids=[o[0] for o in OPENINGS]
)
def test_a_market_that_has_just_closed_tells_when_it_opens(
    name: str, day: str, at: str, session: Session, next_day: str, opens: str
) -> None:
    closed_at = local(name, day, at)
    assert market(name).open_at(closed_at, session) is None
    assert market(name).open_at(closed_at - timedelta(microseconds=1), session) is not None
    assert market(name).next_changes(closed_at, session)[0] == local(name, next_day, opens)


def test_a_week_of_any_session_closes_once() -> None:
    now = local("XNYS", "2026-11-17", "10:00")
    assert market("XNYS").next_changes(now, Session.ANY) == (
        local("XNYS", "2026-11-22", "20:00"),
        local("XNYS", "2026-11-20", "20:00"),
    )


def test_coins_are_always_traded() -> None:
    coins = market(ALWAYS_OPEN)
    now = datetime(2040, 1, 1, 3, tzinfo=UTC)
    assert coins.covers(now)
    hours = coins.open_at(now, Session.REGULAR)
    assert hours is not None
    assert (hours.trade_date, hours.session_date) == (date(2040, 1, 1), date(2040, 1, 1))
    assert coins.next_changes(now, Session.ANY) == (None, None)
    assert coins.open_at(now, Session.OVERNIGHT) is None


def test_a_calendar_ends_with_its_last_day() -> None:
    last = market("XNYS").valid_until
    assert last is not None
    assert market("XNYS").covers(local("XNYS", last.isoformat(), "23:59"))
    assert not market("XNYS").covers(local("XNYS", (last + timedelta(days=1)).isoformat(), "00:00"))
    assert TABLE.days_left(last - timedelta(days=3))["XNYS"] == 3
    assert ALWAYS_OPEN not in TABLE.days_left(last)

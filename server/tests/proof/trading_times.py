"""Windows open by the local clock in every zone and at every change of it, and markets as the table says."""

import json
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from importlib import resources
from typing import Final

from openbell_server.adapters.calendars.table import ALWAYS_OPEN, load_calendars
from openbell_server.domain.markets.calendars import Market, Session
from openbell_server.domain.markets.trading_windows import DAYS, Day, TradingWindow
from openbell_server.domain.time_zones import TZDATA_VERSION, zone_of
from proof.figures import Figures
from support.builders.tzif_oracle import DAY, ZoneFile, days_since_1970, opened_on, read_zone, zone_names

FIRST_YEAR, LAST_YEAR = 2020, 2037
# One zone in so many, and one session in so many.
EVERY_ZONE = {"full": 1, "gate": 41}
EVERY_SESSION = {"full": 1, "gate": 11}
MICROS = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NY: Final = "America/New_York"
WORKDAYS: Final = (Day.MONDAY, Day.TUESDAY, Day.WEDNESDAY, Day.THURSDAY, Day.FRIDAY)


def window(start: str = "", end: str = "", zone: str | None = NY, days: tuple[Day, ...] | None = None) -> TradingWindow:
    return TradingWindow(
        trading_start=time.fromisoformat(start) if start else None,
        trading_end=time.fromisoformat(end) if end else None,
        timezone=zone,
        days=days,
    )


# An instant, a window, and the date on which what is open then opened.
VECTORS: Final = (
    ("2026-03-06T14:30:00Z", window("09:30", "16:00"), "2026-03-06"),
    ("2026-03-06T14:29:59.999999Z", window("09:30", "16:00"), None),
    ("2026-03-06T21:00:00Z", window("09:30", "16:00"), None),
    ("2026-03-06T13:30:00Z", window("09:30", "16:00"), None),
    ("2026-03-09T13:30:00Z", window("09:30", "16:00"), "2026-03-09"),
    ("2026-03-06T04:59:59Z", window("20:00", "04:00"), "2026-03-05"),
    ("2026-03-06T08:59:59Z", window("20:00", "04:00"), "2026-03-05"),
    ("2026-03-06T09:00:00Z", window("20:00", "04:00"), None),
    ("2026-03-07T06:00:00Z", window("20:00", "04:00", days=WORKDAYS), "2026-03-06"),
    ("2026-03-02T02:00:00Z", window("20:00", "04:00", days=WORKDAYS), None),
    ("2026-03-02T06:00:00Z", window("20:00", "04:00", days=WORKDAYS), None),
    ("2026-03-08T06:59:59Z", window("02:15", "02:45"), None),
    ("2026-03-08T07:00:00Z", window("02:15", "02:45"), None),
    ("2026-11-01T05:30:00Z", window("01:00", "02:00"), "2026-11-01"),
    ("2026-11-01T06:30:00Z", window("01:00", "02:00"), "2026-11-01"),
    ("2026-03-06T20:00:01Z", window("15:00"), "2026-03-06"),
    ("2026-03-06T05:00:00Z", window("", "12:00"), "2026-03-06"),
    ("2026-03-06T03:45:00Z", window("09:15", "15:30", "Asia/Kolkata"), "2026-03-06"),
)
# Of the day, over midnight, inside the hours that clocks leave out or repeat, with one end, and on some days.
WINDOWS: Final = (
    window("09:30", "16:00"),
    window("20:00", "04:00"),
    window("20:00", "04:00", days=WORKDAYS),
    window("02:15", "02:45"),
    window("01:00", "02:00"),
    window("23:30", "00:30", days=(Day.SATURDAY,)),
    window("00:00", "00:00:01"),
    window("15:00"),
    window("", "12:00", days=(Day.SUNDAY,)),
    window(days=(Day.SUNDAY, Day.MONDAY)),
)
# A calendar, a session, an instant, and whether it is open: written down by hand from the exchanges' own words.
KNOWN: Final = (
    ("XNYS", "REGULAR", "2026-11-25T14:30:00Z", True),
    ("XNYS", "REGULAR", "2026-11-25T21:00:00Z", False),
    # Thanksgiving, and the half day after it.
    ("XNYS", "REGULAR", "2026-11-26T15:00:00Z", False),
    ("XNYS", "ANY", "2026-11-26T02:00:00Z", False),
    ("XNYS", "ANY", "2026-11-27T01:00:00Z", True),
    ("XNYS", "REGULAR", "2026-11-27T17:59:59.999999Z", True),
    ("XNYS", "REGULAR", "2026-11-27T18:00:00Z", False),
    ("XNYS", "EXTENDED", "2026-11-27T21:59:59.999999Z", True),
    ("XNYS", "EXTENDED", "2026-11-27T22:00:00Z", False),
    ("XNYS", "ANY", "2026-11-28T01:30:00Z", False),
    ("XNYS", "REGULAR", "2026-12-24T17:59:59Z", True),
    ("XNYS", "REGULAR", "2026-12-24T18:00:00Z", False),
    ("XNYS", "REGULAR", "2026-07-03T15:00:00Z", False),
    # The days before and after the clocks change in America, and the weeks in which Europe has not yet.
    ("XNYS", "REGULAR", "2026-03-06T14:29:59.999999Z", False),
    ("XNYS", "REGULAR", "2026-03-06T14:30:00Z", True),
    ("XNYS", "REGULAR", "2026-03-09T13:29:59.999999Z", False),
    ("XNYS", "REGULAR", "2026-03-09T13:30:00Z", True),
    ("XNYS", "REGULAR", "2026-10-30T19:59:59Z", True),
    ("XNYS", "REGULAR", "2026-10-30T20:00:00Z", False),
    ("XNYS", "REGULAR", "2026-11-02T20:59:59Z", True),
    ("XLON", "REGULAR", "2026-03-27T08:00:00Z", True),
    ("XLON", "REGULAR", "2026-03-30T07:00:00Z", True),
    ("XLON", "REGULAR", "2026-03-30T06:59:59.999999Z", False),
    ("XLON", "REGULAR", "2026-12-24T12:30:00Z", False),
    ("XETR", "REGULAR", "2026-12-24T10:00:00Z", False),
    # Nights.
    ("XNYS", "OVERNIGHT", "2026-11-23T00:59:59.999999Z", False),
    ("XNYS", "OVERNIGHT", "2026-11-23T01:00:00Z", True),
    ("XNYS", "OVERNIGHT", "2026-11-23T08:59:59.999999Z", True),
    ("XNYS", "OVERNIGHT", "2026-11-23T09:00:00Z", False),
    ("XLON", "OVERNIGHT", "2026-11-23T02:00:00Z", False),
    # Noon.
    ("XTKS", "REGULAR", "2026-11-27T02:29:59.999999Z", True),
    ("XTKS", "REGULAR", "2026-11-27T02:30:00Z", False),
    ("XTKS", "REGULAR", "2026-11-27T03:30:00Z", True),
    ("XHKG", "REGULAR", "2026-11-27T04:30:00Z", False),
    # The hour from four to five in Chicago.
    ("CME_EQUITY", "REGULAR", "2026-11-24T21:59:59.999999Z", True),
    ("CME_EQUITY", "REGULAR", "2026-11-24T22:00:00Z", False),
    ("CME_EQUITY", "REGULAR", "2026-11-24T22:59:59.999999Z", False),
    ("CME_EQUITY", "REGULAR", "2026-11-24T23:00:00Z", True),
    ("CRYPTO", "REGULAR", "2026-12-25T03:00:00Z", True),
)


def measure(figures: Figures) -> None:
    vectors(figures)
    zones(figures)
    markets(figures)


def vectors(figures: Figures) -> None:
    wrong = 0
    for instant, found, opened in VECTORS:
        told = found.opened_on(datetime.fromisoformat(instant))
        wrong += told != (date.fromisoformat(opened) if opened else None)
    figures.shown("vectors of windows", len(VECTORS))
    figures.exactly("vectors of windows decided wrong", wrong, 0)


def zones(figures: Figures) -> None:
    """Every window before, at and after every change of every clock, and at its own edges on the days around it."""
    names = [name for name in zone_names() if zone_of(name) is not None][:: EVERY_ZONE[figures.size]]
    changes, compared, wrong = 0, 0, []
    for name in names:
        zone = read_zone(name, LAST_YEAR + 1)
        moments = list(_changes(zone)) or [_noon(year) for year in (FIRST_YEAR, LAST_YEAR)]
        changes += len(moments)
        for each in WINDOWS:
            local = TradingWindow(
                trading_start=each.trading_start, trading_end=each.trading_end, timezone=name, days=each.days
            )
            for micros in (micros for moment in moments for micros in _around(zone, moment, each)):
                compared += 1
                if _told(local, micros) != _expected(zone, each, micros):
                    wrong.append(f"{local} at {EPOCH + timedelta(microseconds=micros)}")
    figures.shown(f"zones of IANA {TZDATA_VERSION}", len(names))
    figures.shown(f"changes of clocks {FIRST_YEAR}-{LAST_YEAR}", changes)
    figures.shown("windows compared with a second reading of the zones", compared)
    figures.exactly("windows that the second reading decides otherwise", len(wrong), 0)
    for problem in wrong[:20]:
        print(problem, flush=True)


def _noon(year: int) -> int:
    return days_since_1970(year, 6, 1) * DAY + DAY // 2


def _changes(zone: ZoneFile) -> Iterator[int]:
    first, last = days_since_1970(FIRST_YEAR, 1, 1) * DAY, days_since_1970(LAST_YEAR + 1, 1, 1) * DAY
    return (change for change in zone.changes if first <= change < last)


def _around(zone: ZoneFile, moment: int, each: TradingWindow) -> Iterator[int]:
    for micros in (-MICROS, -1, 0, 1, MICROS):
        yield moment * MICROS + micros
    edges = {_seconds(each.start), 0 if each.trading_end is None else _seconds(each.trading_end)}
    for offset in {zone.offset(moment - 1), zone.offset(moment)}:
        today = (moment + offset) // DAY
        for day in (today - 1, today, today + 1):
            for edge in edges:
                at = (day * DAY + edge - offset) * MICROS
                yield at - 1
                yield at


def _seconds(at: time) -> int:
    return at.hour * 3_600 + at.minute * 60 + at.second


def _told(local: TradingWindow, micros: int) -> int | None:
    told = local.opened_on(EPOCH + timedelta(microseconds=micros))
    return None if told is None else (told - EPOCH.date()).days


def _expected(zone: ZoneFile, each: TradingWindow, micros: int) -> int | None:
    end = None if each.trading_end is None else _seconds(each.trading_end)
    weekdays = None if each.days is None else frozenset(DAYS.index(day) for day in each.days)
    return opened_on(zone, micros, _seconds(each.start), end, weekdays)


def markets(figures: Figures) -> None:
    """Every session of the table at its edges, by the table as it is written; and what people know."""
    calendars = load_calendars()
    table = json.loads(resources.files("openbell_server.adapters.calendars").joinpath("sessions.json").read_text())
    edges, wrong = 0, []
    for name, facts in table["calendars"].items():
        written = _written(table["calendars"][facts.get("same_as", name)]["sessions"])
        market = calendars.markets[name]
        for session in Session:
            rows = sorted(row for kind in session.kinds for row in written.get(kind, []))
            for row in rows[:: EVERY_SESSION[figures.size]]:
                for micros in (edge * MICROS + step for edge in row for step in (-1, 0, 1)):
                    edges += 1
                    if not _agrees(market, session, micros, rows):
                        wrong.append(f"{name} {session} at {EPOCH + timedelta(microseconds=micros)}")
    for name, kind, instant, expected in KNOWN:
        is_open = calendars.markets[name].open_at(datetime.fromisoformat(instant), Session(kind)) is not None
        if is_open is not expected:
            wrong.append(f"{name} {kind} at {instant} is {'open' if is_open else 'closed'}")
    figures.shown("calendars", len(table["calendars"]) + len([ALWAYS_OPEN]))
    figures.shown("instants at the edge of a session", edges)
    figures.shown("instants of early closes, holidays, nights, breaks and changed clocks", len(KNOWN))
    figures.exactly("instants at which a market is reported wrongly", len(wrong), 0)
    for problem in wrong[:20]:
        print(problem, flush=True)


def _written(sessions: dict[str, list[list[int]]]) -> dict[str, list[tuple[int, int]]]:
    return {
        kind: [(day * DAY + opens * 60, day * DAY + closes * 60) for opens, closes, *days in runs for day in days]
        for kind, runs in sessions.items()
    }


def _agrees(market: Market, session: Session, micros: int, rows: list[tuple[int, int]]) -> bool:
    # No session is longer than a day, so those of two days around are all that can matter.
    second = micros // MICROS
    near = rows[bisect_left(rows, (second - 2 * DAY, 0)) : bisect_left(rows, (second + 2 * DAY, 0))]
    expected = any(opens * MICROS <= micros < closes * MICROS for opens, closes in near)
    now = EPOCH + timedelta(microseconds=micros)
    if (market.open_at(now, session) is not None) is not expected:
        return False
    closes = market.next_changes(now, session)[1]
    return not expected or closes is None or not any(opens <= closes.timestamp() < ends for opens, ends in near)

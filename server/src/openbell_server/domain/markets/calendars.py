"""Market calendars: a table of sessions with a last known day, and changes made by operators."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from openbell_server.domain.markets.trading_windows import next_changes

# All calendars of the table.
CALENDARS: Final = (
    "XNYS",
    "XNAS",
    "ARCX",
    "XLON",
    "XETR",
    "XPAR",
    "XTSE",
    "XHKG",
    "XTKS",
    "XASX",
    "CME_EQUITY",
    "CRYPTO",
)
_DAY: Final = 86_400


class Session(StrEnum):
    """Which hours of a market count."""

    REGULAR = "REGULAR"
    # Regular, pre-market and post-market hours; some markets have regular hours only.
    EXTENDED = "EXTENDED"
    OVERNIGHT = "OVERNIGHT"
    ANY = "ANY"

    @property
    def kinds(self) -> tuple["Session", ...]:
        return _KINDS[self]


_KINDS: Final = {
    Session.REGULAR: (Session.REGULAR,),
    Session.EXTENDED: (Session.REGULAR, Session.EXTENDED),
    Session.OVERNIGHT: (Session.OVERNIGHT,),
    Session.ANY: (Session.REGULAR, Session.EXTENDED, Session.OVERNIGHT),
}


@dataclass(frozen=True, slots=True, order=True)
class Hours:
    """A continuous open period of a market, in seconds since 1970; the end is exclusive."""

    opens: int
    closes: int
    # The trade date: for a session that opens in the evening, the next day.
    trade_date: date
    # The local date of the opening.
    session_date: date
    # Why an operator changed it, or None.
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChange:
    """An operator's change to one session of one day: other hours, or none."""

    calendar: str
    trade_date: date
    session: Session
    opens_at: datetime | None
    closes_at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Market:
    """The sessions of one calendar; those of one kind are sorted and do not overlap."""

    name: str
    # Time zone of the dates.
    zone: ZoneInfo
    valid_from: date
    # The last known day; None for a market that never closes.
    valid_until: date | None
    # Version of the source data.
    version: str
    hours: Mapping[Session, Sequence[Hours]]

    def covers(self, now: datetime) -> bool:
        day = now.astimezone(self.zone).date()
        return self.valid_until is None or self.valid_from <= day <= self.valid_until

    def open_at(self, now: datetime, session: Session) -> Hours | None:
        """The hours that contain `now`, regular ones first, or None."""
        instant = now.timestamp()
        return next((row for row in self.around(now, session) if row.opens <= instant < row.closes), None)

    def around(self, now: datetime, session: Session) -> list[Hours]:
        """For each kind, the hours that opened last and those that open next."""
        if self.valid_until is None:
            return [_whole_day(now)] if Session.REGULAR in session.kinds else []
        found: list[Hours] = []
        for kind in session.kinds:
            rows = self.hours.get(kind, ())
            place = bisect_right(rows, now.timestamp(), key=_opens)
            found += rows[max(place - 1, 0) : place + 1]
        return found

    def next_changes(self, now: datetime, session: Session) -> tuple[datetime | None, datetime | None]:
        """The next opening and the next close, both after `now`; None where the table ends before."""
        return next_changes(lambda at: self.open_at(at, session) is not None, self.edges(now, session), now)

    def between(self, first: date, last: date) -> list[tuple[Session, Hours]]:
        """The hours of these trade dates, both included, sorted by time."""
        if self.valid_until is None:
            days = (first + timedelta(days=ahead) for ahead in range((last - first).days + 1))
            return [(Session.REGULAR, _whole_day(datetime(day.year, day.month, day.day, tzinfo=UTC))) for day in days]
        found = [(row, kind) for kind, rows in self.hours.items() for row in rows if first <= row.trade_date <= last]
        return [(kind, row) for row, kind in sorted(found)]

    def changed(self, changes: tuple[SessionChange, ...]) -> "Market":
        mine = tuple(change for change in changes if change.calendar == self.name)
        return _changed(self, mine) if mine and self.valid_until is not None else self

    def edges(self, now: datetime, session: Session) -> list[datetime]:
        """Openings and closes of the next sessions, sorted."""
        instant = now.timestamp()
        rows = [self.hours.get(kind, ()) for kind in session.kinds]
        later = (row for each in rows for row in each[max(bisect_right(each, instant, key=_opens) - 1, 0) :][:_AHEAD])
        edges = sorted({edge for row in later for edge in (row.opens, row.closes) if edge > instant})
        return [datetime.fromtimestamp(edge, UTC) for edge in edges]


# Look this many sessions ahead: no market is closed for longer.
_AHEAD: Final = 12


def _opens(row: Hours) -> int:
    return row.opens


def _whole_day(now: datetime) -> Hours:
    start = int(now.timestamp()) // _DAY * _DAY
    day = datetime.fromtimestamp(start, UTC).date()
    return Hours(start, start + _DAY, day, day)


@lru_cache(maxsize=64)
def _changed(market: Market, changes: tuple[SessionChange, ...]) -> Market:
    hours = dict(market.hours)
    for change in changes:
        rows = [row for row in hours.get(change.session, ()) if row.trade_date != change.trade_date]
        if change.opens_at is not None and change.closes_at is not None:
            opened_on = change.opens_at.astimezone(market.zone).date()
            opens, closes = int(change.opens_at.timestamp()), int(change.closes_at.timestamp())
            rows.append(Hours(opens, closes, change.trade_date, opened_on, change.reason))
        hours[change.session] = tuple(sorted(rows))
    return replace(market, hours=hours)


@dataclass(frozen=True, slots=True)
class MarketCalendars:
    markets: Mapping[str, Market]

    def find(self, calendar: str) -> Market | None:
        return self.markets.get(calendar)

    def days_left(self, today: date) -> dict[str, int]:
        """How many more days each calendar covers; negative after its last day."""
        return {
            market.name: (market.valid_until - today).days
            for market in self.markets.values()
            if market.valid_until is not None
        }

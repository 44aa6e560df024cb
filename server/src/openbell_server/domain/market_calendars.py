"""When markets are open: sessions in a table that ends, changed by hand where an operator says so."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from openbell_server.domain.trading_windows import next_changes

# Every calendar that may be named; the table has these and no others.
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
    """Which hours of a market are meant."""

    REGULAR = "regular"
    # Those before and after the regular ones too; a market without such has only the regular ones.
    EXTENDED = "extended"
    OVERNIGHT = "overnight"
    ANY = "any"

    @property
    def kinds(self) -> tuple["Session", ...]:
        """The rows of the table that are meant."""
        return _KINDS[self]


_KINDS: Final = {
    Session.REGULAR: (Session.REGULAR,),
    Session.EXTENDED: (Session.REGULAR, Session.EXTENDED),
    Session.OVERNIGHT: (Session.OVERNIGHT,),
    Session.ANY: (Session.REGULAR, Session.EXTENDED, Session.OVERNIGHT),
}


@dataclass(frozen=True, slots=True, order=True)
class Hours:
    """One time without a break in which a market is open, in seconds since 1970; the end is not inside."""

    opens: int
    closes: int
    # The day for which its trades count: the next one for what opens in the evening.
    trade_date: date
    # The local date on which it opens.
    session_date: date
    # Why an operator changed it.
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChange:
    """What an operator says of one session of one day: other hours, or none."""

    calendar: str
    trade_date: date
    session: Session
    opens_at: datetime | None
    closes_at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Market:
    """The sessions of one calendar, each kind in order and without overlaps."""

    name: str
    # In which its dates are, as the table had it when it was made.
    zone: ZoneInfo
    valid_from: date
    # The last day that is known; None: it never closes.
    valid_until: date | None
    # What the sessions were made of.
    version: str
    hours: Mapping[Session, Sequence[Hours]]

    def covers(self, now: datetime) -> bool:
        """Whether the table knows this day."""
        day = now.astimezone(self.zone).date()
        return self.valid_until is None or self.valid_from <= day <= self.valid_until

    def open_at(self, now: datetime, session: Session) -> Hours | None:
        """The hours that now is in; the regular ones first."""
        instant = now.timestamp()
        return next((row for row in self.around(now, session) if row.opens <= instant < row.closes), None)

    def around(self, now: datetime, session: Session) -> list[Hours]:
        """Of each kind the hours that opened last and those that open next: now is inside one of them, or of none."""
        if self.valid_until is None:
            return [_whole_day(now)] if Session.REGULAR in session.kinds else []
        found: list[Hours] = []
        for kind in session.kinds:
            rows = self.hours.get(kind, ())
            place = bisect_right(rows, now.timestamp(), key=_opens)
            found += rows[max(place - 1, 0) : place + 1]
        return found

    def next_changes(self, now: datetime, session: Session) -> tuple[datetime | None, datetime | None]:
        """When it opens next and when it closes next, both after now; None: not as far as the table goes."""
        return next_changes(lambda at: self.open_at(at, session) is not None, self.edges(now, session), now)

    def between(self, first: date, last: date) -> list[tuple[Session, Hours]]:
        """The hours of these trade dates, both inside, by time."""
        if self.valid_until is None:
            days = (first + timedelta(days=ahead) for ahead in range((last - first).days + 1))
            return [(Session.REGULAR, _whole_day(datetime(day.year, day.month, day.day, tzinfo=UTC))) for day in days]
        found = [(row, kind) for kind, rows in self.hours.items() for row in rows if first <= row.trade_date <= last]
        return [(kind, row) for row, kind in sorted(found)]

    def changed(self, changes: tuple[SessionChange, ...]) -> "Market":
        """The market with what operators say of it."""
        mine = tuple(change for change in changes if change.calendar == self.name)
        return _changed(self, mine) if mine and self.valid_until is not None else self

    def edges(self, now: datetime, session: Session) -> list[datetime]:
        """The instants of the next sessions at which the answer may change, in order."""
        instant = now.timestamp()
        rows = [self.hours.get(kind, ()) for kind in session.kinds]
        later = (row for each in rows for row in each[max(bisect_right(each, instant, key=_opens) - 1, 0) :][:_AHEAD])
        edges = sorted({edge for row in later for edge in (row.opens, row.closes) if edge > instant})
        return [datetime.fromtimestamp(edge, UTC) for edge in edges]


# No market is closed for longer than so many of its sessions take to come round.
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
    """The sessions of every market that is known."""

    markets: Mapping[str, Market]

    def find(self, calendar: str) -> Market | None:
        """The market of this name."""
        return self.markets.get(calendar)

    def days_left(self, today: date) -> dict[str, int]:
        """For how many days more each calendar is known; below nothing where it has ended."""
        return {
            market.name: (market.valid_until - today).days
            for market in self.markets.values()
            if market.valid_until is not None
        }

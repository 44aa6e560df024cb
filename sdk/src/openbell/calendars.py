"""Market calendars as the platform tells of them."""

from datetime import datetime

from openbell.models import Record


class Calendar(Record, frozen=True, kw_only=True):
    """A calendar: how far it is known, and how its regular sessions stand."""

    calendar: str
    timezone: str
    sessions: tuple[str, ...]
    version: str
    open_now: bool
    next_open_at: datetime | None = None
    next_close_at: datetime | None = None
    # The last day that is known; None: it never closes.
    valid_until: str | None = None


class CalendarList(Record, frozen=True, kw_only=True):
    """Every calendar."""

    data: tuple[Calendar, ...]


class MarketSession(Record, frozen=True, kw_only=True):
    """One time without a break in which a market is open; the end is not inside."""

    session: str
    # The local date on which it opens, and the day for which its trades count.
    session_date: str
    trade_date: str
    opens_at: datetime
    closes_at: datetime
    # Why an operator gave it these hours.
    changed: str | None = None


class MarketSessions(Record, frozen=True, kw_only=True):
    """The sessions of a calendar, by time."""

    calendar: str
    timezone: str
    data: tuple[MarketSession, ...]
    valid_until: str | None = None

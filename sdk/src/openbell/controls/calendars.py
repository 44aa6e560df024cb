"""Market calendars."""

from datetime import datetime

from openbell.models import Record


class Calendar(Record, frozen=True, kw_only=True):
    """A calendar, and whether its regular session is open."""

    calendar: str
    timezone: str
    sessions: tuple[str, ...]
    version: str
    open_now: bool
    next_open_at: datetime | None = None
    next_close_at: datetime | None = None
    # The last day of the calendar's data; None if the market never closes.
    valid_until: str | None = None


class MarketSession(Record, frozen=True, kw_only=True):
    """One period without a break in which a market is open, from opens_at up to but not including closes_at."""

    session: str
    # The local date on which it opens, and the date to which its trades belong.
    session_date: str
    trade_date: str
    opens_at: datetime
    closes_at: datetime
    # Why an operator changed its hours.
    changed: str | None = None


class MarketSessions(Record, frozen=True, kw_only=True):
    """The sessions of a calendar, sorted by time."""

    calendar: str
    timezone: str
    data: tuple[MarketSession, ...]
    valid_until: str | None = None

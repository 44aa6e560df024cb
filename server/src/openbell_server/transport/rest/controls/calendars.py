"""The routes of market calendars and their sessions."""

import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.controls.ports.calendars import SessionChangeStore
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.domain.markets.calendars import Hours, Market, MarketCalendars, Session
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.wire_types import Moment, PageOf

DAYS_MAX: Final = 366
DAYS_DEFAULT: Final = 7
# Outside these dates, conversion to another time zone can overflow.
FIRST_DATE: Final = date(1970, 1, 2)
LAST_DATE: Final = date(9998, 1, 1)
DateText = Annotated[str, Meta(extra_json_schema={"format": "date"}, examples=["2026-11-27"])]


class CalendarBody(Struct, frozen=True):
    """A calendar: the dates that it covers, and the state of its regular session."""

    calendar: str
    timezone: str
    sessions: list[Session]
    # The data sources, as receipts name them.
    version: str
    open_now: bool
    # Of the regular session.
    next_open_at: Moment | None
    next_close_at: Moment | None
    # The last covered day; absent for a market that never closes.
    valid_until: DateText | UnsetType = UNSET


class CalendarsBody(PageOf[CalendarBody], frozen=True):
    """All calendars."""


class MarketSessionBody(Struct, frozen=True):
    """One uninterrupted period in which a market is open; closes_at is exclusive."""

    session: Session
    # The local date of the opening, and the date to which its trades belong.
    session_date: DateText
    trade_date: DateText
    opens_at: Moment
    closes_at: Moment
    # The operator's reason, if an operator changed these hours.
    changed: str | UnsetType = UNSET


class MarketSessionsBody(PageOf[MarketSessionBody], frozen=True, kw_only=True):
    """The sessions of a calendar, by time."""

    calendar: str
    timezone: str
    valid_until: DateText | UnsetType = UNSET


def calendar_routes(
    enter: Enter, calendars: MarketCalendars, changes: SessionChangeStore, clock: Callable[[], Awaitable[datetime]]
) -> list[HTTPRouteHandler]:
    @get("/v1/calendars")
    async def list_calendars(request: AnyRequest) -> CalendarsBody:
        await enter.anywhere(request, Operation.READ_CALENDARS)
        changed, now = await changes.session_changes(), await clock()
        return CalendarsBody([calendar_body(each.changed(changed), now) for each in calendars.markets.values()])

    @get("/v1/calendars/{calendar:str}/sessions")
    async def list_sessions(request: AnyRequest, calendar: FromPath[str]) -> MarketSessionsBody:
        await enter.anywhere(request, Operation.READ_CALENDARS)
        market = calendars.find(calendar)
        if market is None:
            raise Problem("not_found", "there is no such calendar")
        first, last = _days(request, market, await clock())
        market = market.changed(await changes.session_changes())
        return MarketSessionsBody(
            calendar=market.name,
            timezone=str(market.zone),
            data=[_session_body(kind, hours) for kind, hours in market.between(first, last)],
            valid_until=_valid_until(market),
        )

    return [list_calendars, list_sessions]


def calendar_body(market: Market, now: datetime) -> CalendarBody:
    opens, closes = market.next_changes(now, Session.REGULAR)
    return CalendarBody(
        calendar=market.name,
        timezone=str(market.zone),
        sessions=list(market.hours) or [Session.REGULAR],
        version=market.version,
        open_now=market.covers(now) and market.open_at(now, Session.REGULAR) is not None,
        next_open_at=opens,
        next_close_at=closes,
        valid_until=_valid_until(market),
    )


def _valid_until(market: Market) -> str | UnsetType:
    return UNSET if market.valid_until is None else market.valid_until.isoformat()


def _session_body(kind: Session, hours: Hours) -> MarketSessionBody:
    return MarketSessionBody(
        session=kind,
        session_date=hours.session_date.isoformat(),
        trade_date=hours.trade_date.isoformat(),
        opens_at=datetime.fromtimestamp(hours.opens, UTC),
        closes_at=datetime.fromtimestamp(hours.closes, UTC),
        changed=UNSET if hours.reason is None else hours.reason,
    )


def _days(request: AnyRequest, market: Market, now: datetime) -> tuple[date, date]:
    """The first and the last requested trade date; raises if the calendar does not cover them."""
    first, until = _date(request, "since") or now.astimezone(market.zone).date(), _date(request, "until")
    last = min(first + timedelta(days=DAYS_DEFAULT), market.valid_until or date.max)
    if until is not None:
        last = max(until, date(1, 1, 2)) - timedelta(days=1)
    if market.valid_until is not None and not market.valid_from <= first <= market.valid_until:
        raise InvalidParameter("since", f"must be from {market.valid_from} to {market.valid_until}, which is known")
    if market.valid_until is not None and last > market.valid_until:
        raise InvalidParameter("until", f"must be at most one day after {market.valid_until}: no later day is known")
    if not timedelta(0) <= last - first < timedelta(days=DAYS_MAX):
        raise InvalidParameter("until", f"must be 1 to {DAYS_MAX} days after since")
    return first, last


def _date(request: AnyRequest, name: str) -> date | None:
    values = request.query_params.getall(name, [])
    if not values:
        return None
    text, found = str(values[0]), None
    if len(values) == 1 and len(text) == len("2026-11-27"):
        with contextlib.suppress(ValueError):
            found = date.fromisoformat(text)
    if found is None:
        raise InvalidParameter(name, "must be one date, such as 2026-11-27")
    if not FIRST_DATE <= found <= LAST_DATE:
        raise InvalidParameter(name, f"must be from {FIRST_DATE} to {LAST_DATE}, which is known")
    return found

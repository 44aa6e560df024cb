"""OpenAPI rows of the calendar routes."""

from datetime import UTC, datetime
from typing import Final

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.markets.calendars import Session
from openbell_server.transport.rest.controls.calendars import (
    DAYS_DEFAULT,
    DAYS_MAX,
    CalendarBody,
    CalendarsBody,
    MarketSessionBody,
    MarketSessionsBody,
)
from openbell_server.transport.rest.openapi.operation import Described, Parameter

_CALENDAR: Final = CalendarBody(
    calendar="XNYS",
    timezone="America/New_York",
    sessions=[Session.REGULAR, Session.EXTENDED, Session.OVERNIGHT],
    version="exchange_calendars 4.13.2, pandas_market_calendars 5.5.0, 2026-11-15",
    open_now=False,
    next_open_at=datetime(2026, 11, 27, 14, 30, tzinfo=UTC),
    next_close_at=datetime(2026, 11, 27, 18, tzinfo=UTC),
    valid_until="2028-11-30",
)
_SESSIONS: Final = MarketSessionsBody(
    calendar="XNYS",
    timezone="America/New_York",
    data=[
        MarketSessionBody(
            session=Session.REGULAR,
            session_date="2026-11-27",
            trade_date="2026-11-27",
            opens_at=datetime(2026, 11, 27, 14, 30, tzinfo=UTC),
            closes_at=datetime(2026, 11, 27, 18, tzinfo=UTC),
        )
    ],
    valid_until="2028-11-30",
)

CALENDAR_OPERATIONS: Final = (
    Described(
        path="/v1/calendars",
        operation_id="listCalendars",
        summary="List the market calendars",
        description="All calendars that a rule can use, on one page: the dates that each covers, and whether its "
        "regular session is open.",
        operation=Operation.READ_CALENDARS,
        answer_example=CalendarsBody([_CALENDAR]),
    ),
    Described(
        path="/v1/calendars/{calendar}/sessions",
        operation_id="listMarketSessions",
        summary="List the sessions of a market",
        description="The sessions by time, without holidays and with early closes, as rules use them; operators' "
        "changes are included. A midday break splits a session in two.",
        operation=Operation.READ_CALENDARS,
        answer_example=_SESSIONS,
        parameters=(
            Parameter(
                name="since",
                description="The first trade date. Default: today in the market's time zone.",
                schema={"type": "string", "format": "date"},
                example="2026-11-27",
            ),
            Parameter(
                name="until",
                description=f"The day after the last trade date, at most {DAYS_MAX} days later. "
                f"Default: {DAYS_DEFAULT + 1} days later.",
                schema={"type": "string", "format": "date"},
                example="2026-12-01",
            ),
        ),
    ),
)

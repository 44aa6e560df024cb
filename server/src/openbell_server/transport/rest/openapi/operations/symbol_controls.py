"""OpenAPI rows of the symbol control routes."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.symbol_controls import OnClose
from openbell_server.domain.markets.calendars import Session
from openbell_server.domain.markets.trading_windows import Day
from openbell_server.transport.rest.controls.symbol_control_bodies import (
    ManualControlBody,
    ManualControlRequest,
    TimeControlBody,
    TimeControlRequest,
)
from openbell_server.transport.rest.openapi.operation import Described

_SYMBOL: Final = "/v1/controls/accounts/{account_id}/symbols/{symbol}"
_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_ACCOUNT: Final = UUID("01981d3c-7a00-7000-8000-000000000002")
_ORGANIZATION: Final = UUID("01981d3c-7a00-7000-8000-000000000001")
_MANUAL: Final = ManualControlBody(
    account_id=_ACCOUNT,
    organization_id=_ORGANIZATION,
    symbol="AAPL",
    manually_disabled=True,
    created_at=_NOON,
    updated_at=_NOON,
    version=1,
    manual_reason="earnings tonight",
)
_TIME: Final = TimeControlBody(
    account_id=_ACCOUNT,
    organization_id=_ORGANIZATION,
    symbol="AAPL",
    stale_order_millis=None,
    created_at=_NOON,
    updated_at=_NOON,
    version=2,
    window_open_now=False,
    next_open_at=datetime(2026, 1, 5, 14, 30, tzinfo=UTC),
    next_close_at=datetime(2026, 1, 5, 21, tzinfo=UTC),
    trading_start="09:30:00",
    trading_end="16:00:00",
    timezone="America/New_York",
    days=[Day.MONDAY, Day.TUESDAY, Day.WEDNESDAY, Day.THURSDAY, Day.FRIDAY],
    max_resting_millis=3_600_000,
    calendar="XNYS",
    session=Session.REGULAR,
    on_close=OnClose.CANCEL,
)

CONTROL_OPERATIONS: Final = (
    Described(
        method="PUT",
        path=_SYMBOL,
        operation_id="putSymbolControl",
        summary="Disable or enable a symbol",
        description="Creates or replaces the manual control. An omitted reason is removed; trading times are not "
        "changed. An API key needs the permission control:loosen to enable a symbol that a user disabled.",
        operation=Operation.EDIT_CONTROLS,
        body=ManualControlRequest,
        body_examples={
            "off": {"manually_disabled": True, "manual_reason": "earnings tonight"},
            "on": {"manually_disabled": False},
        },
        answer_example=_MANUAL,
        codes=("organization_disabled",),
    ),
    Described(
        method="PATCH",
        path=f"{_SYMBOL}/time",
        operation_id="patchSymbolTime",
        summary="Set the trading times of a symbol",
        description="Creates or changes the time control. Omitted and null fields stay as they are, fields in clear "
        "are removed, and a field that is both set and cleared is refused. Times are in the given time zone, else in "
        "the account's. With a calendar, orders pass only inside both the window and the calendar's session: not on "
        "holidays, not after an early close. With on_close cancel, working orders of the symbol are cancelled at that "
        "end. The manual control is not changed. An API key needs the permission control:loosen to loosen times that a "
        "user set.",
        operation=Operation.EDIT_CONTROLS,
        body=TimeControlRequest,
        body_examples={
            "window": {"trading_start": "09:30:00", "trading_end": "16:00:00", "timezone": "America/New_York"},
            "market": {"calendar": "XNYS", "session": "REGULAR", "on_close": "CANCEL"},
            "clear": {"clear": ["stale_order_millis"]},
        },
        answer_example=_TIME,
        codes=("organization_disabled",),
    ),
)

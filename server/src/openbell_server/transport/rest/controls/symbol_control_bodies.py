"""Request and response bodies of the symbol control routes."""

import re
from datetime import time
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.controls.set_symbol_controls import TimePatch, TimesNow
from openbell_server.domain.controls.symbol_controls import (
    RESTING_MILLIS_MAX,
    RESTING_MILLIS_MIN,
    STALE_MILLIS_MAX,
    TIME_FIELDS,
    ManualControl,
    OnClose,
    Recorded,
    TimeControl,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.markets.calendars import CALENDARS, Session
from openbell_server.domain.markets.trading_windows import Day
from openbell_server.transport.rest.wire_types import Moment, ReasonText, ZoneText, body_from

_TIME_PATTERN = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_TIME_OF_DAY = re.compile(_TIME_PATTERN)
# The JSON schema describes these formats; the domain checks them.
TimeText = Annotated[
    str,
    Meta(
        description="a time of day as HH:MM:SS",
        examples=["09:30:00"],
        extra_json_schema={"pattern": f"^{_TIME_PATTERN}$"},
    ),
]
StaleMillis = Annotated[
    int,
    Meta(
        description="how old a command may be when it is sent, in milliseconds",
        extra_json_schema={"minimum": 1, "maximum": STALE_MILLIS_MAX},
    ),
]
RestingMillis = Annotated[
    int,
    Meta(
        description="how long an order may work before it is cancelled, in milliseconds since it was accepted",
        extra_json_schema={"minimum": RESTING_MILLIS_MIN, "maximum": RESTING_MILLIS_MAX},
    ),
]
Days = Annotated[list[Day], Meta(max_length=7, extra_json_schema={"minItems": 1})]
CalendarText = Annotated[
    str,
    Meta(
        max_length=32,
        description="the market whose sessions and holidays apply",
        examples=["XNYS"],
        extra_json_schema={"enum": list(CALENDARS)},
    ),
]
FieldName = Annotated[str, Meta(description="a field to remove", extra_json_schema={"enum": list(TIME_FIELDS)})]


class ManualControlRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Disable or enable a symbol; an omitted reason is removed."""

    manually_disabled: bool
    manual_reason: ReasonText | None = None

    def to_control(self) -> ManualControl:
        return ManualControl(manually_disabled=self.manually_disabled, manual_reason=self.manual_reason)


class TimeControlRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Change trading times; omitted and null fields stay as they are, fields named in clear are removed."""

    trading_start: TimeText | None = None
    trading_end: TimeText | None = None
    timezone: ZoneText | None = None
    days: Days | None = None
    stale_order_millis: StaleMillis | None = None
    max_resting_millis: RestingMillis | None = None
    calendar: CalendarText | None = None
    session: Session | None = None
    on_close: OnClose | None = None
    clear: Annotated[list[FieldName], Meta(max_length=16)] | None = None

    def to_patch(self) -> TimePatch:
        change = TimeControl(
            trading_start=_time_of_day("/trading_start", self.trading_start),
            trading_end=_time_of_day("/trading_end", self.trading_end),
            timezone=self.timezone,
            days=None if self.days is None else tuple(self.days),
            stale_order_millis=self.stale_order_millis,
            max_resting_millis=self.max_resting_millis,
            calendar=self.calendar,
            session=self.session,
            on_close=self.on_close,
        )
        return TimePatch(change, self.clear or [])


def _time_of_day(pointer: str, text: str | None) -> time | None:
    if text is None:
        return None
    if not _TIME_OF_DAY.fullmatch(text):
        raise InvalidCommand(pointer, "must be a time of day as HH:MM:SS, from 00:00:00 to 23:59:59")
    return time.fromisoformat(text)


class ManualControlBody(Struct, frozen=True):
    """The manual control of a symbol."""

    account_id: UUID
    organization_id: UUID
    symbol: str
    manually_disabled: bool
    created_at: Moment
    updated_at: Moment
    version: int
    manual_reason: str | UnsetType = UNSET


class TimeControlBody(Struct, frozen=True):
    """The time control of a symbol."""

    account_id: UUID
    organization_id: UUID
    symbol: str
    stale_order_millis: int | None
    created_at: Moment
    updated_at: Moment
    version: int
    # The account's time zone, if the control has none.
    timezone: str
    # For orders that use both the window and the calendar's session, if there is one.
    window_open_now: bool
    # Null if there is none within two weeks.
    next_open_at: Moment | None
    next_close_at: Moment | None
    trading_start: str | UnsetType = UNSET
    trading_end: str | UnsetType = UNSET
    days: list[Day] | UnsetType = UNSET
    max_resting_millis: int | UnsetType = UNSET
    calendar: str | UnsetType = UNSET
    session: Session | UnsetType = UNSET
    on_close: OnClose | UnsetType = UNSET


def manual_control_body(
    organization_id: OrganizationId, account_id: AccountId, symbol: Symbol, recorded: Recorded[ManualControl]
) -> ManualControlBody:
    return body_from(
        ManualControlBody,
        recorded,
        account_id=account_id,
        organization_id=organization_id,
        symbol=symbol,
        manually_disabled=recorded.control.manually_disabled,
        manual_reason=recorded.control.manual_reason,
    )


def time_control_body(organization_id: OrganizationId, account_id: AccountId, found: TimesNow) -> TimeControlBody:
    recorded, control = found.recorded, found.recorded.control
    return body_from(
        TimeControlBody,
        control,
        account_id=account_id,
        organization_id=organization_id,
        symbol=found.symbol,
        created_at=recorded.created_at,
        updated_at=recorded.updated_at,
        version=recorded.version,
        timezone=found.timezone,
        window_open_now=found.times.open_now,
        next_open_at=found.times.next_open_at,
        next_close_at=found.times.next_close_at,
        trading_start=None if control.trading_start is None else control.trading_start.isoformat(),
        trading_end=None if control.trading_end is None else control.trading_end.isoformat(),
    )

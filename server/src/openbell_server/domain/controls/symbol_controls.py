"""Controls of a symbol on an account: a switch and trading times."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, time
from enum import StrEnum
from typing import Final, Generic, TypeVar

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.findings import Comparison, Finding, Scope, Verdict
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.markets.calendars import CALENDARS, Session
from openbell_server.domain.markets.trading_windows import Day, TradingWindow, in_week_order
from openbell_server.domain.names import check_reason
from openbell_server.domain.time_zones import DEFAULT_ZONE, check_zone

SYMBOL_DISABLED: Final = "SYMBOL_DISABLED"
OUTSIDE_TRADING_WINDOW: Final = "OUTSIDE_TRADING_WINDOW"
MARKET_CLOSED: Final = "MARKET_CLOSED"
STALE_ORDER: Final = "STALE_ORDER"
RESTING_TOO_LONG: Final = "RESTING_TOO_LONG"
ORGANIZATION_DISABLED: Final = "ORGANIZATION_DISABLED"
ACCOUNT_DISABLED: Final = "ACCOUNT_DISABLED"
ACCOUNT_NOT_READY: Final = "ACCOUNT_NOT_READY"
PRINCIPAL_REVOKED: Final = "PRINCIPAL_REVOKED"

STALE_MILLIS_MAX: Final = 86_400_000
RESTING_MILLIS_MIN: Final = 1_000
RESTING_MILLIS_MAX: Final = 30 * 86_400_000
# After an outage, queued commands of a live account must not reach a changed market; a control sets another limit.
STALE_MILLIS_DEFAULT: Final = {Environment.LIVE: 60_000}

T = TypeVar("T")


class OnClose(StrEnum):
    """What happens to working orders when the trading window of their symbol closes."""

    LEAVE = "LEAVE"
    CANCEL = "CANCEL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualControl:
    manually_disabled: bool
    manual_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeControl:
    """When a symbol may be traded, how old a command may be when it is sent, and how long its order may work.

    None restricts nothing.
    """

    trading_start: time | None = None
    trading_end: time | None = None
    # An IANA name; None means the account's zone.
    timezone: str | None = None
    # Days on which a window opens, in week order; None means all days.
    days: tuple[Day, ...] | None = None
    stale_order_millis: int | None = None
    max_resting_millis: int | None = None
    # A market and its session; None means the regular session.
    calendar: str | None = None
    session: Session | None = None
    # None means LEAVE.
    on_close: OnClose | None = None

    def window(self, account_zone: str) -> TradingWindow:
        return TradingWindow(
            trading_start=self.trading_start,
            trading_end=self.trading_end,
            timezone=self.timezone or account_zone,
            days=self.days,
        )


TIME_FIELDS: Final = tuple(field.name for field in fields(TimeControl))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(Generic[T]):
    control: T
    version: int
    created_at: datetime
    updated_at: datetime
    # Names of the fields that a user set, also where an API key has tightened them since.
    set_by_users: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolControls:
    manual: Recorded[ManualControl] | None = None
    time: Recorded[TimeControl] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorFacts:
    """What a queued command is checked against at the door, read under the account's lock."""

    now: datetime
    queued_at: datetime
    environment: Environment
    organization_epoch: int
    account_epoch: int
    organization_disabled: bool
    account_disabled: bool
    principal_revoked: bool
    # The API key that submitted it; None for other callers.
    api_key_id: str | None = None
    deadline: datetime | None = None


def checked_manual(control: ManualControl) -> ManualControl:
    check_reason("manual_reason", control.manual_reason)
    return control


def patch_time(current: TimeControl, change: TimeControl, clear: Sequence[str]) -> TimeControl:
    """Apply `change` and clear the named fields; raises InvalidCommand if the result is not valid."""
    chosen = {name: value for name in TIME_FIELDS if (value := getattr(change, name)) is not None}
    for place, name in enumerate(clear):
        if name not in TIME_FIELDS:
            raise InvalidCommand(f"/clear/{place}", f"must be one of {', '.join(TIME_FIELDS)}")
        if name in chosen:
            raise InvalidCommand(f"/{name}", "is both set and cleared")
    merged = replace(current, **dict.fromkeys(clear), **chosen)
    if merged.trading_end is not None and merged.trading_end == (merged.trading_start or time.min):
        raise InvalidCommand("/trading_end", "must differ from trading_start, which is midnight if it is not set")
    if merged.timezone is not None:
        check_zone(merged.timezone)
    if merged.days is not None and not merged.days:
        raise InvalidCommand("/days", "must name at least one day; clear it to trade on all of them")
    if merged.stale_order_millis is not None and not 1 <= merged.stale_order_millis <= STALE_MILLIS_MAX:
        raise InvalidCommand(
            "/stale_order_millis",
            f"must be 1 to {STALE_MILLIS_MAX}; clear it to have the default: 60000 on live accounts, none on paper",
        )
    if merged.max_resting_millis is not None and not (
        RESTING_MILLIS_MIN <= merged.max_resting_millis <= RESTING_MILLIS_MAX
    ):
        raise InvalidCommand(
            "/max_resting_millis",
            f"must be {RESTING_MILLIS_MIN} to {RESTING_MILLIS_MAX}, which is thirty days; clear it to let orders rest",
        )
    _check_market(merged)
    return replace(merged, days=in_week_order(merged.days))


def _check_market(merged: TimeControl) -> None:
    if merged.calendar is not None and merged.calendar not in CALENDARS:
        raise InvalidCommand("/calendar", f"must be one of {', '.join(CALENDARS)}")
    if merged.session is not None and merged.calendar is None:
        raise InvalidCommand("/session", "needs a calendar: it names hours of a market")
    closes = merged.calendar is not None or merged.window(DEFAULT_ZONE).restricts
    if merged.on_close is OnClose.CANCEL and not closes:
        raise InvalidCommand("/on_close", "needs a window or a calendar: nothing closes without one")


def resting_finding(limit: int, observed: int, version: int) -> Finding:
    """The receipt line of a cancel by the platform itself; limit and observed are in milliseconds."""
    return Finding(
        code=RESTING_TOO_LONG,
        scope=Scope.SYMBOL,
        verdict=Verdict.EXCEEDED,
        comparison=Comparison.AT_MOST,
        limit=limit,
        observed=observed,
        control_version=version,
    )


def switched_off(facts: DoorFacts, *, account_ready: bool) -> str | None:
    """Why a command may not pass the door any more, or None.

    An account is ready unless its credential is missing or not valid.
    """
    for is_so, code in (
        (facts.organization_disabled, ORGANIZATION_DISABLED),
        (facts.account_disabled, ACCOUNT_DISABLED),
        (not account_ready, ACCOUNT_NOT_READY),
        (facts.principal_revoked, PRINCIPAL_REVOKED),
    ):
        if is_so:
            return code
    return None

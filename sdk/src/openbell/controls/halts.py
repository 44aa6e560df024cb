"""Reports about halts."""

from datetime import datetime

from openbell.models import Record


class InFlightCommand(Record, frozen=True, kw_only=True):
    """A command that was sent before a halt and had no outcome at the halt."""

    intent_id: str
    seq: int
    action_id: str
    action_type: str
    symbol: str
    status: str
    dispatched_at: datetime
    settled_at: datetime | None = None


class HaltCancels(Record, frozen=True, kw_only=True):
    """Counts of the cancels that a halt submitted."""

    asked: int
    confirmed: int
    ended_otherwise: int
    waiting: int
    last_confirmed_at: datetime | None = None


class HaltedOrder(Record, frozen=True, kw_only=True):
    """An order that is or may be at the broker."""

    intent_id: str
    symbol: str
    status: str
    in_doubt: bool
    updated_at: datetime


class HaltedAccount(Record, frozen=True, kw_only=True):
    """What is or may be open on the account now."""

    as_of: datetime
    open_orders: int
    in_doubt: int
    queued: int
    orders: tuple[HaltedOrder, ...]
    external_open_orders: int
    external_orders: tuple[str, ...]


class HaltReport(Record, frozen=True, kw_only=True):
    """A switch that stopped an account or a part of it, and its effect on commands in its scope."""

    id: str
    account_id: str
    scope: str
    status: str
    version: int
    since: datetime
    # None while it is in force.
    until: datetime | None = None
    cancel_working: bool
    principal_type: str
    # An operator of the platform has no id here.
    principal_id: str | None = None
    # When the account's executor recorded it; no door opened after it was set.
    noticed_at: datetime | None = None
    # Always 0; None for a switch that accepts commands that reduce a position.
    doors_opened_after: int | None = None
    reducing_doors_after: int
    queued: int
    skipped: int
    in_flight: int
    in_flight_commands: tuple[InFlightCommand, ...]
    cancels: HaltCancels
    # True only if the broker confirmed it; None if it is not known. If it is not True, `why` has the reason.
    no_working_orders: bool | None
    why: str | None = None
    # When the broker's list was last read; after the halt, when it was first read with no order of ours open.
    compared_at: datetime | None = None
    symbol: str | None = None
    api_key_id: str | None = None
    reason: str | None = None
    # Only while it is in force.
    account: HaltedAccount | None = None

    @property
    def place(self) -> str:
        """Scope and symbol or key as one text."""
        return " ".join(filter(None, (self.scope, self.symbol, self.api_key_id)))

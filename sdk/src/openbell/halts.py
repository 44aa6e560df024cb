"""What a halt came to, as the platform tells it."""

from datetime import datetime

from openbell.models import Record


class SetBy(Record, frozen=True, kw_only=True):
    """Who set a switch; whoever operates the platform has no id here."""

    type: str
    id: str | None = None


class InFlightCommand(Record, frozen=True, kw_only=True):
    """A command whose door was opened before a halt, and that had no outcome then."""

    intent_id: str
    seq: int
    action_id: str
    action_type: str
    symbol: str
    state: str
    door_opened_at: datetime
    settled_at: datetime | None = None


class HaltCancels(Record, frozen=True, kw_only=True):
    """Orders that a halt asked to cancel."""

    asked: int
    confirmed: int
    ended_otherwise: int
    waiting: int
    last_confirmed_at: datetime | None = None


class Halt(Record, frozen=True, kw_only=True):
    """A switch that stops an account, or a part of it, and what became of commands in its scope."""

    scope: str
    state: str
    version: int
    since: datetime
    cancel_working: bool
    set_by: SetBy
    # When the account's executor put it on record; doors were shut before.
    noticed_at: datetime | None = None
    # 0, always; None where the switch lets commands pass that reduce.
    doors_opened_after: int | None = None
    reducing_doors_after: int
    queued: int
    skipped: int
    in_flight: int
    in_flight_commands: tuple[InFlightCommand, ...]
    cancels: HaltCancels
    symbol: str | None = None
    key_id: str | None = None
    reason: str | None = None


class HaltedOrder(Record, frozen=True, kw_only=True):
    """An order that the broker has or may have."""

    intent_id: str
    symbol: str
    status: str
    in_doubt: bool
    updated_at: datetime


class HaltReport(Record, frozen=True, kw_only=True):
    """What the halts of an account came to."""

    account_id: str
    as_of: datetime
    # True only on the broker's word; None where that is not known. Else why says what stands against it.
    no_working_orders: bool | None
    why: str | None = None
    # Up to when the broker's list was read.
    compared_at: datetime | None = None
    halts: tuple[Halt, ...]
    open_orders: int
    in_doubt: int
    queued: int
    orders: tuple[HaltedOrder, ...]
    external_open_orders: int
    external_orders: tuple[str, ...]

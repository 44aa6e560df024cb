"""Halts: switches that stop an account or a part of it, and the report on its orders since."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.identifiers import ActionId, IntentId, Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intents import ActionType


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One version of a switch that is not ACTIVE."""

    scope: Scope
    # As Address.subject.
    subject: str
    version: int
    state: SwitchState

    @property
    def symbol(self) -> Symbol | None:
        """The only symbol that it stops, or None for all."""
        return Symbol(self.subject.split(" ", 1)[1]) if self.scope is Scope.SYMBOL else None

    @property
    def api_key_id(self) -> str | None:
        """The only key that it stops, or None for all."""
        return self.subject if self.scope is Scope.KEY else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    id: UUID
    switch: Switch
    cancel_working: bool
    halted_at: datetime
    # None while it is in force.
    lifted_at: datetime | None
    reason: str | None
    # A type and an id; the id of a platform operator is hidden from customers.
    principal: tuple[str, str | None]
    # When the account's executor recorded it; None before that, and if it was lifted first.
    noticed_at: datetime | None
    # When the broker's list was first read after our last order had ended; None if it was lifted before.
    compared_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltFigures:
    # Doors opened although the halt forbids them: always 0. None if the switch does not forbid all.
    doors_opened_after: int | None
    # Doors of commands that only reduce a position.
    reducing_doors_after: int
    # Past their door at the halt, and not settled at that time.
    in_flight: int
    queued: int
    skipped: int
    # Orders that the halt cancels: all, those cancelled by the broker, those that ended otherwise.
    cancels_asked: int
    cancels_confirmed: int
    ended_otherwise: int
    last_confirmed_at: datetime | None

    def all_reducing(self) -> "HaltFigures":
        """For a REDUCE_ONLY switch: every command that passed the door was evaluated as reducing."""
        passed = (self.doors_opened_after or 0) + self.reducing_doors_after
        return replace(self, doors_opened_after=None, reducing_doors_after=passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A command that passed its door before a halt and had no outcome at that time."""

    intent_id: IntentId
    seq: int
    action_id: ActionId
    action_type: ActionType
    symbol: Symbol
    state: ActionState
    dispatched_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOrder:
    """An order that the broker has or may have."""

    intent_id: IntentId
    symbol: Symbol
    status: str
    in_doubt: bool
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Quietness:
    """All facts that decide whether an account has no working order, read at one moment."""

    as_of: datetime
    open_orders: int
    # Commands past their door without an outcome.
    in_doubt: int
    # Commands that were not sent, without cancels.
    queued: int
    external_orders: int
    # When the broker's list was read by the last completed reconciliation.
    compared_at: datetime | None
    # Time of the last event of an order or action.
    last_event_at: datetime | None
    # Since when the whole account is HALTED; None if it is not.
    halted_at: datetime | None
    # The database was restored, so it may lack orders that the broker has.
    is_held: bool
    # Refusals are not enforced on this account, so a halt stops nothing.
    is_watched_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOrders:
    """What is or may be open on an account now."""

    quietness: Quietness
    open_orders: Sequence[OpenOrder]
    external_orders: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltReport:
    """What a halt did to an account."""

    halt: Halt
    figures: HaltFigures
    in_flight: Sequence[InFlight]
    # None once the halt was lifted.
    account: OpenOrders | None


def no_working_orders(quiet: Quietness) -> tuple[bool | None, str | None]:
    """Whether the broker confirms that the account has no working order (None: not known), and the reason if not."""
    if quiet.open_orders or quiet.in_doubt:
        return False, f"{quiet.open_orders} orders are open and {quiet.in_doubt} commands have no outcome yet"
    if quiet.external_orders:
        return False, f"{quiet.external_orders} orders at the broker are open that were not asked for here"
    return (None, why) if (why := _why_unknown(quiet)) is not None else (True, None)


def _why_unknown(quiet: Quietness) -> str | None:
    if quiet.is_held:
        return "the database was restored, and the broker was not yet asked for what it may have forgotten"
    if quiet.halted_at is None:
        return "the account as a whole is not halted: an order may begin at any moment"
    if quiet.is_watched_only:
        return "the organization only watches its rules on paper accounts: the halt stops nothing here"
    if quiet.queued:
        return f"{quiet.queued} queued commands were not skipped yet"
    since = max(quiet.halted_at, quiet.last_event_at or quiet.halted_at)
    if quiet.compared_at is None or quiet.compared_at <= since:
        return f"the broker's list was not read since {since.isoformat()}"
    return None

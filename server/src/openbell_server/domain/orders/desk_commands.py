"""Desk commands, which cancel many orders or close a position: their outcome per order and as a whole."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from openbell_server.domain.hash_chains import canonical_bytes
from openbell_server.domain.identifiers import IntentId, ReceiptId, Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.order_aggregate import Certainty, CloseReason
from openbell_server.domain.orders.order_terms import OrderSide

# The closing order of a position is placed within this time after the command, or never.
PLACE_WITHIN: Final = timedelta(minutes=5)
# It is sent to the broker within this time after it was accepted, or never.
SEND_WITHIN: Final = timedelta(seconds=10)


class DeskCommandType(StrEnum):
    """The two desk commands."""

    CANCEL_ALL = "CANCEL_ALL"
    CLOSE_POSITION = "CLOSE_POSITION"


class DeskStatus(StrEnum):
    """How far a desk command is."""

    WORKING = "WORKING"
    # The outcome of at least one of its orders is unknown.
    IN_DOUBT = "IN_DOUBT"
    DONE = "DONE"
    # Of CLOSE_POSITION: the position was not closed.
    FAILED = "FAILED"


class DeskReason(StrEnum):
    """Why a position is not closed yet, or was not closed."""

    ORDERS_OPEN = "ORDERS_OPEN"
    ORDER_IN_DOUBT = "ORDER_IN_DOUBT"
    # An order of the symbol that is not of the command is open, perhaps one that was placed elsewhere.
    OTHER_ORDERS_OPEN = "OTHER_ORDERS_OPEN"
    # The broker's positions were never read, or the database was restored and was not compared with the broker.
    POSITION_UNKNOWN = "POSITION_UNKNOWN"
    # No executor could place the closing order in time.
    TOO_LATE = "TOO_LATE"
    # A check refused the closing order: a rule, the broker's capabilities, or a disabled account.
    ORDER_REFUSED = "ORDER_REFUSED"
    # The closing order ended before it was filled.
    ORDER_ENDED = "ORDER_ENDED"


class OrderOutcome(StrEnum):
    """What became of an order of a desk command: while it is open the first four, then how it ended."""

    CANCELING = "CANCELING"
    # The last cancel had no effect; the next one follows.
    CANCEL_FAILED = "CANCEL_FAILED"
    UNKNOWN = "UNKNOWN"
    # Open although the command has ended: it reopened, or the position was not closed in time.
    OPEN = "OPEN"
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"
    REJECTED = "REJECTED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    RECONCILED_OUT = "RECONCILED_OUT"


_WITHOUT_EFFECT: Final = frozenset(
    {ActionState.REFUSED, ActionState.FAILED, ActionState.SKIPPED, ActionState.ABANDONED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskScope:
    """The orders that a desk command concerns: those of a symbol, and those that one API key created; None: all."""

    command_type: DeskCommandType
    symbol: Symbol | None
    api_key_id: UUID | None

    @property
    def hash(self) -> bytes:
        """Equal for equal commands; an Idempotency-Key belongs to one."""
        key = None if self.api_key_id is None else str(self.api_key_id)
        return hashlib.sha256(canonical_bytes(self.command_type, self.symbol, key)).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingOrder:
    """The order that closes a position."""

    intent_id: IntentId
    close_reason: CloseReason | None
    certainty: Certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskCommand:
    """A desk command as it was recorded, and how far it is."""

    id: UUID
    scope: DeskScope
    # A type and an id.
    principal: tuple[str, str]
    created_at: datetime
    # Orders in its scope when it was accepted, and open orders there that were placed elsewhere, which it leaves.
    orders: int
    external_orders: int
    # Set when there is nothing more to do.
    ended_at: datetime | None
    failed: bool
    reason: DeskReason | None
    detail: str | None
    # Why a rule refused the closing order.
    receipt_id: ReceiptId | None
    closing: ClosingOrder | None
    # Whether the outcome of one of its orders is unknown.
    has_unknown: bool

    @property
    def status(self) -> DeskStatus:
        if self.ended_at is not None:
            return DeskStatus.FAILED if self.failed else DeskStatus.DONE
        closing = self.closing
        in_doubt = self.has_unknown or (closing is not None and closing.certainty is Certainty.UNKNOWN)
        return DeskStatus.IN_DOUBT if in_doubt else DeskStatus.WORKING


def outcome_of(
    close_reason: CloseReason | None, certainty: Certainty, last_cancel: ActionState | None, *, has_ended: bool
) -> OrderOutcome:
    """The outcome of an order of a command; close_reason is None while the order is open."""
    if close_reason is not None:
        return OrderOutcome(close_reason)
    if certainty is Certainty.UNKNOWN:
        return OrderOutcome.UNKNOWN
    if has_ended:
        return OrderOutcome.OPEN
    return OrderOutcome.CANCEL_FAILED if last_cancel in _WITHOUT_EFFECT else OrderOutcome.CANCELING


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingFacts:
    """What decides the next step of a CLOSE_POSITION."""

    age: timedelta
    # Orders of the command that are not closed, and how many of these are unknown.
    open_orders: int
    unknown_orders: int
    closing: ClosingOrder | None
    # The reason recorded so far why no closing order was placed.
    waits_for: DeskReason | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now; with the reason why no closing order is placed yet."""

    reason: DeskReason | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The command ends, as failed if there is a reason."""

    reason: DeskReason | None = None
    detail: str | None = None


class Place:
    """The closing order may be placed."""


def next_step(facts: ClosingFacts) -> Wait | End | Place:
    """The closing order comes once all orders are closed; a command that has one waits for its end."""
    if facts.closing is not None:
        ended = facts.closing.close_reason
        if ended is None:
            return Wait()
        if ended is CloseReason.FILLED:
            return End()
        return End(DeskReason.ORDER_ENDED, f"the closing order ended as {ended}")
    if facts.open_orders:
        return not_yet(DeskReason.ORDER_IN_DOUBT if facts.unknown_orders else DeskReason.ORDERS_OPEN, facts.age)
    # A command that waited too long, for example while no executor ran, must not trade late.
    return End(facts.waits_for or DeskReason.TOO_LATE, _TOO_LATE) if facts.age > PLACE_WITHIN else Place()


_TOO_LATE: Final = f"not possible within {PLACE_WITHIN.seconds // 60} minutes; no order was placed"


def not_yet(reason: DeskReason, age: timedelta) -> Wait | End:
    """Wait for what is in the way of the closing order, but not longer than PLACE_WITHIN."""
    return End(reason, _TOO_LATE) if age > PLACE_WITHIN else Wait(reason)


def closing_terms(position: Decimal) -> tuple[OrderSide, Decimal]:
    """Side and quantity of the order that closes a position, which is not 0."""
    return (OrderSide.SELL if position > 0 else OrderSide.BUY), abs(position)


def totals_of(counts: Mapping[OrderOutcome, int]) -> dict[str, int]:
    """Orders per outcome, in the order of the outcomes, without zeros."""
    return {outcome: counts[outcome] for outcome in OrderOutcome if counts.get(outcome)}


def closing_key(desk_command_id: UUID) -> str:
    """The Idempotency-Key of the closing order. It contains a space, which callers' keys cannot."""
    return f"desk_command {desk_command_id}"

"""Commands as requested, actions as recorded, and their canonical hashes."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from openbell_server.domain.hash_chains import canonical_bytes
from openbell_server.domain.identifiers import (
    AccountId,
    ActionId,
    IntentId,
    OrganizationId,
    ReceiptId,
    Symbol,
)
from openbell_server.domain.orders.order_terms import (
    EXACT,
    OrderSide,
    OrderSpec,
    OrderType,
    ReplacementSpec,
    RouteStrategy,
    TimeInForce,
)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ActionType(StrEnum):
    """The three commands."""

    CREATE = "CREATE"
    REPLACE = "REPLACE"
    CANCEL = "CANCEL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIntent:
    symbol: Symbol
    order_side: OrderSide
    route_strategy: RouteStrategy
    spec: OrderSpec
    client_reference_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceIntent:
    """Change an intent's order; never done as a cancel and a new order."""

    ref_intent_id: IntentId
    spec: ReplacementSpec
    client_reference_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelIntent:
    ref_intent_id: IntentId
    client_reference_id: str | None = None


Command = CreateIntent | ReplaceIntent | CancelIntent


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A command with options of one request, which do not count when an Idempotency-Key is compared."""

    command: Command
    # The command is not sent to the broker later than this; a CANCEL has none.
    deadline: datetime | None = None
    # Skip the duplicate-order check.
    allow_duplicate: bool = False


def intent_of(command: Command, new_id: IntentId) -> IntentId:
    return new_id if isinstance(command, CreateIntent) else command.ref_intent_id


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentAction:
    """One recorded command of an intent: a full snapshot that never changes."""

    id: ActionId
    intent_id: IntentId
    account_id: AccountId
    organization_id: OrganizationId
    number: int
    seq: int
    action_type: ActionType
    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    route_strategy: RouteStrategy
    quantity: Decimal
    limit_price: Decimal | None
    stop_price: Decimal | None
    time_in_force: TimeInForce
    client_reference_id: str | None
    principal_type: str
    principal_id: str
    receipt_id: ReceiptId
    created_at: datetime


def plain(number: Decimal | None) -> str | None:
    """A decimal without exponent, with all its digits."""
    return None if number is None else format(number, "f")


def action_hash(action: IntentAction) -> bytes:
    """SHA-256 of an action's canonical bytes; the database's accept function computes the same."""
    return hashlib.sha256(
        canonical_bytes(
            str(action.id),
            str(action.intent_id),
            str(action.account_id),
            str(action.organization_id),
            str(action.number),
            str(action.seq),
            action.action_type,
            action.symbol,
            action.order_side,
            action.order_type,
            action.route_strategy,
            plain(action.quantity),
            plain(action.limit_price),
            plain(action.stop_price),
            action.time_in_force,
            action.client_reference_id,
            action.principal_type,
            action.principal_id,
            str(action.receipt_id),
            str((action.created_at - EPOCH) // timedelta(microseconds=1)),
        )
    ).digest()


def _shortest(number: Decimal | None) -> str | None:
    return None if number is None else plain(number.normalize(EXACT))


def command_hash(command: Command) -> bytes:
    """SHA-256 of a decoded command: two spellings of one command are equal for an Idempotency-Key."""
    match command:
        case CreateIntent(spec=spec):
            fields: tuple[str | None, ...] = (
                ActionType.CREATE,
                command.symbol,
                command.order_side,
                command.route_strategy,
                spec.order_type,
                _shortest(spec.quantity),
                _shortest(spec.limit_price),
                _shortest(spec.stop_price),
                spec.time_in_force,
                command.client_reference_id,
            )
        case ReplaceIntent(spec=replacement):
            fields = (
                ActionType.REPLACE,
                str(command.ref_intent_id),
                replacement.order_type,
                _shortest(replacement.quantity),
                _shortest(replacement.limit_price),
                _shortest(replacement.stop_price),
                replacement.time_in_force,
                command.client_reference_id,
            )
        case CancelIntent():
            fields = (ActionType.CANCEL, str(command.ref_intent_id), command.client_reference_id)
    return hashlib.sha256(canonical_bytes(*fields)).digest()

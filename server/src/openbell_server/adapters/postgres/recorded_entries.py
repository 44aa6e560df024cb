"""Rows of an account's record as the entries that a back-test takes."""

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

import asyncpg
import msgspec

from openbell_server.domain.account_events import EventKind
from openbell_server.domain.accounts import Environment
from openbell_server.domain.action_lifecycle import SETTLED
from openbell_server.domain.backtest_controls import Entry, RecordedCommand
from openbell_server.domain.control_facts import Asked
from openbell_server.domain.external_orders import ExternalStatus
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import CloseReason
from openbell_server.domain.orders import EXACT, OrderSide, OrderType, Terms, TimeInForce
from openbell_server.domain.principals import PrincipalKind
from openbell_server.domain.recalled_markets import ReceiptLine, recalled
from openbell_server.domain.recorded_state import OrderTold, PositionAdjusted, ReplaceSettled

# As an event shows an order that is over.
_ENDS: Final = frozenset(CloseReason)
OPEN_ELSEWHERE: Final = frozenset({ExternalStatus.WORKING, ExternalStatus.DONE_FOR_DAY})
# Enums of every word, which are looked up faster than made.
_TYPES: Final = {str(word): word for word in ActionType}
_SIDES: Final = {str(word): word for word in OrderSide}
_KINDS: Final = {str(word): word for word in OrderType}
_TIMES: Final = {str(word): word for word in TimeInForce}


# Of bodies and receipts only what is asked for is decoded: there are many, and they say much more.
class _ToldOrder(msgspec.Struct):
    """An order as an event shows it; one that is not ours has no terms but its quantity."""

    symbol: Symbol
    order_side: OrderSide
    status: str
    filled_quantity: Decimal
    quantity: Decimal | None = None
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    time_in_force: TimeInForce = TimeInForce.DAY
    broker_order_id: str | None = None


class _ToldAction(msgspec.Struct):
    action_type: str
    state: str


class _ToldPosition(msgspec.Struct):
    symbol: Symbol
    before: Decimal
    after: Decimal


class _ToldTerms(msgspec.Struct):
    quantity: Decimal
    time_in_force: TimeInForce
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    filled_quantity: Decimal = Decimal(0)


class _ToldCommand(msgspec.Struct):
    """A command as its receipt has it; an accepted one has its terms in a row of its own."""

    action_type: ActionType | None = None
    symbol: Symbol | None = None
    order_side: OrderSide | None = None
    order_type: OrderType | None = None
    quantity: Decimal | None = None
    time_in_force: TimeInForce | None = None
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    key_id: str | None = None
    before: _ToldTerms | None = None
    intent_id: UUID | None = None
    deadline: datetime | None = None
    allow_duplicate: bool = False


class _ToldReceipt(msgspec.Struct):
    rules: list[ReceiptLine]
    command: _ToldCommand | None = None
    evaluated_at: datetime | None = None


_order: Final = msgspec.json.Decoder(_ToldOrder)
_action: Final = msgspec.json.Decoder(_ToldAction)
_position: Final = msgspec.json.Decoder(_ToldPosition)
_receipt: Final = msgspec.json.Decoder(_ToldReceipt)


def entry_of(row: asyncpg.Record, environment: Environment) -> Entry | None:
    """What an event tells; None where it changes nothing that rules count."""
    kind, body = row["kind"], row["body"]
    if kind == EventKind.INTENT_ACTION:
        if body is None:
            return _accepted(row, environment)
        told = _action.decode(body)
        if told.action_type == ActionType.REPLACE and told.state in SETTLED:
            return ReplaceSettled(row["intent_id"], row["seq"])
        return None
    return adjusted(body) if kind == EventKind.POSITION_ADJUSTED else order_told(kind, row["intent_id"], body)


def adjusted(body: str) -> PositionAdjusted:
    """By how much a position was moved onto the broker's word."""
    told = _position.decode(body)
    return PositionAdjusted(told.symbol, EXACT.subtract(told.after, told.before))


def order_told(kind: int, intent_id: IntentId | None, body: str) -> OrderTold:
    """An order, ours or not, as an event shows it."""
    told = _order.decode(body)
    if kind == EventKind.EXTERNAL_ORDER:
        assert told.broker_order_id is not None
        return external_told(
            told.broker_order_id,
            told.symbol,
            told.order_side,
            told.quantity,
            told.filled_quantity,
            is_open=told.status in OPEN_ELSEWHERE,
        )
    assert intent_id is not None
    assert told.quantity is not None
    return OrderTold(
        key=intent_id,
        symbol=told.symbol,
        order_side=told.order_side,
        terms=Terms(
            quantity=told.quantity,
            limit_price=told.limit_price,
            stop_price=told.stop_price,
            time_in_force=told.time_in_force,
        ),
        filled_quantity=told.filled_quantity,
        is_open=told.status not in _ENDS,
    )


def external_told(
    broker_order_id: str, symbol: Symbol, order_side: str, quantity: Decimal | None, filled: Decimal, *, is_open: bool
) -> OrderTold:
    """An order that is not ours; of one without a quantity nobody knows what it may still fill."""
    return OrderTold(
        key=broker_order_id,
        symbol=symbol,
        order_side=_SIDES[order_side],
        # How long it stays is nobody's concern here.
        terms=Terms(quantity=filled if quantity is None else quantity, time_in_force=TimeInForce.DAY),
        filled_quantity=filled,
        is_open=is_open,
    )


def order_at(row: asyncpg.Record) -> OrderTold:
    """An order of ours as a row has it."""
    return OrderTold(
        key=row["order_id"],
        symbol=row["symbol"],
        order_side=_SIDES[row["order_side"]],
        terms=_terms_of(row),
        filled_quantity=row["filled_quantity"],
        is_open=row["is_open"],
    )


def _accepted(row: asyncpg.Record, environment: Environment) -> RecordedCommand:
    receipt = _receipt.decode(row["receipt"])
    command, created_at = receipt.command, row["created_at"]
    return RecordedCommand(
        id=row["action_id"],
        asked=Asked(
            action_type=_TYPES[row["action_type"]],
            symbol=row["symbol"],
            order_side=_SIDES[row["order_side"]],
            order_type=_KINDS[row["order_type"]],
            terms=_terms_of(row),
            environment=environment,
            key_id=row["principal_id"] if row["principal_type"] == PrincipalKind.API_KEY else None,
            deadline=None if command is None else command.deadline,
            allow_duplicate=command is not None and command.allow_duplicate,
        ),
        intent_id=row["intent_id"],
        seq=row["seq"],
        recorded_at=created_at,
        judged_at=receipt.evaluated_at or created_at,
        recalled=recalled(row["symbol"], receipt.rules),
    )


def refused_command(row: asyncpg.Record, environment: Environment) -> RecordedCommand | None:
    """A command that a control refused, as its receipt has it; None where that is of a version without the command."""
    receipt = _receipt.decode(row["body"])
    command = receipt.command
    if command is None or command.order_side is None:
        return None
    assert command.action_type is not None
    assert command.symbol is not None
    assert command.order_type is not None
    before = command.before
    return RecordedCommand(
        id=row["receipt_id"],
        asked=Asked(
            action_type=command.action_type,
            symbol=command.symbol,
            order_side=command.order_side,
            order_type=command.order_type,
            terms=_terms(command),
            environment=environment,
            key_id=command.key_id,
            before=None if before is None else _terms(before),
            filled_quantity=Decimal(0) if before is None else before.filled_quantity,
            deadline=command.deadline,
            allow_duplicate=command.allow_duplicate,
        ),
        intent_id=None if command.intent_id is None else IntentId(command.intent_id),
        seq=None,
        recorded_at=row["created_at"],
        judged_at=receipt.evaluated_at or row["created_at"],
        recalled=recalled(command.symbol, receipt.rules),
    )


def _terms_of(row: asyncpg.Record) -> Terms:
    return Terms(
        quantity=row["quantity"],
        limit_price=row["limit_price"],
        stop_price=row["stop_price"],
        time_in_force=_TIMES[row["time_in_force"]],
    )


def _terms(told: _ToldTerms | _ToldCommand) -> Terms:
    assert told.quantity is not None
    assert told.time_in_force is not None
    return Terms(
        quantity=told.quantity,
        limit_price=told.limit_price,
        stop_price=told.stop_price,
        time_in_force=told.time_in_force,
    )

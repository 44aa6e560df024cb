"""Converts stored events, orders and receipts of an account into entries of a back-test."""

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

import asyncpg
import msgspec

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.domain.controls.backtest import Entry, RecordedCommand
from openbell_server.domain.controls.backtest_markets import ReceiptLine, recalled
from openbell_server.domain.controls.backtest_state import OrderSnapshot, PositionAdjusted, ReplaceSettled
from openbell_server.domain.controls.facts import CommandFacts
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.action_lifecycle import SETTLED
from openbell_server.domain.orders.external_orders import ExternalStatus
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import CloseReason
from openbell_server.domain.orders.order_terms import EXACT, OrderSide, OrderType, Terms, TimeInForce

# Statuses of a closed order in an event.
_ENDS: Final = frozenset(CloseReason)
OPEN_ELSEWHERE: Final = frozenset({ExternalStatus.WORKING, ExternalStatus.DONE_FOR_DAY})
# A dictionary look-up is faster than a call of the enum.
_TYPES: Final = {str(member): member for member in ActionType}
_SIDES: Final = {str(member): member for member in OrderSide}
_KINDS: Final = {str(member): member for member in OrderType}
_TIMES: Final = {str(member): member for member in TimeInForce}


# Only the fields that a back-test needs are decoded, because it reads many large event bodies and receipts.
class _EventOrder(msgspec.Struct):
    """The order in an event body; of the terms of an external order only quantity and limit price count."""

    symbol: Symbol
    order_side: OrderSide
    status: str
    filled_quantity: Decimal
    quantity: Decimal | None = None
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    time_in_force: TimeInForce = TimeInForce.DAY
    broker_order_id: str | None = None


class _EventAction(msgspec.Struct):
    action_type: str
    status: str


class _EventPosition(msgspec.Struct):
    symbol: Symbol
    before: Decimal
    after: Decimal


class _ReceiptTerms(msgspec.Struct):
    quantity: Decimal
    time_in_force: TimeInForce
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    filled_quantity: Decimal = Decimal(0)


class _ReceiptCommand(msgspec.Struct):
    """The command in a receipt; the terms of an accepted command are in its intent_actions row instead."""

    action_type: ActionType | None = None
    symbol: Symbol | None = None
    order_side: OrderSide | None = None
    order_type: OrderType | None = None
    quantity: Decimal | None = None
    time_in_force: TimeInForce | None = None
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    api_key_id: str | None = None
    before: _ReceiptTerms | None = None
    intent_id: UUID | None = None
    deadline: datetime | None = None
    allow_duplicate: bool = False
    protects_position: bool = False


class _ReceiptBody(msgspec.Struct):
    rules: list[ReceiptLine]
    command: _ReceiptCommand | None = None
    evaluated_at: datetime | None = None


_order: Final = msgspec.json.Decoder(_EventOrder)
_action: Final = msgspec.json.Decoder(_EventAction)
_position: Final = msgspec.json.Decoder(_EventPosition)
_receipt: Final = msgspec.json.Decoder(_ReceiptBody)


def entry_of(row: asyncpg.Record, environment: Environment) -> Entry | None:
    """None if the event changes nothing that rules count."""
    kind, body = row["kind"], row["body"]
    if kind == EventKind.INTENT_ACTION:
        if body is None:
            return _accepted(row, environment)
        action = _action.decode(body)
        if action.action_type == ActionType.REPLACE and action.status in SETTLED:
            return ReplaceSettled(row["intent_id"], row["seq"])
        return None
    return adjusted(body) if kind == EventKind.POSITION_ADJUSTED else order_of_event(kind, row["intent_id"], body)


def adjusted(body: str) -> PositionAdjusted:
    position = _position.decode(body)
    return PositionAdjusted(position.symbol, EXACT.subtract(position.after, position.before))


def order_of_event(kind: int, intent_id: IntentId | None, body: str) -> OrderSnapshot:
    order = _order.decode(body)
    if kind == EventKind.EXTERNAL_ORDER:
        assert order.broker_order_id is not None
        return external_order(
            order.broker_order_id,
            order.symbol,
            order.order_side,
            order.quantity,
            order.limit_price,
            order.filled_quantity,
            is_open=order.status in OPEN_ELSEWHERE,
        )
    assert intent_id is not None
    assert order.quantity is not None
    return OrderSnapshot(
        key=intent_id,
        symbol=order.symbol,
        order_side=order.order_side,
        terms=Terms(
            quantity=order.quantity,
            limit_price=order.limit_price,
            stop_price=order.stop_price,
            time_in_force=order.time_in_force,
        ),
        filled_quantity=order.filled_quantity,
        is_open=order.status not in _ENDS,
    )


def external_order(
    broker_order_id: str,
    symbol: Symbol,
    order_side: str,
    quantity: Decimal | None,
    limit_price: Decimal | None,
    filled: Decimal,
    *,
    is_open: bool,
) -> OrderSnapshot:
    """Without a quantity, the order counts as completely filled, because its open quantity is unknown."""
    return OrderSnapshot(
        key=broker_order_id,
        symbol=symbol,
        order_side=_SIDES[order_side],
        # Rules do not read the time in force of an external order.
        terms=Terms(
            quantity=filled if quantity is None else quantity, limit_price=limit_price, time_in_force=TimeInForce.DAY
        ),
        filled_quantity=filled,
        is_open=is_open,
    )


def order_at(row: asyncpg.Record) -> OrderSnapshot:
    return OrderSnapshot(
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
        asked=CommandFacts(
            action_type=_TYPES[row["action_type"]],
            symbol=row["symbol"],
            order_side=_SIDES[row["order_side"]],
            order_type=_KINDS[row["order_type"]],
            terms=_terms_of(row),
            environment=environment,
            api_key_id=row["principal_id"] if row["principal_type"] == PrincipalKind.API_KEY else None,
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
    """None for a receipt of an old version, which has no command."""
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
        asked=CommandFacts(
            action_type=command.action_type,
            symbol=command.symbol,
            order_side=command.order_side,
            order_type=command.order_type,
            terms=_terms(command),
            environment=environment,
            api_key_id=command.api_key_id,
            before=None if before is None else _terms(before),
            filled_quantity=Decimal(0) if before is None else before.filled_quantity,
            deadline=command.deadline,
            allow_duplicate=command.allow_duplicate,
            protects=command.protects_position,
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


def _terms(source: _ReceiptTerms | _ReceiptCommand) -> Terms:
    assert source.quantity is not None
    assert source.time_in_force is not None
    return Terms(
        quantity=source.quantity,
        limit_price=source.limit_price,
        stop_price=source.stop_price,
        time_in_force=source.time_in_force,
    )

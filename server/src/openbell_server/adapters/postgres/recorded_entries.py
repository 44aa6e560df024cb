"""Rows of an account's record as the entries that a back-test takes."""

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import asyncpg

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
from openbell_server.domain.recalled_markets import recalled
from openbell_server.domain.recorded_state import OrderTold, PositionAdjusted, ReplaceSettled

# As an event shows an order that is over.
_ENDS: Final = frozenset(CloseReason)
OPEN_ELSEWHERE: Final = frozenset({ExternalStatus.WORKING, ExternalStatus.DONE_FOR_DAY})
# Enums of every word, which are looked up faster than made.
_TYPES: Final = {str(word): word for word in ActionType}
_SIDES: Final = {str(word): word for word in OrderSide}
_KINDS: Final = {str(word): word for word in OrderType}
_TIMES: Final = {str(word): word for word in TimeInForce}


def entry_of(row: asyncpg.Record, environment: Environment) -> Entry | None:
    """What an event tells; None where it changes nothing that rules count."""
    kind, body = row["kind"], row["body"]
    if kind == EventKind.INTENT_ACTION:
        if body is None:
            return _accepted(row, environment)
        told = json.loads(body)
        if told["action_type"] == ActionType.REPLACE and told["state"] in SETTLED:
            return ReplaceSettled(row["intent_id"], row["seq"])
        return None
    told = json.loads(body)
    return adjusted(told) if kind == EventKind.POSITION_ADJUSTED else order_told(kind, row["intent_id"], told)


def adjusted(told: Mapping[str, Any]) -> PositionAdjusted:
    """By how much a position was moved onto the broker's word."""
    return PositionAdjusted(told["symbol"], EXACT.subtract(Decimal(told["after"]), Decimal(told["before"])))


def order_told(kind: int, intent_id: IntentId | None, told: Mapping[str, Any]) -> OrderTold:
    """An order, ours or not, as an event shows it."""
    filled = Decimal(told["filled_quantity"])
    if kind == EventKind.EXTERNAL_ORDER:
        quantity = told["quantity"]
        return external_told(
            told["broker_order_id"],
            told["symbol"],
            told["order_side"],
            None if quantity is None else Decimal(quantity),
            filled,
            is_open=told["status"] in OPEN_ELSEWHERE,
        )
    assert intent_id is not None
    return OrderTold(
        key=intent_id,
        symbol=told["symbol"],
        order_side=_SIDES[told["order_side"]],
        terms=_terms(told),
        filled_quantity=filled,
        is_open=told["status"] not in _ENDS,
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
    receipt = json.loads(row["receipt"])
    command = receipt.get("command", {})
    deadline, evaluated_at = command.get("deadline"), receipt.get("evaluated_at")
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
            deadline=None if deadline is None else datetime.fromisoformat(deadline),
            allow_duplicate=command.get("allow_duplicate", False),
        ),
        intent_id=row["intent_id"],
        seq=row["seq"],
        recorded_at=row["created_at"],
        judged_at=row["created_at"] if evaluated_at is None else datetime.fromisoformat(evaluated_at),
        recalled=recalled(row["symbol"], receipt["rules"]),
    )


def refused_command(row: asyncpg.Record, environment: Environment) -> RecordedCommand | None:
    """A command that a control refused, as its receipt has it; None where that is of a version without the command."""
    receipt = json.loads(row["body"])
    command = receipt.get("command")
    if command is None or "order_side" not in command:
        return None
    before, deadline, intent_id = command.get("before"), command.get("deadline"), command.get("intent_id")
    return RecordedCommand(
        id=row["receipt_id"],
        asked=Asked(
            action_type=_TYPES[command["action_type"]],
            symbol=command["symbol"],
            order_side=_SIDES[command["order_side"]],
            order_type=_KINDS[command["order_type"]],
            terms=_terms(command),
            environment=environment,
            key_id=command.get("key_id"),
            before=None if before is None else _terms(before),
            filled_quantity=Decimal(0) if before is None else Decimal(before.get("filled_quantity", "0")),
            deadline=None if deadline is None else datetime.fromisoformat(deadline),
            allow_duplicate=command.get("allow_duplicate", False),
        ),
        intent_id=None if intent_id is None else IntentId(UUID(intent_id)),
        seq=None,
        recorded_at=row["created_at"],
        judged_at=datetime.fromisoformat(receipt["evaluated_at"]),
        recalled=recalled(command["symbol"], receipt["rules"]),
    )


def _terms_of(row: asyncpg.Record) -> Terms:
    return Terms(
        quantity=row["quantity"],
        limit_price=row["limit_price"],
        stop_price=row["stop_price"],
        time_in_force=_TIMES[row["time_in_force"]],
    )


def _terms(told: Mapping[str, Any]) -> Terms:
    limit_price, stop_price = told.get("limit_price"), told.get("stop_price")
    return Terms(
        quantity=Decimal(told["quantity"]),
        limit_price=None if limit_price is None else Decimal(limit_price),
        stop_price=None if stop_price is None else Decimal(stop_price),
        time_in_force=_TIMES[told["time_in_force"]],
    )

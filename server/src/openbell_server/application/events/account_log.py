"""Append events about actions, orders, trades, positions and balances to the account's log."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

from openbell_server.application.ports.account_transaction import AccountTransaction, OrderTerms, TrackedAction
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import ActionId, Symbol, client_order_id
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.broker_trades import Tally, Trade
from openbell_server.domain.orders.external_orders import ExternalOrder
from openbell_server.domain.orders.intents import plain
from openbell_server.domain.orders.order_aggregate import Order, status

_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def log_action(
    transaction: AccountTransaction,
    action: TrackedAction,
    state: ActionState,
    reason: Reason | None,
    unknown: Mapping[str, object] | None = None,
) -> None:
    body: dict[str, object] = {
        "action_id": str(action.action_id),
        "action_type": action.action_type,
        "status": state,
        "reason": _reason(reason),
        "client_reference_id": action.terms.client_reference_id,
    }
    if unknown is not None:
        body["unknown"] = unknown
    transaction.append_event(EventKind.INTENT_ACTION, action.intent_id, action.seq, _text(body))


def log_doubt(
    transaction: AccountTransaction, action: TrackedAction, code: str, flagged_at: datetime | None, settles_by: str
) -> None:
    """Log a resend or flag of an action whose outcome stays unknown."""
    assert action.unknown_since is not None
    unknown = {
        "since": action.unknown_since.isoformat(),
        "flagged_at": flagged_at and flagged_at.isoformat(),
        "writes": action.writes,
        "settles_by": settles_by,
    }
    log_action(transaction, action, ActionState.UNKNOWN, Reason(code), unknown)


def log_order(
    transaction: AccountTransaction,
    action: TrackedAction,
    order: Order,
    reason: Reason | None = None,
    notices: Sequence[str] = (),
) -> None:
    """Log a changed order with its notices; without a reason the first notice is the reason."""
    if reason is None and notices:
        reason = Reason(notices[0])
    body = {**order_fields(order, action.terms, action.order_action_id), "reason": _reason(reason)}
    if notices:
        body["notices"] = notices
    transaction.append_event(EventKind.BROKER_ORDER, action.intent_id, action.seq, _text(body))


def order_fields(order: Order, terms: OrderTerms, order_action_id: ActionId) -> dict[str, object]:
    """An order as events and snapshots show it."""
    return {
        "broker_order_ids": order.broker_order_ids,
        "client_order_id": client_order_id(order_action_id),
        "client_reference_id": terms.client_reference_id,
        "symbol": terms.symbol,
        "order_side": terms.order_side,
        "order_type": terms.order_type,
        "quantity": plain(order.quantity),
        "limit_price": plain(order.terms.limit_price),
        "stop_price": plain(order.terms.stop_price),
        "time_in_force": order.terms.time_in_force,
        "status": status(order),
        "pending": order.pending,
        "certainty": order.certainty,
        "filled_quantity": plain(order.filled_quantity),
        "leaves_quantity": plain(order.leaves_quantity),
        "average_price": plain(order.average_price),
    }


def log_trade(transaction: AccountTransaction, action: TrackedAction, order: Order, trade: Trade, tally: Tally) -> None:
    """Log an execution, its bust or its correction."""
    terms = action.terms
    body = {
        "execution_id": trade.execution_id,
        "broker_order_ids": order.broker_order_ids,
        "client_order_id": client_order_id(action.order_action_id),
        "client_reference_id": terms.client_reference_id,
        "symbol": terms.symbol,
        "order_side": terms.order_side,
        "kind": trade.kind,
        "quantity": plain(trade.quantity),
        "price": plain(trade.price),
        "fee": plain(trade.fee),
        "executed_at": trade.executed_at.isoformat(),
        "cumulative_quantity": plain(tally.cumulative_quantity),
        "leaves_quantity": plain(tally.leaves_quantity),
        "position": plain(tally.position),
    }
    transaction.append_event(EventKind.BROKER_TRADE, action.intent_id, action.seq, _text(body))


def log_external_order(transaction: AccountTransaction, order: ExternalOrder) -> None:
    """Log an external order that was found or changed."""
    transaction.append_event(EventKind.EXTERNAL_ORDER, None, None, _text(external_order_fields(order)))


def external_order_fields(order: ExternalOrder) -> dict[str, object]:
    """An external order as events and snapshots show it."""
    return {
        "broker_order_id": order.broker_order_id,
        "client_order_id": order.client_order_id,
        "symbol": order.symbol,
        "order_side": order.order_side,
        "order_type": order.order_type,
        "quantity": plain(order.quantity),
        "limit_price": plain(order.limit_price),
        "stop_price": plain(order.stop_price),
        "time_in_force": order.time_in_force,
        "status": order.status,
        "filled_quantity": plain(order.filled_quantity),
        "average_price": plain(order.average_price),
        "accepted_at": order.accepted_at.isoformat(),
    }


def log_position_adjusted(
    transaction: AccountTransaction,
    symbol: Symbol,
    before: Decimal,
    after: Decimal,
    cause: str,
    average_price: Decimal | None = None,
) -> None:
    """Log that the broker's position differs from our count and was adopted."""
    body = {
        "symbol": symbol,
        "before": plain(before),
        "after": plain(after),
        "cause": cause,
        "average_price": plain(average_price),
    }
    transaction.append_event(EventKind.POSITION_ADJUSTED, None, None, _text(body))


def log_balances_changed(transaction: AccountTransaction, balances: Balances) -> None:
    """Log that the account's cash changed, with all balances."""
    body = {
        "currency": balances.currency,
        "cash": plain(balances.cash),
        "equity": plain(balances.equity),
        "buying_power": plain(balances.buying_power),
        "initial_margin": plain(balances.initial_margin),
        "maintenance_margin": plain(balances.maintenance_margin),
        "as_of": balances.as_of.isoformat(),
    }
    transaction.append_event(EventKind.BALANCES_CHANGED, None, None, _text(body))


def _reason(reason: Reason | None) -> dict[str, str | None] | None:
    if reason is None:
        return None
    return {"code": reason.code, "broker_code": reason.broker_code, "broker_text": reason.broker_text}


def _text(body: Mapping[str, object]) -> str:
    return _encode(body)

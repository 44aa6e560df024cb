"""Orders, positions and the account in the format of Alpaca's API.

What that format has no value for is in the additional field `openbell`: the platform's own status and its certainty.
"""

from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from openbell_server.application.events.event_json import moment_text
from openbell_server.application.intents.ports import Execution, ListedOrder, RecordedAction
from openbell_server.application.money.read_positions import ValuedPosition
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.credentials import NOT_READY
from openbell_server.domain.identifiers import IntentId, Symbol, client_order_id
from openbell_server.domain.markets.calendars import Market, Session
from openbell_server.domain.money.balances import StoredBalances
from openbell_server.domain.orders.action_lifecycle import Reason
from openbell_server.domain.orders.intents import plain
from openbell_server.domain.orders.order_aggregate import Certainty, CloseReason, Order, Pending, Standing, status
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.transport.rest.alpaca.commands import TIMES_IN_FORCE, TYPES
from openbell_server.transport.rest.intents.bodies import reason_body

Json = dict[str, Any]
# Alpaca's nearest status for ends that it does not have: not sent, failed, gone from the broker's list.
ENDS: Final = {
    CloseReason.FILLED: "filled",
    CloseReason.CANCELED: "canceled",
    CloseReason.EXPIRED: "expired",
    CloseReason.REJECTED: "rejected",
    CloseReason.SKIPPED: "rejected",
    CloseReason.FAILED: "rejected",
    CloseReason.RECONCILED_OUT: "canceled",
}
PENDING: Final = {
    Pending.NEW: "pending_new",
    Pending.REPLACE: "pending_replace",
    Pending.CANCEL: "pending_cancel",
}
ENDED_AT: Final = {"filled": "filled_at", "canceled": "canceled_at", "expired": "expired_at", "rejected": "failed_at"}
_TYPE_NAMES: Final = {kind: name for name, kind in TYPES.items()}
TIME_NAMES: Final = {time: name for name, time in TIMES_IN_FORCE.items()} | {TimeInForce.EXT: "day"}


class ShownOrder(NamedTuple):
    """What an order of Alpaca is made of."""

    intent_id: IntentId
    client_order_id: str
    symbol: Symbol
    side: OrderSide
    order_type: OrderType
    order: Order
    created_at: datetime
    updated_at: datetime
    reason: Reason | None


def shown_of(listed: ListedOrder) -> ShownOrder:
    return ShownOrder(
        intent_id=listed.intent_id,
        client_order_id=listed.client_reference_id or client_order_id(listed.order_action_id),
        symbol=listed.symbol,
        side=listed.order_side,
        order_type=listed.order_type,
        order=listed.order,
        created_at=listed.created_at,
        updated_at=listed.updated_at,
        reason=listed.reason,
    )


def created_of(recorded: RecordedAction, execution: Execution) -> ShownOrder:
    """The order of a CREATE that was just recorded, or recorded before."""
    action = recorded.action
    return ShownOrder(
        intent_id=action.intent_id,
        client_order_id=action.client_reference_id or client_order_id(action.id),
        symbol=action.symbol,
        side=action.order_side,
        order_type=action.order_type,
        order=execution.order,
        created_at=action.created_at,
        updated_at=execution.updated_at,
        reason=recorded.reason,
    )


def status_of(order: Order) -> str:
    """Alpaca's nearest status."""
    if order.pending is not Pending.NONE and order.standing is not Standing.CLOSED:
        return PENDING[order.pending]
    if order.close_reason is not None:
        return ENDS[order.close_reason]
    return "partially_filled" if order.filled_quantity else "new"


def order_body(shown: ShownOrder) -> Json:
    order, shown_status = shown.order, status_of(shown.order)
    created, updated = moment_text(shown.created_at), moment_text(shown.updated_at)
    kind = _TYPE_NAMES[shown.order_type]
    body: Json = {
        "id": str(shown.intent_id),
        "client_order_id": shown.client_order_id,
        "created_at": created,
        "updated_at": updated,
        "submitted_at": created,
        "filled_at": None,
        "expired_at": None,
        "canceled_at": None,
        "failed_at": None,
        "replaced_at": None,
        "replaced_by": None,
        "replaces": None,
        "asset_id": str(asset_id(shown.symbol)),
        "symbol": shown.symbol,
        "asset_class": "us_equity",
        "notional": None,
        "qty": plain(order.quantity),
        "filled_qty": plain(order.filled_quantity),
        "filled_avg_price": plain(order.average_price),
        "order_class": "simple",
        "order_type": kind,
        "type": kind,
        "side": "buy" if shown.side is OrderSide.BUY else "sell",
        "time_in_force": TIME_NAMES[order.terms.time_in_force],
        "limit_price": plain(order.terms.limit_price),
        "stop_price": plain(order.terms.stop_price),
        "status": shown_status,
        "extended_hours": order.terms.time_in_force is TimeInForce.EXT,
        "legs": None,
        "trail_percent": None,
        "trail_price": None,
        "hwm": None,
        "openbell": {"status": status(order), "certainty": order.certainty.value},
    }
    if shown.reason is not None:
        body["openbell"]["reason"] = reason_body(shown.reason)
    if order.certainty is not Certainty.UNKNOWN and (ended_at := ENDED_AT.get(shown_status)):
        body[ended_at] = updated
    return body


def asset_id(symbol: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"openbell:asset:{symbol}")


def asset_body(symbol: Symbol) -> Json:
    """The platform keeps no list of assets: the broker decides at the order."""
    return {
        "id": str(asset_id(symbol)),
        "class": "us_equity",
        "exchange": "",
        "symbol": symbol,
        "name": symbol,
        "status": "active",
        "tradable": True,
        "marginable": False,
        "shortable": False,
        "easy_to_borrow": False,
        "fractionable": False,
        "openbell": {"unknown": ["exchange", "status", "tradable", "marginable", "shortable", "fractionable"]},
    }


def position_body(position: ValuedPosition) -> Json:
    quantity = format(position.quantity, "f")
    money = {
        "market_value": plain(position.market_value),
        "current_price": plain(position.market_price),
        "unrealized_pl": plain(position.unrealized),
    }
    costs = {"avg_entry_price": plain(position.average_cost), "cost_basis": plain(position.cost)}
    return {
        "asset_id": str(asset_id(position.symbol)),
        "symbol": position.symbol,
        "exchange": "",
        "asset_class": "us_equity",
        "qty": quantity,
        "qty_available": quantity,
        "side": "long" if position.quantity > Decimal(0) else "short",
        **money,
        # The format has no null here.
        **{name: "0" if value is None else value for name, value in costs.items()},
        "openbell": {
            "unknown": ["qty_available", *(name for name, value in (costs | money).items() if value is None)],
        },
    }


def account_body(account: TradingAccount, stored: StoredBalances | None) -> Json:
    money = _money(stored)
    is_blocked = account.disabled or account.organization_disabled or account.credential_status in NOT_READY
    return {
        "id": str(account.id),
        "account_number": str(account.id),
        "status": "ACCOUNT_CLOSED" if account.closed else "ACTIVE",
        **money,
        "trading_blocked": is_blocked or account.closed,
        "account_blocked": account.disabled or account.organization_disabled,
        "transfers_blocked": True,
        "trade_suspended_by_user": account.disabled,
        "openbell": {
            "name": account.name,
            "broker": account.broker,
            "environment": account.environment.value,
            "balances_as_of": None if stored is None else moment_text(stored.balances.as_of),
            "unknown": [name for name, value in money.items() if value is None],
        },
    }


def _money(stored: StoredBalances | None) -> dict[str, str | None]:
    """As the broker reported it last."""
    if stored is None:
        return dict.fromkeys(("currency", "cash", "buying_power", "equity", "initial_margin", "maintenance_margin"))
    found = stored.balances
    return {
        "currency": found.currency,
        "cash": plain(found.cash),
        "buying_power": plain(found.buying_power),
        "equity": plain(found.equity),
        "initial_margin": plain(found.initial_margin),
        "maintenance_margin": plain(found.maintenance_margin),
    }


def clock_body(market: Market, now: datetime) -> Json:
    opens, closes = market.next_changes(now, Session.REGULAR)
    return {
        "timestamp": moment_text(now),
        "is_open": market.open_at(now, Session.REGULAR) is not None,
        "next_open": None if opens is None else moment_text(opens),
        "next_close": None if closes is None else moment_text(closes),
    }

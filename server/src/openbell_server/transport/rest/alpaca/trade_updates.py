"""Events of an account as the trade updates of Alpaca's stream."""

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from openbell_server.application.events.event_json import moment_text
from openbell_server.domain.events.account_events import AccountEvent, EventKind
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.broker_trades import TradeKind
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import CloseReason, Pending
from openbell_server.transport.rest.alpaca.bodies import ENDED_AT, ENDS, PENDING, TIME_NAMES

Json = dict[str, Any]
FOLLOWED: Final = frozenset({EventKind.BROKER_ORDER, EventKind.BROKER_TRADE, EventKind.INTENT_ACTION})
# Alpaca's status of each status that the event of an order has.
_STATUSES: Final = {
    "NEW": "new",
    "UNKNOWN": "pending_new",
    "PARTIALLY_FILLED": "partially_filled",
    **{f"PENDING_{pending}": name for pending, name in PENDING.items() if pending is not Pending.NONE},
    **{reason.value: name for reason, name in ENDS.items()},
}
# Updates about executions replace these.
_FILLS: Final = {"PARTIALLY_FILLED", CloseReason.FILLED.value}
_NOT_DONE: Final = {ActionState.REFUSED, ActionState.SKIPPED, ActionState.FAILED, ActionState.ABANDONED}
_OF_ACTIONS: Final[Mapping[tuple[str, str], str]] = {
    (ActionType.CREATE, ActionState.QUEUED): "pending_new",
    (ActionType.REPLACE, ActionState.ACKED): "replaced",
    **{(ActionType.REPLACE, state): "order_replace_rejected" for state in _NOT_DONE},
    **{(ActionType.CANCEL, state): "order_cancel_rejected" for state in _NOT_DONE},
}


def update_name(event: AccountEvent) -> str | None:
    """Alpaca's name of what happened; None if its stream has no update for that."""
    body = json.loads(event.body)
    if event.kind is EventKind.INTENT_ACTION:
        return _OF_ACTIONS.get((body["action_type"], body["status"]))
    if event.kind is EventKind.BROKER_TRADE:
        if body["kind"] != TradeKind.NORMAL:
            # Alpaca has no message for a fill that the broker took back or corrected.
            return "restated"
        return "partial_fill" if Decimal(body["leaves_quantity"]) else "fill"
    has_no_update = body["status"] in _FILLS or (body["status"] == "NEW" and event.seq != 1)
    return None if has_no_update else _STATUSES[body["status"]]


def trade_update(name: str, event: AccountEvent, order: Json) -> Json:
    """`order` is the order as it is by now: the event's own state, which is earlier, replaces that."""
    body = json.loads(event.body)
    update: Json = {"event": name, "timestamp": moment_text(event.occurred_at), "event_id": event.event_id}
    if event.kind is EventKind.BROKER_TRADE:
        execution = body["execution_id"]
        update |= {
            "execution_id": str(uuid5(NAMESPACE_URL, f"openbell:execution:{event.account_id}:{execution}")),
            "price": body["price"],
            "qty": body["quantity"],
            "position_qty": body["position"],
            "timestamp": moment_text(datetime.fromisoformat(body["executed_at"])),
            "openbell": {"execution_id": execution, "kind": body["kind"]},
        }
        order = _after_trade(event, body, order)
    elif event.kind is EventKind.BROKER_ORDER:
        order = _after_change(event, body, order)
    elif body["action_type"] == ActionType.CREATE:
        openbell = {"status": "PENDING_NEW", "certainty": "CONFIRMED"}
        order = {
            **order,
            "filled_qty": "0",
            "filled_avg_price": None,
            **_as_of(event, "PENDING_NEW"),
            "openbell": openbell,
        }
    return {**update, "order": order}


def _after_trade(event: AccountEvent, body: Json, order: Json) -> Json:
    filled = body["cumulative_quantity"]
    status = "PARTIALLY_FILLED" if Decimal(body["leaves_quantity"]) else CloseReason.FILLED.value
    # Of an earlier moment the average is not known here.
    average = order["filled_avg_price"] if order["filled_qty"] == filled else None
    changed = {"filled_qty": filled, "filled_avg_price": average}
    return {**order, **changed, **_as_of(event, status), "openbell": {"status": status, "certainty": "CONFIRMED"}}


def _after_change(event: AccountEvent, body: Json, order: Json) -> Json:
    openbell = {"status": body["status"], "certainty": body["certainty"]}
    if body["reason"] is not None:
        openbell["reason"] = {name: text for name, text in body["reason"].items() if text is not None}
    changed = {
        "qty": body["quantity"],
        "limit_price": body["limit_price"],
        "stop_price": body["stop_price"],
        "time_in_force": TIME_NAMES[body["time_in_force"]],
        "filled_qty": body["filled_quantity"],
        "filled_avg_price": body["average_price"],
    }
    return {**order, **changed, **_as_of(event, body["status"]), "openbell": openbell}


def _as_of(event: AccountEvent, status: str) -> Json:
    shown, moment = _STATUSES[status], moment_text(event.occurred_at)
    ended = {name: moment if ENDED_AT.get(shown) == name else None for name in ENDED_AT.values()}
    return {"status": shown, "updated_at": moment, **ended}

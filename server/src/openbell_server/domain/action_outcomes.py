"""What follows from a broker's answer: the action's next state, and what becomes of its order."""

from dataclasses import dataclass, replace
from typing import Final

from openbell_server.domain.action_lifecycle import SETTLED, ActionState, Reason
from openbell_server.domain.broker_orders import Accepted, NotSent, OrderReport, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import (
    Certainty,
    CloseReason,
    Order,
    Pending,
    Standing,
    close,
    doubt,
    settle_command,
)

BROKER_REFUSED: Final = "BROKER_REFUSED"
NOT_SENT: Final = "NOT_SENT"
NO_ANSWER: Final = "NO_ANSWER"
NOT_AT_BROKER: Final = "NOT_AT_BROKER"
ORDER_TERMINAL: Final = "ORDER_TERMINAL"
SUPERSEDED: Final = "SUPERSEDED"
FORGOTTEN: Final = "FORGOTTEN"
NOTHING_SENT: Final = "NOTHING_SENT"


@dataclass(frozen=True, slots=True)
class Settlement:
    """An action's next state with its reason, and its order after that; state None changes nothing."""

    state: ActionState | None
    reason: Reason | None
    order: Order


def after_outcome(action_type: ActionType, state: ActionState, order: Order, outcome: Outcome) -> Settlement:
    """What an answer to a command means; an action that evidence settled meanwhile stays as it is."""
    if state in SETTLED:
        return Settlement(None, None, order)
    if action_type is ActionType.CREATE:
        return _after_create(state, order, outcome)
    return _after_cancel(state, order, outcome)


def _after_create(state: ActionState, order: Order, outcome: Outcome) -> Settlement:
    match outcome:
        case Accepted(broker_order_id):
            return Settlement(ActionState.ACKED, None, _working(order, broker_order_id))
        case Refused(code, text):
            reason = Reason(BROKER_REFUSED, code, text)
            # An order that the broker has reported is there, whatever it says about another copy of it.
            closed = close(order, CloseReason.REJECTED) if order.standing is Standing.NONE else order
            return Settlement(ActionState.REFUSED, reason, closed)
        case NotSent(why):
            return Settlement(ActionState.FAILED, Reason(NOT_SENT, None, why), close(order, CloseReason.FAILED))
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), doubt(order))


def _after_cancel(state: ActionState, order: Order, outcome: Outcome) -> Settlement:
    if order.standing is Standing.CLOSED:
        return _cancel_of_closed(order)
    match outcome:
        case Accepted():
            # The order ends when the broker reports that it did.
            return Settlement(ActionState.ACKED, None, replace(order, certainty=Certainty.CONFIRMED))
        case Refused(code, text):
            return Settlement(ActionState.REFUSED, Reason(BROKER_REFUSED, code, text), settle_command(order))
        case NotSent(why):
            return Settlement(ActionState.FAILED, Reason(NOT_SENT, None, why), settle_command(order))
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), doubt(order))


def _cancel_of_closed(order: Order) -> Settlement:
    if order.close_reason is CloseReason.CANCELED:
        return Settlement(ActionState.ACKED, None, order)
    return Settlement(ActionState.REFUSED, Reason(ORDER_TERMINAL), order)


def _working(order: Order, broker_order_id: str) -> Order:
    ids = order.broker_order_ids
    if broker_order_id not in ids:
        order = replace(order, broker_order_ids=(*ids, broker_order_id))
    if order.standing is Standing.NONE:
        return replace(settle_command(order), standing=Standing.WORKING)
    return order


def after_report(
    action_type: ActionType, state: ActionState, order: Order, report: OrderReport
) -> tuple[ActionState, Reason | None] | None:
    """Whether a report about the order settles one of its open actions; order is the one after the report."""
    if state in SETTLED or state is ActionState.QUEUED:
        return None
    if action_type is ActionType.CREATE:
        if report.status is ReportStatus.REJECTED and not order.filled_quantity:
            return ActionState.REFUSED, Reason(BROKER_REFUSED, report.broker_code, report.broker_text)
        return ActionState.ACKED, None
    if order.standing is Standing.CLOSED:
        settlement = _cancel_of_closed(order)
        assert settlement.state is not None
        return settlement.state, settlement.reason
    return None


def after_absence(order: Order) -> Settlement:
    """What it means that the broker provably never got the order."""
    return Settlement(ActionState.FAILED, Reason(NOT_AT_BROKER), close(order, CloseReason.FAILED))


def cancel_pending(order: Order) -> Order:
    """The order once a cancel passes the door."""
    return replace(order, pending=Pending.CANCEL) if order.pending is Pending.NONE else order

"""What follows from a broker's answer: the action's next state, and what becomes of its order."""

from dataclasses import dataclass, replace
from typing import Final

from openbell_server.domain.action_lifecycle import SETTLED, ActionState, Reason
from openbell_server.domain.broker_orders import Accepted, NotSent, OrderReport, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import (
    CLOSES,
    Certainty,
    CloseReason,
    Order,
    Pending,
    Standing,
    close,
    doubt,
    settle_command,
    settle_replace,
)
from openbell_server.domain.orders import Terms

BROKER_REFUSED: Final = "BROKER_REFUSED"
NOT_SENT: Final = "NOT_SENT"
NO_ANSWER: Final = "NO_ANSWER"
NOT_AT_BROKER: Final = "NOT_AT_BROKER"
ORDER_TERMINAL: Final = "ORDER_TERMINAL"
SUPERSEDED: Final = "SUPERSEDED"
FORGOTTEN: Final = "FORGOTTEN"
NOTHING_SENT: Final = "NOTHING_SENT"
QUANTITY_NOT_ABOVE_FILLED: Final = "QUANTITY_NOT_ABOVE_FILLED"


@dataclass(frozen=True, slots=True)
class Settlement:
    """An action's next state with its reason, and its order after that; state None changes nothing."""

    state: ActionState | None
    reason: Reason | None
    order: Order


def after_outcome(
    action_type: ActionType, state: ActionState, order: Order, outcome: Outcome, replacement: Terms | None = None
) -> Settlement:
    """What an answer to a command means; an action that evidence settled meanwhile stays as it is.

    Replacement is what a REPLACE asks for.
    """
    if state in SETTLED:
        return Settlement(None, None, order)
    if action_type is ActionType.CREATE:
        return _after_create(state, order, outcome)
    if replacement is not None:
        return _after_replace(state, order, outcome, replacement)
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


def _after_replace(state: ActionState, order: Order, outcome: Outcome, replacement: Terms) -> Settlement:
    match outcome:
        case Accepted(broker_order_id):
            return Settlement(ActionState.ACKED, None, settle_replace(_known_as(order, broker_order_id), replacement))
        case Refused(code, text):
            reason = Reason(BROKER_REFUSED, code, text)
            return Settlement(ActionState.REFUSED, reason, settle_replace(order, order.terms))
        case NotSent(why):
            return Settlement(ActionState.FAILED, Reason(NOT_SENT, None, why), settle_replace(order, order.terms))
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            # Of an order that ended nothing is in doubt but whether it was replaced before.
            doubted = order if order.standing is Standing.CLOSED else doubt(order)
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), doubted)


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


def _known_as(order: Order, broker_order_id: str) -> Order:
    ids = order.broker_order_ids
    return order if broker_order_id in ids else replace(order, broker_order_ids=(*ids, broker_order_id))


def _working(order: Order, broker_order_id: str) -> Order:
    order = _known_as(order, broker_order_id)
    if order.standing is Standing.NONE:
        return replace(settle_command(order), standing=Standing.WORKING)
    return order


def after_report(
    action_type: ActionType, state: ActionState, order: Order, report: OrderReport, replacement: Terms | None = None
) -> tuple[ActionState, Reason | None] | None:
    """Whether a report about the order settles one of its open actions; order is the one after the report."""
    if state in SETTLED or state is ActionState.QUEUED:
        return None
    if action_type is ActionType.CREATE:
        if report.status is ReportStatus.REJECTED and not order.filled_quantity:
            return ActionState.REFUSED, Reason(BROKER_REFUSED, report.broker_code, report.broker_text)
        return ActionState.ACKED, None
    if replacement is not None:
        # An order that works may yet be replaced; one that ended shows for good whether it was.
        if report.status not in CLOSES or report.terms is None or order.standing is not Standing.CLOSED:
            return None
        if report.terms == replacement:
            return ActionState.ACKED, None
        return ActionState.REFUSED, Reason(ORDER_TERMINAL)
    if order.standing is Standing.CLOSED:
        settlement = _cancel_of_closed(order)
        assert settlement.state is not None
        return settlement.state, settlement.reason
    return None


def after_absence(order: Order) -> Settlement:
    """What it means that the broker provably never got the order."""
    return Settlement(ActionState.FAILED, Reason(NOT_AT_BROKER), close(order, CloseReason.FAILED))


def is_found(report: OrderReport | None, replacement: Terms | None) -> bool:
    """Whether a look-up shows that a command arrived: the order is there, with the terms that a replace asked for."""
    return report is not None and (replacement is None or report.terms == replacement)


def after_look(
    order: Order, report: OrderReport | None, replacement: Terms | None, *, missed_before: bool
) -> Settlement:
    """What a look-up past every delay says of a command in doubt; a second one that misses it is proof."""
    if replacement is None:
        return after_absence(order) if report is None and missed_before else Settlement(None, None, order)
    if is_found(report, replacement):
        return Settlement(ActionState.ACKED, None, settle_replace(order, replacement))
    # An order that is not shown at all says nothing about a change of it.
    if report is None or report.terms is None or not missed_before:
        return Settlement(None, None, order)
    return Settlement(ActionState.FAILED, Reason(NOT_AT_BROKER), settle_replace(order, order.terms))


def pending_past_door(action_type: ActionType, order: Order) -> Order:
    """The order once a command passes the door: a new order is pending from the start, a cancel outranks a replace."""
    if action_type is ActionType.CANCEL and order.pending in {Pending.NONE, Pending.REPLACE}:
        return replace(order, pending=Pending.CANCEL)
    if action_type is ActionType.REPLACE and order.pending is Pending.NONE:
        return replace(order, pending=Pending.REPLACE)
    return order

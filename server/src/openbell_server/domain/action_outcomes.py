"""What follows from a broker's answer: the action's next state, and what becomes of its order."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from openbell_server.domain.action_lifecycle import PAST_DOOR, SETTLED, ActionState, Reason, may_become
from openbell_server.domain.broker_orders import Accepted, NotSent, OrderReport, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import (
    Answered,
    Asked,
    CancelTaken,
    Closed,
    CloseReason,
    Doubted,
    Order,
    Pending,
    ReplaceAnswered,
    Sighted,
    Standing,
    advance,
)
from openbell_server.domain.order_reports import CLOSES, OVERFILL, SIGHTED_LATE
from openbell_server.domain.orders import Terms

BROKER_REFUSED: Final = "BROKER_REFUSED"
NOT_SENT: Final = "NOT_SENT"
NO_ANSWER: Final = "NO_ANSWER"
NOT_AT_BROKER: Final = "NOT_AT_BROKER"
ORDER_IN_DOUBT: Final = "ORDER_IN_DOUBT"
ORDER_TERMINAL: Final = "ORDER_TERMINAL"
SUPERSEDED: Final = "SUPERSEDED"
FORGOTTEN: Final = "FORGOTTEN"
NOTHING_SENT: Final = "NOTHING_SENT"
QUANTITY_NOT_ABOVE_FILLED: Final = "QUANTITY_NOT_ABOVE_FILLED"
# What an event says beside the state of an action that is still in doubt.
NEEDS_ATTENTION: Final = "NEEDS_ATTENTION"
WRITTEN_AGAIN: Final = "WRITTEN_AGAIN"
SETTLED_BY_OPERATOR: Final = "SETTLED_BY_OPERATOR"


@dataclass(frozen=True, slots=True)
class Settlement:
    """An action's next state with its reason, and its order after that; state None changes nothing."""

    state: ActionState | None
    reason: Reason | None
    order: Order
    # What of it is worth a look, in the words of the log.
    notices: tuple[str, ...] = ()


def after_outcome(
    action_type: ActionType,
    state: ActionState,
    order: Order,
    outcome: Outcome,
    replacement: Terms | None = None,
    *,
    unseen: bool = False,
) -> Settlement:
    """What an answer to a command means; an action that evidence settled meanwhile stays as it is.

    Replacement is what a REPLACE asks for. A CANCEL is unseen if nobody knew of its order when it was sent.
    """
    if state in SETTLED:
        return Settlement(None, None, order)
    if action_type is ActionType.CREATE:
        return _after_create(state, order, outcome)
    if replacement is not None:
        return _after_replace(state, order, outcome, replacement)
    return _after_cancel(state, order, outcome, unseen=unseen)


def after_resend(
    action_type: ActionType, state: ActionState, order: Order, outcome: Outcome, replacement: Terms | None = None
) -> Settlement:
    """What an answer to a command that was written before means: that nothing left this time says nothing of then."""
    if isinstance(outcome, NotSent):
        return Settlement(None, None, order)
    return after_outcome(action_type, state, order, outcome, replacement)


def after_operator(
    action_type: ActionType, order: Order, ends_as: ActionState, found: str, replacement: Terms | None = None
) -> Settlement:
    """What becomes of an action in doubt that an operator settles; found is the broker's id of an acknowledged order.

    An order that is given up is out of our books; should its broker ever show it, it is back in them.
    """
    outcomes: dict[ActionState, Outcome] = {
        ActionState.ACKED: Accepted(found),
        ActionState.REFUSED: Refused("", ""),
        ActionState.FAILED: NotSent(""),
        ActionState.ABANDONED: NotSent(""),
    }
    settled = after_outcome(action_type, ActionState.UNKNOWN, order, outcomes[ends_as], replacement)
    if ends_as is ActionState.ABANDONED and action_type is ActionType.CREATE:
        return replace(settled, state=ends_as, order=advance(order, Closed(CloseReason.RECONCILED_OUT)))
    return replace(settled, state=ends_as)


def _after_create(state: ActionState, order: Order, outcome: Outcome) -> Settlement:
    match outcome:
        case Accepted(broker_order_id):
            return Settlement(ActionState.ACKED, None, advance(order, Sighted(broker_order_id)))
        case Refused(code, text):
            reason = Reason(BROKER_REFUSED, code, text)
            # An order that the broker has reported is there, whatever it says about another copy of it.
            closed = advance(order, Closed(CloseReason.REJECTED)) if order.standing is Standing.NONE else order
            return Settlement(ActionState.REFUSED, reason, closed)
        case NotSent(why):
            return Settlement(
                ActionState.FAILED, Reason(NOT_SENT, None, why), advance(order, Closed(CloseReason.FAILED))
            )
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), advance(order, Doubted()))


def _after_replace(state: ActionState, order: Order, outcome: Outcome, replacement: Terms) -> Settlement:
    match outcome:
        case Accepted(broker_order_id, version):
            order = advance(order, Sighted(broker_order_id))
            return Settlement(ActionState.ACKED, None, advance(order, ReplaceAnswered(replacement, version)))
        case Refused(code, text):
            return _not_replaced(ActionState.REFUSED, Reason(BROKER_REFUSED, code, text), order, replacement)
        case NotSent(why):
            return _not_replaced(ActionState.FAILED, Reason(NOT_SENT, None, why), order, replacement)
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            # Of an order that ended nothing is in doubt but whether it was replaced before.
            doubted = order if order.standing is Standing.CLOSED else advance(order, Doubted())
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), doubted)


def _not_replaced(state: ActionState, reason: Reason, order: Order, replacement: Terms) -> Settlement:
    """The order keeps its terms; what filled beyond them while they might have been others is too much after all."""
    too_much = order.overfilled_quantity() > order.overfilled_quantity(replacement)
    kept = advance(order, ReplaceAnswered(order.terms))
    return Settlement(state, reason, kept, (OVERFILL,) if too_much else ())


def _after_cancel(state: ActionState, order: Order, outcome: Outcome, *, unseen: bool) -> Settlement:
    if order.standing is Standing.CLOSED:
        return cancel_of_closed(order)
    match outcome:
        case Refused(code, text) if unseen:
            # The order may have arrived after its cancel: such a no says nothing about the order as it is now.
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            reason = Reason(ORDER_IN_DOUBT, code, text)
            return Settlement(ActionState.UNKNOWN, reason, advance(order, Doubted()))
        case Accepted():
            # The order ends when the broker reports that it did.
            return Settlement(ActionState.ACKED, None, advance(order, CancelTaken()))
        case Refused(code, text):
            return Settlement(ActionState.REFUSED, Reason(BROKER_REFUSED, code, text), advance(order, Answered()))
        case NotSent(why):
            return Settlement(ActionState.FAILED, Reason(NOT_SENT, None, why), advance(order, Answered()))
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), advance(order, Doubted()))


def cancel_of_closed(order: Order) -> Settlement:
    """What became of a cancel of an order that has ended."""
    if order.close_reason is CloseReason.CANCELED:
        return Settlement(ActionState.ACKED, None, order)
    return Settlement(ActionState.REFUSED, Reason(ORDER_TERMINAL), order)


def after_report(
    action_type: ActionType,
    state: ActionState,
    order: Order,
    report: OrderReport,
    replacement: Terms | None = None,
    *,
    shown: bool = False,
) -> Settlement | None:
    """What a report about the order settles of one of its actions, if anything; order is the one after the report.

    Shown says that the report has newer terms than the order had, and that they are this replace's.
    """
    if action_type is ActionType.CREATE:
        return _create_reported(state, order, report)
    if replacement is not None and shown and may_become(state, ActionState.ACKED):
        late = Reason(SIGHTED_LATE) if state in SETTLED else None
        return Settlement(ActionState.ACKED, late, advance(order, ReplaceAnswered(order.terms)))
    if state not in PAST_DOOR:
        return None
    if replacement is not None:
        return _replace_reported(state, order, report, replacement)
    return cancel_of_closed(order) if order.standing is Standing.CLOSED else None


def _create_reported(state: ActionState, order: Order, report: OrderReport) -> Settlement | None:
    if not may_become(state, ActionState.ACKED):
        return None
    if report.status is ReportStatus.REJECTED and not order.filled_quantity:
        refused = Reason(BROKER_REFUSED, report.broker_code, report.broker_text)
        return None if state in SETTLED else Settlement(ActionState.REFUSED, refused, order)
    return Settlement(ActionState.ACKED, Reason(SIGHTED_LATE) if state in SETTLED else None, order)


def _replace_reported(state: ActionState, order: Order, report: OrderReport, replacement: Terms) -> Settlement | None:
    """An order that works may yet be replaced; one that ended shows for good whether it was.

    With a version it would have shown before: terms that an order had all along tell of no replace.
    """
    if report.status not in CLOSES or report.terms is None or order.standing is not Standing.CLOSED:
        return None
    if report.terms == replacement and report.terms_version is None:
        return Settlement(ActionState.ACKED, None, order)
    # While its own answer may come, an end proves no refusal: an execution that is taken back reopens the order.
    return Settlement(ActionState.REFUSED, Reason(ORDER_TERMINAL), order) if state is ActionState.UNKNOWN else None


def after_absence(order: Order) -> Settlement:
    """What it means that the broker provably never got the order."""
    return Settlement(ActionState.FAILED, Reason(NOT_AT_BROKER), advance(order, Closed(CloseReason.FAILED)))


def is_found(report: OrderReport | None, replacement: Terms | None) -> bool:
    """Whether a look-up shows that a command arrived: the order is there, with the terms that a replace asked for.

    Where it shows which version they are, the report has settled the replace, or they are older than it.
    """
    if report is None or replacement is None:
        return report is not None
    return report.terms == replacement and report.terms_version is None


def after_look(
    order: Order, report: OrderReport | None, replacement: Terms | None, *, missed_before: bool
) -> Settlement:
    """What a look-up past every delay says of a command in doubt; a second one that misses it is proof."""
    if replacement is None:
        return after_absence(order) if report is None and missed_before else Settlement(None, None, order)
    if is_found(report, replacement):
        return Settlement(ActionState.ACKED, None, advance(order, ReplaceAnswered(replacement)))
    # An order that is not shown at all says nothing about a change of it.
    if report is None or report.terms is None or not missed_before:
        return Settlement(None, None, order)
    return _not_replaced(ActionState.FAILED, Reason(NOT_AT_BROKER), order, replacement)


def with_doubt(order: Order, others: Iterable[tuple[ActionType, ActionState]]) -> Order:
    """The order after one command was settled, as its others leave it: what was written may be pending or in doubt."""
    if order.standing is Standing.CLOSED:
        return order
    for action_type, state in others:
        if state in PAST_DOOR:
            order = advance(order, Asked(_PENDING[action_type]))
        if state is ActionState.UNKNOWN:
            order = advance(order, Doubted())
    return order


_PENDING: Final = {
    ActionType.CREATE: Pending.NEW,
    ActionType.REPLACE: Pending.REPLACE,
    ActionType.CANCEL: Pending.CANCEL,
}


def past_door(action_type: ActionType, order: Order) -> Order:
    """The order once a command passes the door; a new order is pending from the start."""
    if action_type is ActionType.CREATE:
        return order
    return advance(order, Asked(_PENDING[action_type]))

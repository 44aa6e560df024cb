"""What a broker's answer changes: the action's next state, and its order."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, SETTLED, ActionState, Reason, may_become
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    NotSent,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import (
    CancelTaken,
    Closed,
    CloseReason,
    CommandAnswered,
    CommandSent,
    Order,
    OutcomeUnknown,
    Pending,
    ReplaceAnswered,
    SeenAtBroker,
    Standing,
    advance,
)
from openbell_server.domain.orders.order_reports import CLOSES, OVERFILL, SIGHTED_LATE
from openbell_server.domain.orders.order_terms import Terms

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
# Reasons in events of an action whose outcome is still unknown.
NEEDS_ATTENTION: Final = "NEEDS_ATTENTION"
WRITTEN_AGAIN: Final = "WRITTEN_AGAIN"
SETTLED_BY_OPERATOR: Final = "SETTLED_BY_OPERATOR"


@dataclass(frozen=True, slots=True)
class Settlement:
    """An action's next state with its reason, and its order after that; state None means no change."""

    state: ActionState | None
    reason: Reason | None
    order: Order
    # Codes for the account's event log.
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
    """Apply an answer to a command; an action that was settled meanwhile does not change.

    `replacement` holds the terms of a REPLACE. `unseen`: the order was not known at the broker when its CANCEL was
    sent.
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
    """Apply an answer to a command that was sent before.

    NotSent changes nothing, because it proves nothing about the first attempt; neither does the refusal of a repeated
    CANCEL, because the first one may be why there is nothing left to cancel.
    """
    refuses_again = action_type is ActionType.CANCEL and isinstance(outcome, Refused)
    if isinstance(outcome, NotSent) or (refuses_again and order.standing is not Standing.CLOSED):
        return Settlement(None, None, order)
    return after_outcome(action_type, state, order, outcome, replacement)


def after_operator(
    action_type: ActionType, order: Order, ends_as: ActionState, found: str, replacement: Terms | None = None
) -> Settlement:
    """Settle an UNKNOWN action as an operator decides; `found` is the broker's id of an acknowledged order.

    An abandoned order is closed; it is reopened if the broker ever shows it.
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
            return Settlement(ActionState.ACKED, None, advance(order, SeenAtBroker(broker_order_id)))
        case Refused(code, text):
            reason = Reason(BROKER_REFUSED, code, text)
            # The broker has reported this order, so the refusal is about another copy of it.
            closed = advance(order, Closed(CloseReason.REJECTED)) if order.standing is Standing.NONE else order
            return Settlement(ActionState.REFUSED, reason, closed)
        case NotSent(why):
            return Settlement(
                ActionState.FAILED, Reason(NOT_SENT, None, why), advance(order, Closed(CloseReason.FAILED))
            )
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), advance(order, OutcomeUnknown()))


def _after_replace(state: ActionState, order: Order, outcome: Outcome, replacement: Terms) -> Settlement:
    match outcome:
        case Accepted(broker_order_id, version):
            order = advance(order, SeenAtBroker(broker_order_id))
            return Settlement(ActionState.ACKED, None, advance(order, ReplaceAnswered(replacement, version)))
        case Refused(code, text):
            return _not_replaced(ActionState.REFUSED, Reason(BROKER_REFUSED, code, text), order, replacement)
        case NotSent(why):
            return _not_replaced(ActionState.FAILED, Reason(NOT_SENT, None, why), order, replacement)
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            # The order has ended: only the replace's outcome is unknown, not the order's.
            doubted = order if order.standing is Standing.CLOSED else advance(order, OutcomeUnknown())
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), doubted)


def _not_replaced(state: ActionState, reason: Reason, order: Order, replacement: Terms) -> Settlement:
    """The order keeps its terms, so fills beyond them are now an overfill."""
    too_much = order.overfilled_quantity() > order.overfilled_quantity(replacement)
    kept = advance(order, ReplaceAnswered(order.terms))
    return Settlement(state, reason, kept, (OVERFILL,) if too_much else ())


def _after_cancel(state: ActionState, order: Order, outcome: Outcome, *, unseen: bool) -> Settlement:
    if order.standing is Standing.CLOSED:
        return cancel_of_closed(order)
    match outcome:
        case Refused(code, text) if unseen:
            # The order may have arrived after its cancel, so this refusal proves nothing about the order now.
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            reason = Reason(ORDER_IN_DOUBT, code, text)
            return Settlement(ActionState.UNKNOWN, reason, advance(order, OutcomeUnknown()))
        case Accepted():
            # The order ends only when the broker reports its end.
            return Settlement(ActionState.ACKED, None, advance(order, CancelTaken()))
        case Refused(code, text):
            return Settlement(
                ActionState.REFUSED, Reason(BROKER_REFUSED, code, text), advance(order, CommandAnswered())
            )
        case NotSent(why):
            return Settlement(ActionState.FAILED, Reason(NOT_SENT, None, why), advance(order, CommandAnswered()))
        case Unknown(why):
            if state is ActionState.UNKNOWN:
                return Settlement(None, None, order)
            return Settlement(ActionState.UNKNOWN, Reason(NO_ANSWER, None, why), advance(order, OutcomeUnknown()))


def cancel_of_closed(order: Order) -> Settlement:
    """The settlement of a CANCEL whose order has ended."""
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
    """The settlement of one action by a report about its order; `order` is the order after the report.

    `shown`: the report has newer terms than the order had, and they are this replace's terms.
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
    """A working order may still be replaced; an ended order shows whether it was.

    With a terms version, `after_report` has already settled the replace: equal terms without a newer version prove
    nothing.
    """
    if report.status not in CLOSES or report.terms is None or order.standing is not Standing.CLOSED:
        return None
    if report.terms == replacement and report.terms_version is None:
        return Settlement(ActionState.ACKED, None, order)
    # The answer may still come: the end proves no refusal, because a busted execution reopens the order.
    return Settlement(ActionState.REFUSED, Reason(ORDER_TERMINAL), order) if state is ActionState.UNKNOWN else None


def after_absence(order: Order) -> Settlement:
    """The broker provably never received the order."""
    return Settlement(ActionState.FAILED, Reason(NOT_AT_BROKER), advance(order, Closed(CloseReason.FAILED)))


def is_found(report: OrderReport | None, replacement: Terms | None) -> bool:
    """Whether a look-up shows that a command arrived: the order exists, with the terms of a replace.

    With a terms version, the report has already settled the replace, or the terms are older than it.
    """
    if report is None or replacement is None:
        return report is not None
    return report.terms == replacement and report.terms_version is None


def after_look(
    order: Order, report: OrderReport | None, replacement: Terms | None, *, missed_before: bool
) -> Settlement:
    """Apply a look-up made after every declared delay; a second look-up that does not find the command is proof."""
    if replacement is None:
        return after_absence(order) if report is None and missed_before else Settlement(None, None, order)
    if is_found(report, replacement):
        return Settlement(ActionState.ACKED, None, advance(order, ReplaceAnswered(replacement)))
    # A missing order proves nothing about its replace.
    if report is None or report.terms is None or not missed_before:
        return Settlement(None, None, order)
    return _not_replaced(ActionState.FAILED, Reason(NOT_AT_BROKER), order, replacement)


def with_doubt(order: Order, others: Iterable[tuple[ActionType, ActionState]]) -> Order:
    """The order after one command was settled: its other sent commands may still be pending or unknown."""
    if order.standing is Standing.CLOSED:
        return order
    for action_type, state in others:
        if state in PAST_DOOR:
            order = advance(order, CommandSent(_PENDING[action_type]))
        if state is ActionState.UNKNOWN:
            order = advance(order, OutcomeUnknown())
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
    return advance(order, CommandSent(_PENDING[action_type]))

"""Every answer of a broker to every command in every state, against a table written by hand."""

from dataclasses import replace
from decimal import Decimal
from itertools import product

import pytest

from builders import a_report
from openbell_server.domain.action_lifecycle import SETTLED, ActionState, may_become
from openbell_server.domain.action_outcomes import after_absence, after_outcome, after_report, cancel_pending
from openbell_server.domain.broker_orders import (
    Accepted,
    NotSent,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import CloseReason, Order, Pending, Standing, close, doubt

FRESH = Order(quantity=Decimal(5))
WORKING = Order(quantity=Decimal(5), standing=Standing.WORKING, pending=Pending.CANCEL, broker_order_ids=("b1",))
OUTCOMES: dict[str, Outcome] = {
    "Accepted": Accepted("b1"),
    "Refused": Refused("E1", "no money"),
    "NotSent": NotSent("no connection"),
    "Unknown": Unknown("no answer"),
}
PAST_THE_DOOR = (ActionState.DISPATCHING, ActionState.UNKNOWN)

# command, outcome → the action's state and reason; the order's standing, close reason, pending, certainty.
TABLE = {
    ("CREATE", "Accepted"): ("ACKED", None, "WORKING", None, "NONE", "CONFIRMED"),
    ("CREATE", "Refused"): ("REFUSED", "BROKER_REFUSED", "CLOSED", "REJECTED", "NONE", "CONFIRMED"),
    ("CREATE", "NotSent"): ("FAILED", "NOT_SENT", "CLOSED", "FAILED", "NONE", "CONFIRMED"),
    ("CREATE", "Unknown"): ("UNKNOWN", "NO_ANSWER", "NONE", None, "NEW", "UNKNOWN"),
    ("CANCEL", "Accepted"): ("ACKED", None, "WORKING", None, "CANCEL", "CONFIRMED"),
    ("CANCEL", "Refused"): ("REFUSED", "BROKER_REFUSED", "WORKING", None, "NONE", "CONFIRMED"),
    ("CANCEL", "NotSent"): ("FAILED", "NOT_SENT", "WORKING", None, "NONE", "CONFIRMED"),
    ("CANCEL", "Unknown"): ("UNKNOWN", "NO_ANSWER", "WORKING", None, "CANCEL", "UNKNOWN"),
}


def order_for(command: str, state: ActionState) -> Order:
    order = FRESH if command == "CREATE" else WORKING
    return doubt(order) if state is ActionState.UNKNOWN else order


@pytest.mark.parametrize(("state", "case"), list(product(PAST_THE_DOOR, TABLE)))
def test_an_answer_moves_action_and_order_as_the_table_says(state: ActionState, case: tuple[str, str]) -> None:
    command, outcome = case
    order = order_for(command, state)
    settlement = after_outcome(ActionType(command), state, order, OUTCOMES[outcome])
    if (state, outcome) == (ActionState.UNKNOWN, "Unknown"):
        assert (settlement.state, settlement.reason, settlement.order) == (None, None, order)
        return
    after, reason = settlement.order, settlement.reason
    assert settlement.state is not None
    assert may_become(state, settlement.state)
    assert TABLE[case] == (
        settlement.state,
        reason and reason.code,
        after.standing,
        after.close_reason,
        after.pending,
        after.certainty,
    )


@pytest.mark.parametrize(
    ("state", "command", "outcome"), list(product(sorted(SETTLED), ["CREATE", "CANCEL"], OUTCOMES))
)
def test_an_answer_to_a_settled_action_changes_nothing(state: ActionState, command: str, outcome: str) -> None:
    order = order_for(command, state)
    settlement = after_outcome(ActionType(command), state, order, OUTCOMES[outcome])
    assert (settlement.state, settlement.reason, settlement.order) == (None, None, order)


@pytest.mark.parametrize(("ended", "outcome", "state"), list(product(CloseReason, OUTCOMES, PAST_THE_DOOR)))
def test_a_cancel_of_a_closed_order_is_settled_by_how_the_order_ended(
    ended: CloseReason, outcome: str, state: ActionState
) -> None:
    order = close(WORKING, ended)
    settlement = after_outcome(ActionType.CANCEL, state, order, OUTCOMES[outcome])
    expected = ("ACKED", None) if ended is CloseReason.CANCELED else ("REFUSED", "ORDER_TERMINAL")
    assert (settlement.state, settlement.reason and settlement.reason.code) == expected
    assert settlement.order == order


def test_a_late_acceptance_ends_the_doubt_about_a_cancel() -> None:
    settlement = after_outcome(ActionType.CANCEL, ActionState.UNKNOWN, doubt(WORKING), Accepted("b1"))
    assert settlement.order == WORKING


def test_an_acceptance_after_a_report_keeps_what_the_report_said() -> None:
    reported = replace(WORKING, filled_quantity=Decimal(2), pending=Pending.NONE)
    settlement = after_outcome(ActionType.CREATE, ActionState.DISPATCHING, reported, Accepted("b1"))
    assert settlement.order == reported


def test_the_broker_s_words_are_kept_with_a_refusal() -> None:
    settlement = after_outcome(ActionType.CREATE, ActionState.DISPATCHING, FRESH, OUTCOMES["Refused"])
    assert settlement.reason is not None
    assert (settlement.reason.broker_code, settlement.reason.broker_text) == ("E1", "no money")


@pytest.mark.parametrize(("state", "status"), list(product(ActionState, ReportStatus)))
def test_any_report_acknowledges_a_create_past_the_door_and_a_rejection_refuses_it(
    state: ActionState, status: ReportStatus
) -> None:
    settled = after_report(ActionType.CREATE, state, FRESH, a_report(status))
    if state in SETTLED or state is ActionState.QUEUED:
        assert settled is None
        return
    assert settled is not None
    assert settled[0] == ("REFUSED" if status is ReportStatus.REJECTED else "ACKED")
    assert may_become(state, settled[0])


def test_a_rejection_after_fills_does_not_take_the_create_back() -> None:
    filled = replace(WORKING, filled_quantity=Decimal(1))
    settled = after_report(ActionType.CREATE, ActionState.DISPATCHING, filled, a_report(ReportStatus.REJECTED))
    assert settled == (ActionState.ACKED, None)


@pytest.mark.parametrize(("state", "ended"), list(product(ActionState, [None, *CloseReason])))
def test_a_report_settles_a_cancel_only_when_the_order_ended(state: ActionState, ended: CloseReason | None) -> None:
    order = close(WORKING, ended) if ended else WORKING
    settled = after_report(ActionType.CANCEL, state, order, a_report(ReportStatus.WORKING))
    if ended is None or state in SETTLED or state is ActionState.QUEUED:
        assert settled is None
    else:
        assert settled is not None
        assert settled[0] == ("ACKED" if ended is CloseReason.CANCELED else "REFUSED")


def test_a_create_that_never_arrived_is_failed_and_its_order_closed() -> None:
    settlement = after_absence(doubt(FRESH))
    assert settlement.reason is not None
    assert (settlement.state, settlement.reason.code) == (ActionState.FAILED, "NOT_AT_BROKER")
    assert (settlement.order.standing, settlement.order.close_reason) == (Standing.CLOSED, CloseReason.FAILED)


def test_a_cancel_past_the_door_shows_on_an_order_that_waits_for_nothing_else() -> None:
    assert cancel_pending(replace(WORKING, pending=Pending.NONE)).pending is Pending.CANCEL
    assert cancel_pending(FRESH).pending is Pending.NEW

"""What becomes of a command in doubt: written again, or settled by an operator, against tables written by hand."""

from dataclasses import replace

import pytest

from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.action_outcomes import Settlement, after_operator, after_outcome, after_resend
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Outcome, Refused, Unknown
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Certainty, CloseReason, Order, Pending, Standing
from support.builders.tenant import some_terms

NEW = some_terms(8, "1.75")
DOUBTED = Order(terms=some_terms(5), certainty=Certainty.UNKNOWN)
WORKING = replace(DOUBTED, standing=Standing.WORKING, broker_order_ids=("b1",))
ORDERS = {
    "CREATE": DOUBTED,
    "REPLACE": replace(WORKING, pending=Pending.REPLACE),
    "CANCEL": replace(WORKING, pending=Pending.CANCEL),
}


@pytest.mark.parametrize("command", list(ORDERS))
@pytest.mark.parametrize("outcome", [Accepted("b1"), Refused("E1", "no"), NotSent("no line"), Unknown("it exists")])
def test_an_answer_to_a_repeat_counts_unless_nothing_left_this_time(command: str, outcome: Outcome) -> None:
    asked = NEW if command == "REPLACE" else None
    facts = (ActionType(command), ActionState.UNKNOWN, ORDERS[command])
    settlement = after_resend(*facts, outcome, asked)
    # The first cancel may be why there is nothing left to cancel.
    if isinstance(outcome, NotSent | Unknown) or (command == "CANCEL" and isinstance(outcome, Refused)):
        assert settlement == Settlement(None, None, ORDERS[command])
    else:
        assert settlement == after_outcome(*facts, outcome, asked)
        assert settlement.state in {ActionState.ACKED, ActionState.REFUSED}


def test_a_repeated_cancel_that_is_refused_ends_with_the_order() -> None:
    closed = replace(WORKING, standing=Standing.CLOSED, close_reason=CloseReason.CANCELED, pending=Pending.NONE)
    settlement = after_resend(ActionType.CANCEL, ActionState.UNKNOWN, closed, Refused("E1", "no"))
    assert settlement.state is ActionState.ACKED


# command, how it ended → the order's standing, close reason, pending and quantity.
BY_HAND: dict[tuple[str, str], tuple[object, ...]] = {
    ("CREATE", "ACKED"): ("WORKING", None, "NONE", 5),
    ("CREATE", "REFUSED"): ("CLOSED", "REJECTED", "NONE", 5),
    ("CREATE", "FAILED"): ("CLOSED", "FAILED", "NONE", 5),
    ("CREATE", "ABANDONED"): ("CLOSED", "RECONCILED_OUT", "NONE", 5),
    ("REPLACE", "ACKED"): ("WORKING", None, "NONE", 8),
    ("REPLACE", "REFUSED"): ("WORKING", None, "NONE", 5),
    ("REPLACE", "FAILED"): ("WORKING", None, "NONE", 5),
    ("REPLACE", "ABANDONED"): ("WORKING", None, "NONE", 5),
    ("CANCEL", "ACKED"): ("WORKING", None, "CANCEL", 5),
    ("CANCEL", "REFUSED"): ("WORKING", None, "NONE", 5),
    ("CANCEL", "FAILED"): ("WORKING", None, "NONE", 5),
    ("CANCEL", "ABANDONED"): ("WORKING", None, "NONE", 5),
}


@pytest.mark.parametrize(("command", "ends_as"), list(BY_HAND))
def test_what_an_operator_says_ends_the_doubt_and_changes_only_what_it_is_about(command: str, ends_as: str) -> None:
    asked = NEW if command == "REPLACE" else None
    settled = after_operator(ActionType(command), ORDERS[command], ActionState(ends_as), "b1", asked)
    order = settled.order
    assert settled.state == ends_as
    assert BY_HAND[command, ends_as] == (order.standing, order.close_reason, order.pending, order.quantity)
    assert order.certainty is Certainty.CONFIRMED

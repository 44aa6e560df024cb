"""Both tables of steps, row by row: each edge is taken by somebody, and what is not in them is refused loudly."""

from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import get_args

import pytest

from openbell_server.domain.errors import IllegalTransition
from openbell_server.domain.orders import action_lifecycle
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.action_outcomes import after_absence, after_look, after_outcome, after_report
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import (
    STEPS,
    CancelTaken,
    Certainty,
    Closed,
    CloseReason,
    CommandAnswered,
    CommandSent,
    Ended,
    FillsTotalled,
    Order,
    OrderEvent,
    OutcomeUnknown,
    Pending,
    ReplaceAnswered,
    Restated,
    SeenAtBroker,
    Standing,
    Triggered,
    advance,
    status,
)
from support.builders.tenant import a_report, some_terms

FRESH = Order(terms=some_terms(5))
WORKING = advance(FRESH, SeenAtBroker("b1"))
FULL = advance(WORKING, FillsTotalled(Decimal(5), Decimal(5)))
CANCELED = advance(WORKING, Ended(CloseReason.CANCELED, Decimal(0)))
FAILED = advance(FRESH, Closed(CloseReason.FAILED))
MORE = some_terms(8)
NOTHING, BUSTED = FillsTotalled(Decimal(0), Decimal(0)), FillsTotalled(Decimal(2), Decimal(2), Decimal(3), changed=True)

# One example of each edge: the order before, what happens, and how it stands after.
EDGES: list[tuple[Order, OrderEvent, str]] = [
    (FRESH, SeenAtBroker("b1"), "WORKING"),
    (WORKING, SeenAtBroker("b2"), "WORKING"),
    (CANCELED, SeenAtBroker("b1"), "CLOSED"),
    (FAILED, SeenAtBroker("b1"), "WORKING"),
    (WORKING, FillsTotalled(Decimal(4), Decimal(4)), "WORKING"),
    (WORKING, FillsTotalled(Decimal(5), Decimal(5)), "CLOSED"),
    (CANCELED, FillsTotalled(Decimal(1), Decimal(1)), "CLOSED"),
    (FULL, BUSTED, "WORKING"),
    (WORKING, Ended(CloseReason.CANCELED, Decimal(1)), "WORKING"),
    (WORKING, Ended(CloseReason.EXPIRED, Decimal(0)), "CLOSED"),
    (FULL, Ended(CloseReason.FILLED, Decimal(5)), "CLOSED"),
    (WORKING, Triggered(), "WORKING"),
    (CANCELED, Triggered(), "CLOSED"),
    (WORKING, Restated(MORE, 2), "WORKING"),
    (CANCELED, Restated(MORE, 2), "CLOSED"),
    (FRESH, CommandSent(Pending.CANCEL), "NONE"),
    (WORKING, CommandSent(Pending.REPLACE), "WORKING"),
    (FRESH, CommandAnswered(), "NONE"),
    (WORKING, CommandAnswered(), "WORKING"),
    (CANCELED, CommandAnswered(), "CLOSED"),
    (FRESH, ReplaceAnswered(FRESH.terms), "NONE"),
    (WORKING, ReplaceAnswered(MORE), "WORKING"),
    (replace(WORKING, filled_quantity=Decimal(3)), ReplaceAnswered(some_terms(3)), "CLOSED"),
    (CANCELED, ReplaceAnswered(MORE), "CLOSED"),
    (FULL, ReplaceAnswered(MORE), "WORKING"),
    (FRESH, CancelTaken(), "NONE"),
    (WORKING, CancelTaken(), "WORKING"),
    (FRESH, OutcomeUnknown(), "NONE"),
    (WORKING, OutcomeUnknown(), "WORKING"),
    (FRESH, Closed(CloseReason.SKIPPED), "CLOSED"),
    (WORKING, Closed(CloseReason.RECONCILED_OUT), "CLOSED"),
]
STANDING = {Standing.NONE: FRESH, Standing.WORKING: WORKING, Standing.CLOSED: CANCELED}
ONE_OF_EACH = {type(event): event for _, event, _ in EDGES}


def test_the_table_has_every_event_of_an_order() -> None:
    assert set(STEPS) == set(get_args(OrderEvent)) == set(ONE_OF_EACH)


@pytest.mark.parametrize(("order", "event", "after"), EDGES)
def test_each_edge_of_the_table_is_taken(order: Order, event: OrderEvent, after: str) -> None:
    assert advance(order, event).standing == after


def test_no_edge_of_the_table_is_without_an_example() -> None:
    table = {(event, before, after) for event, row in STEPS.items() for before in row for after in row[before]}
    assert {(type(event), order.standing, Standing(after)) for order, event, after in EDGES} == table


@pytest.mark.parametrize(("event", "standing"), list(product(STEPS, Standing)))
def test_an_event_that_the_table_has_not_is_refused_loudly(event: type[OrderEvent], standing: Standing) -> None:
    order = STANDING[standing]
    if standing in STEPS[event]:
        assert advance(order, ONE_OF_EACH[event]).standing in STEPS[event][standing]
    else:
        with pytest.raises(IllegalTransition, match=f"{standing}.*{event.__name__}"):
            advance(order, ONE_OF_EACH[event])


@pytest.mark.parametrize("event", [CommandAnswered(), CancelTaken(), ReplaceAnswered(FRESH.terms)])
def test_an_answer_to_a_later_command_does_not_end_the_doubt_about_the_order_itself(event: OrderEvent) -> None:
    doubtful = advance(FRESH, OutcomeUnknown())
    after = advance(doubtful, event)
    assert (after.pending, after.certainty, status(after)) == (Pending.NEW, Certainty.UNKNOWN, "UNKNOWN")


OUTCOMES: tuple[Outcome, ...] = (Accepted("b1"), Refused("E1", "no"), NotSent("no connection"), Unknown("no answer"))
REPLACING = replace(WORKING, pending=Pending.REPLACE)
# By whom the other edges of the actions' table are taken: door, skips, and operators are commits of their own; no
# broker yet takes a command first and answers it later.
TAKEN_ELSEWHERE = {
    ("QUEUED", "DISPATCHING"),
    ("QUEUED", "SKIPPED"),
    ("UNKNOWN", "ABANDONED"),
    ("DISPATCHING", "SENT"),
}


def test_every_other_edge_of_the_table_of_actions_is_taken_by_an_answer_a_report_or_a_look_up() -> None:
    taken: set[tuple[ActionState, ActionState | None]] = set()
    for state, outcome in product(ActionState, OUTCOMES):
        # What was taken is not unsent.
        if state not in {ActionState.QUEUED, ActionState.SKIPPED} and (state, outcome) != (
            ActionState.SENT,
            OUTCOMES[2],
        ):
            settled = after_outcome(ActionType.CREATE, state, FRESH, outcome)
            taken |= {
                (state, settled.state),
                (state, after_outcome(ActionType.REPLACE, state, REPLACING, outcome, MORE).state),
            }
    for state, told in product(ActionState, ReportStatus):
        if report := after_report(ActionType.CREATE, state, WORKING, a_report(told)):
            taken.add((state, report.state))
    taken.add((ActionState.UNKNOWN, after_absence(advance(FRESH, OutcomeUnknown())).state))
    look = after_look(REPLACING, a_report(ReportStatus.WORKING, terms=MORE), MORE, missed_before=False)
    taken.add((ActionState.UNKNOWN, look.state))
    edges = {(before.value, after.value) for before, after in action_lifecycle.STEPS}
    assert {(before.value, after.value) for before, after in taken if after} == edges - TAKEN_ELSEWHERE

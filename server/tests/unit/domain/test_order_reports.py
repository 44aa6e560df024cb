"""What reports make of an order and its actions, whatever crosses them, and what they say is worth a look."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import permutations

import pytest

from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.action_outcomes import after_outcome, past_door
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    BrokerExecution,
    ExecutionChange,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Closed, CloseReason, Order, Pending, Standing, advance, status
from openbell_server.domain.orders.order_reports import NOTICES
from openbell_server.domain.orders.order_terms import Terms
from support.brokers.order_model import Asked, Intent
from support.builders.tenant import a_report, an_execution, some_terms

TEN, TWELVE = some_terms(10, "1.50"), some_terms(12, "1.75")
FIVE_A, FIVE_B, FIVE_C = (an_execution(number, 5, number) for number in (1, 2, 3))


def told(
    word: ReportStatus,
    filled: int = 0,
    fills: Sequence[BrokerExecution] = (),
    changes: Sequence[ExecutionChange] = (),
    terms: Terms | None = None,
    version: int | None = None,
) -> OrderReport:
    """A report by the broker's count, with what it tells of executions."""
    return replace(
        a_report(word, told=fills, terms=terms),
        filled_quantity=Decimal(filled),
        changes=tuple(changes),
        terms_version=version,
    )


def changed(fill: BrokerExecution, quantity: int, revision: int = 1, price: int = 1) -> ExecutionChange:
    return ExecutionChange(
        execution_id=fill.execution_id, revision=revision, quantity=Decimal(quantity), price=Decimal(price)
    )


def an_intent(*reports: OrderReport) -> Intent:
    intent = Intent(Order(terms=TEN), [Asked(ActionType.CREATE)])
    for report in reports:
        intent.report(report)
    return intent


def replacing(terms: Terms = TWELVE) -> Intent:
    """A working order with a replace in flight."""
    intent = an_intent(told(ReportStatus.WORKING))
    intent.order = past_door(ActionType.REPLACE, intent.order)
    intent.actions.append(Asked(ActionType.REPLACE, terms))
    return intent


def answer(intent: Intent, outcome: Outcome) -> None:
    action = intent.actions[-1]
    settlement = after_outcome(action.action_type, action.state, intent.order, outcome, action.replacement)
    intent.settle(action, settlement)


WORKS, CANCELS, FILLS = ReportStatus.WORKING, ReportStatus.CANCELED, ReportStatus.FILLED


def test_a_fill_after_a_cancel_counts_and_says_so() -> None:
    intent = an_intent(told(CANCELS), told(CANCELS, 5, [FIVE_A]))
    assert (intent.order.close_reason, int(intent.order.filled_quantity)) == (CloseReason.CANCELED, 5)
    assert intent.said == ["LATE_FILL"]


def test_an_end_that_counts_unseen_fills_waits_for_each_of_them_and_then_closes() -> None:
    intent = an_intent(told(CANCELS, 8))
    assert (intent.order.standing, int(intent.order.leaves_quantity)) == (Standing.WORKING, 10)
    intent.report(told(WORKS, 5, [FIVE_A]))
    assert intent.order.standing is Standing.WORKING
    intent.report(told(WORKS, 8, [an_execution(2, 3)]))
    assert (intent.order.close_reason, int(intent.order.leaves_quantity), intent.said) == (CloseReason.CANCELED, 0, [])


def test_what_was_taken_back_does_not_stand_for_a_fill_that_an_end_counts_and_nobody_saw() -> None:
    bust = changed(FIVE_A, 0)
    intent = an_intent(told(WORKS, 5, [FIVE_A]), told(CANCELS, 5, [], [bust]))
    assert intent.order.standing is Standing.WORKING
    intent.report(told(WORKS, 10, [FIVE_B]))
    assert (intent.order.close_reason, int(intent.order.filled_quantity)) == (CloseReason.CANCELED, 5)


BUST_STORY = (told(WORKS, 5, [FIVE_A]), told(WORKS, 0, [], [changed(FIVE_A, 0)]), told(CANCELS, 5, [FIVE_B]))


@pytest.mark.parametrize("reports", list(permutations(BUST_STORY)))
def test_a_bust_before_or_after_its_fill_and_an_end_give_the_same_order(reports: tuple[OrderReport, ...]) -> None:
    intent = an_intent(*reports)
    assert intent.order == an_intent(*BUST_STORY).order
    assert (int(intent.order.filled_quantity), intent.order.close_reason) == (5, CloseReason.CANCELED)
    assert "EXECUTION_BUSTED" in intent.said


@pytest.mark.parametrize(
    "changes", list(permutations([changed(FIVE_A, 7, 1, 2), changed(FIVE_A, 4, 2, 3), changed(FIVE_A, 6, 3, 4)]))
)
def test_of_corrections_in_any_order_the_last_revision_counts(changes: tuple[ExecutionChange, ...]) -> None:
    for at in range(4):
        reports = [told(WORKS, 0, [], [change]) for change in changes]
        reports.insert(at, told(WORKS, 5, [FIVE_A]))
        order = an_intent(*reports).order
        assert (int(order.filled_quantity), int(order.filled_value)) == (6, 24)


def test_what_is_taken_back_stays_so_whatever_revision_a_correction_has() -> None:
    intent = an_intent(told(WORKS, 5, [FIVE_A], [changed(FIVE_A, 0, 1), changed(FIVE_A, 3, 2)]))
    assert int(intent.order.filled_quantity) == 0
    assert intent.said == ["EXECUTION_BUSTED", "EXECUTION_CORRECTED"]


def test_a_bust_reopens_a_full_order_and_an_old_report_of_its_end_does_not_close_it() -> None:
    filled = told(FILLS, 10, [FIVE_A, FIVE_B])
    intent = an_intent(filled)
    assert intent.order.close_reason is CloseReason.FILLED
    intent.report(told(WORKS, 5, [], [changed(FIVE_B, 0)]))
    intent.report(filled)
    assert (intent.order.standing, int(intent.order.leaves_quantity), intent.said) == (
        Standing.WORKING,
        5,
        ["EXECUTION_BUSTED"],
    )
    intent.report(told(FILLS, 10, [FIVE_C]))
    assert (intent.order.close_reason, int(intent.order.filled_value)) == (CloseReason.FILLED, 20)


def test_a_change_is_told_once_however_often_look_ups_repeat_it() -> None:
    bust = changed(FIVE_A, 0)
    intent = an_intent(told(WORKS, 0, [FIVE_A], [bust]), told(WORKS, 5, [FIVE_A, FIVE_B], [bust]))
    assert (int(intent.order.filled_quantity), intent.said) == (5, ["EXECUTION_BUSTED"])


def test_an_order_that_the_broker_calls_full_below_our_total_is_not_reopened_by_old_reports() -> None:
    filled = told(FILLS, 5, [FIVE_A])
    intent = an_intent(filled, filled, told(WORKS, 5, [FIVE_A]))
    assert (intent.order.close_reason, int(intent.order.quantity)) == (CloseReason.FILLED, 10)


def test_the_latest_terms_of_the_broker_count_in_whatever_order_they_are_told() -> None:
    versions = [told(WORKS, terms=some_terms(10 + version), version=version) for version in (2, 3, 4)]
    for reports in permutations(versions):
        order = an_intent(*reports).order
        assert (int(order.quantity), order.terms_version) == (14, 4)
    assert an_intent(*versions).said == ["RESTATED"] * 3
    assert an_intent(*versions[::-1]).said == ["RESTATED"]


def test_full_by_earlier_terms_is_not_full() -> None:
    filled = told(FILLS, 5, [FIVE_A], terms=some_terms(5), version=2)
    raised = told(WORKS, 5, terms=some_terms(8), version=3)
    for reports in permutations([filled, raised]):
        order = an_intent(*reports).order
        assert (order.standing, int(order.leaves_quantity)) == (Standing.WORKING, 3)


def test_more_than_was_ever_asked_for_is_an_alarm_and_less_is_none() -> None:
    assert an_intent(told(FILLS, 12, [an_execution(1, 12)])).said == ["OVERFILL"]
    lowered = an_intent(told(WORKS, terms=some_terms(3), version=2), told(FILLS, 5, [FIVE_A]))
    assert lowered.said == ["RESTATED"]


def test_fills_of_a_replace_in_flight_are_no_alarm_until_it_is_refused() -> None:
    for outcome, said in ((Accepted("b1"), []), (Refused("E1", "no"), ["OVERFILL"])):
        intent = replacing()
        intent.report(told(WORKS, 11, [an_execution(1, 11)]))
        assert (intent.said, status(intent.order)) == ([], "PENDING_REPLACE")
        answer(intent, outcome)
        assert intent.said == said


def test_an_end_that_shows_the_old_terms_makes_an_alarm_of_fills_beyond_them() -> None:
    intent = replacing()
    intent.actions[-1].state = ActionState.UNKNOWN
    intent.report(told(WORKS, 11, [an_execution(1, 11)]))
    intent.report(told(FILLS, 11, terms=TEN))
    assert (intent.actions[-1].state, intent.said) == (ActionState.REFUSED, ["OVERFILL"])


UNSIGHTED = {
    ActionState.FAILED: CloseReason.FAILED,
    ActionState.REFUSED: CloseReason.REJECTED,
    ActionState.ABANDONED: CloseReason.RECONCILED_OUT,
    ActionState.SKIPPED: CloseReason.SKIPPED,
}


@pytest.mark.parametrize("state", list(UNSIGHTED))
def test_an_order_that_the_broker_shows_after_all_works_and_says_so(state: ActionState) -> None:
    intent = an_intent()
    intent.actions[0].state = state
    intent.order = advance(intent.order, Closed(UNSIGHTED[state]))
    intent.report(told(WORKS, 5, [FIVE_A]))
    assert (intent.order.standing, int(intent.order.filled_quantity)) == (Standing.WORKING, 5)
    assert intent.said == ["SIGHTED_LATE", "LATE_FILL"]
    # What was never sent by our record is not called sent afterwards.
    assert intent.actions[0].state is (state if state is ActionState.SKIPPED else ActionState.ACKED)


def test_a_refusal_that_is_told_by_answer_and_by_report_is_no_surprise() -> None:
    intent = an_intent()
    answer(intent, Refused("E1", "no money"))
    intent.report(told(ReportStatus.REJECTED))
    assert (intent.order.close_reason, intent.said) == (CloseReason.REJECTED, [])
    assert intent.actions[0].state is ActionState.REFUSED


def test_an_order_that_is_done_for_the_day_has_not_ended() -> None:
    intent = an_intent(told(ReportStatus.DONE_FOR_DAY, 5, [FIVE_A]))
    assert (intent.order.standing, status(intent.order)) == (Standing.WORKING, "PARTIALLY_FILLED")


@pytest.mark.parametrize("reports", list(permutations([told(WORKS), told(ReportStatus.REJECTED)])))
def test_a_rejection_may_follow_an_acknowledgement(reports: tuple[OrderReport, ...]) -> None:
    intent = an_intent(*reports)
    assert (intent.order.close_reason, intent.actions[0].state) == (CloseReason.REJECTED, ActionState.ACKED)


@pytest.mark.parametrize("report_first", [False, True])
def test_a_replace_is_taken_once_whether_its_report_or_its_answer_is_first(*, report_first: bool) -> None:
    intent = replacing()
    report = told(WORKS, terms=TWELVE, version=2)
    if report_first:
        intent.report(report)
    answer(intent, Accepted("b1", 2))
    if not report_first:
        intent.report(report)
    assert (intent.order.terms, intent.order.terms_version, intent.order.pending) == (TWELVE, 2, Pending.NONE)
    assert (intent.actions[-1].state, intent.said) == (ActionState.ACKED, [])


def test_an_answer_to_a_replace_does_not_undo_what_the_broker_changed_after_it() -> None:
    intent = replacing()
    intent.report(told(WORKS, terms=some_terms(20), version=3))
    answer(intent, Accepted("b1", 2))
    assert (int(intent.order.quantity), intent.order.terms_version, intent.order.pending) == (20, 3, Pending.NONE)
    assert intent.actions[-1].state is ActionState.ACKED


def test_a_restatement_while_a_replace_is_in_flight_leaves_it_pending() -> None:
    intent = replacing()
    intent.report(told(WORKS, 10, [FIVE_A, FIVE_B], terms=some_terms(10, "9"), version=2))
    assert (status(intent.order), intent.said) == ("PENDING_REPLACE", ["RESTATED"])
    answer(intent, Refused("E1", "no"))
    assert intent.order.close_reason is CloseReason.FILLED


def test_a_full_order_is_not_reopened_by_a_replace_that_is_in_doubt() -> None:
    intent = replacing()
    intent.report(told(FILLS, 10, [FIVE_A, FIVE_B]))
    answer(intent, Unknown("no answer"))
    intent.report(told(WORKS, 5, [FIVE_A]))
    assert intent.order.close_reason is CloseReason.FILLED


def test_several_notices_of_one_report_are_all_told() -> None:
    intent = an_intent(told(CANCELS))
    intent.report(
        told(CANCELS, 11, [an_execution(1, 11), FIVE_B], [changed(FIVE_B, 0)], terms=some_terms(9), version=2)
    )
    assert intent.said == ["LATE_FILL", "OVERFILL", "EXECUTION_BUSTED", "RESTATED"]
    assert set(intent.said) < set(NOTICES)

"""Every answer of a broker to every command in every state, against a table written by hand."""

from dataclasses import replace
from decimal import Decimal
from itertools import product

import pytest

from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, SETTLED, ActionState, Reason, may_become
from openbell_server.domain.orders.action_outcomes import (
    Settlement,
    after_absence,
    after_look,
    after_outcome,
    after_report,
    is_found,
    past_door,
)
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import (
    Closed,
    CloseReason,
    Order,
    OutcomeUnknown,
    Pending,
    Standing,
    advance,
)
from openbell_server.domain.orders.order_reports import CLOSES
from support.builders.tenant import a_report, some_terms

FRESH = Order(terms=some_terms(Decimal(5)))
WORKING = Order(
    terms=some_terms(Decimal(5)), standing=Standing.WORKING, pending=Pending.CANCEL, broker_order_ids=("b1",)
)
ASKED = some_terms(8, "1.75")
REPLACING = replace(WORKING, pending=Pending.REPLACE)
COMMANDS = {"CREATE": FRESH, "REPLACE": REPLACING, "CANCEL": WORKING}
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
    ("REPLACE", "Accepted"): ("ACKED", None, "WORKING", None, "NONE", "CONFIRMED"),
    ("REPLACE", "Refused"): ("REFUSED", "BROKER_REFUSED", "WORKING", None, "NONE", "CONFIRMED"),
    ("REPLACE", "NotSent"): ("FAILED", "NOT_SENT", "WORKING", None, "NONE", "CONFIRMED"),
    ("REPLACE", "Unknown"): ("UNKNOWN", "NO_ANSWER", "WORKING", None, "REPLACE", "UNKNOWN"),
    ("CANCEL", "Accepted"): ("ACKED", None, "WORKING", None, "CANCEL", "CONFIRMED"),
    ("CANCEL", "Refused"): ("REFUSED", "BROKER_REFUSED", "WORKING", None, "NONE", "CONFIRMED"),
    ("CANCEL", "NotSent"): ("FAILED", "NOT_SENT", "WORKING", None, "NONE", "CONFIRMED"),
    ("CANCEL", "Unknown"): ("UNKNOWN", "NO_ANSWER", "WORKING", None, "CANCEL", "UNKNOWN"),
}


def order_for(command: str, state: ActionState) -> Order:
    order = COMMANDS[command]
    return advance(order, OutcomeUnknown()) if state is ActionState.UNKNOWN else order


def answered(command: str, state: ActionState, order: Order, outcome: str) -> Settlement:
    asked = ASKED if command == "REPLACE" else None
    return after_outcome(ActionType(command), state, order, OUTCOMES[outcome], asked)


@pytest.mark.parametrize(("state", "case"), list(product(PAST_THE_DOOR, TABLE)))
def test_an_answer_moves_action_and_order_as_the_table_says(state: ActionState, case: tuple[str, str]) -> None:
    command, outcome = case
    order = order_for(command, state)
    settlement = answered(command, state, order, outcome)
    if (state, outcome) == (ActionState.UNKNOWN, "Unknown"):
        assert (settlement.state, settlement.reason, settlement.order) == (None, None, order)
        return
    after, reason = settlement.order, settlement.reason
    assert settlement.state is not None
    assert may_become(state, settlement.state)
    assert after.terms == (ASKED if case == ("REPLACE", "Accepted") else order.terms)
    assert TABLE[case] == (
        settlement.state,
        reason and reason.code,
        after.standing,
        after.close_reason,
        after.pending,
        after.certainty,
    )


@pytest.mark.parametrize(("state", "command", "outcome"), list(product(sorted(SETTLED), COMMANDS, OUTCOMES)))
def test_an_answer_to_a_settled_action_changes_nothing(state: ActionState, command: str, outcome: str) -> None:
    order = order_for(command, state)
    settlement = answered(command, state, order, outcome)
    assert (settlement.state, settlement.reason, settlement.order) == (None, None, order)


@pytest.mark.parametrize(("ended", "outcome", "state"), list(product(CloseReason, OUTCOMES, PAST_THE_DOOR)))
def test_a_cancel_of_a_closed_order_is_settled_by_how_the_order_ended(
    ended: CloseReason, outcome: str, state: ActionState
) -> None:
    order = advance(WORKING, Closed(ended))
    settlement = after_outcome(ActionType.CANCEL, state, order, OUTCOMES[outcome])
    expected = ("ACKED", None) if ended is CloseReason.CANCELED else ("REFUSED", "ORDER_TERMINAL")
    assert (settlement.state, settlement.reason and settlement.reason.code) == expected
    assert settlement.order == order


def test_a_late_acceptance_ends_the_doubt_about_a_cancel() -> None:
    settlement = after_outcome(
        ActionType.CANCEL, ActionState.UNKNOWN, advance(WORKING, OutcomeUnknown()), Accepted("b1")
    )
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
    refused = status is ReportStatus.REJECTED
    if not may_become(state, ActionState.ACKED) or (refused and state in SETTLED):
        assert settled is None
        return
    assert settled is not None
    assert settled.state is not None
    assert settled.state == ("REFUSED" if refused else "ACKED")
    assert may_become(state, settled.state)
    # What was settled otherwise, wrongly, is worth a look.
    assert (settled.reason == Reason("SIGHTED_LATE")) == (state in SETTLED)


def test_a_rejection_after_fills_does_not_take_the_create_back() -> None:
    filled = replace(WORKING, filled_quantity=Decimal(1))
    settled = after_report(ActionType.CREATE, ActionState.DISPATCHING, filled, a_report(ReportStatus.REJECTED))
    assert settled == Settlement(ActionState.ACKED, None, filled)


@pytest.mark.parametrize(("state", "ended"), list(product(ActionState, [None, *CloseReason])))
def test_a_report_settles_a_cancel_only_when_the_order_ended(state: ActionState, ended: CloseReason | None) -> None:
    order = advance(WORKING, Closed(ended)) if ended else WORKING
    settled = after_report(ActionType.CANCEL, state, order, a_report(ReportStatus.WORKING))
    if ended is None or state in SETTLED or state is ActionState.QUEUED:
        assert settled is None
    else:
        assert settled is not None
        assert settled.state == ("ACKED" if ended is CloseReason.CANCELED else "REFUSED")


def test_a_create_that_never_arrived_is_failed_and_its_order_closed() -> None:
    settlement = after_absence(advance(FRESH, OutcomeUnknown()))
    assert settlement.reason is not None
    assert (settlement.state, settlement.reason.code) == (ActionState.FAILED, "NOT_AT_BROKER")
    assert (settlement.order.standing, settlement.order.close_reason) == (Standing.CLOSED, CloseReason.FAILED)


# What is pending before, by what passes the door, and after.
DOORS: dict[tuple[str, str], str] = {
    ("NONE", "CANCEL"): "CANCEL",
    ("NONE", "REPLACE"): "REPLACE",
    ("NEW", "CANCEL"): "NEW",
    ("NEW", "REPLACE"): "NEW",
    ("REPLACE", "CANCEL"): "CANCEL",
    ("REPLACE", "REPLACE"): "REPLACE",
    ("CANCEL", "CANCEL"): "CANCEL",
    ("CANCEL", "REPLACE"): "CANCEL",
    **{(pending, "CREATE"): pending for pending in Pending},
}


@pytest.mark.parametrize(("pending", "command"), list(DOORS))
def test_a_command_past_the_door_shows_on_an_order_that_waits_for_nothing_above_it(pending: str, command: str) -> None:
    order = replace(WORKING, pending=Pending(pending))
    assert past_door(ActionType(command), order).pending == DOORS[pending, command]


NOT_FULL = [reason for reason in CloseReason if reason is not CloseReason.FILLED]
# What is known of an order that ended while its replace was in flight, by the answer that comes after.
OF_ENDED = {
    "Accepted": ("ACKED", ASKED),
    "Refused": ("REFUSED", WORKING.terms),
    "NotSent": ("FAILED", WORKING.terms),
    "Unknown": ("UNKNOWN", WORKING.terms),
}


@pytest.mark.parametrize(("ended", "outcome"), list(product(NOT_FULL, OF_ENDED)))
def test_an_answer_to_a_replace_of_an_order_that_ended_reopens_nothing(ended: CloseReason, outcome: str) -> None:
    order = advance(REPLACING, Closed(ended))
    settlement = answered("REPLACE", ActionState.DISPATCHING, order, outcome)
    state, terms = OF_ENDED[outcome]
    assert (settlement.state, settlement.order) == (
        state,
        replace(order, terms=terms, terms_version=1 if terms == order.terms else 2),
    )


# An order of 5 that was full when the broker answered its replace, by what was asked for: whether it works on.
OF_FULL = {
    ("Accepted", 8): ("ACKED", "WORKING", 8),
    ("Accepted", 5): ("ACKED", "CLOSED", 5),
    ("Accepted", 4): ("ACKED", "CLOSED", 4),
    ("Refused", 8): ("REFUSED", "CLOSED", 5),
    ("NotSent", 8): ("FAILED", "CLOSED", 5),
    ("Unknown", 8): ("UNKNOWN", "CLOSED", 5),
}


@pytest.mark.parametrize(("outcome", "asked"), list(OF_FULL))
def test_a_full_order_works_on_only_if_the_broker_took_a_replace_by_more(outcome: str, asked: int) -> None:
    full = advance(replace(REPLACING, filled_quantity=Decimal(5)), Closed(CloseReason.FILLED))
    settlement = after_outcome(
        ActionType.REPLACE, ActionState.DISPATCHING, full, OUTCOMES[outcome], replace(ASKED, quantity=Decimal(asked))
    )
    after = settlement.order
    assert (settlement.state, after.standing, int(after.quantity)) == OF_FULL[outcome, asked]
    assert after.leaves_quantity == (3 if after.standing is Standing.WORKING else 0)
    assert after.pending is Pending.NONE


def test_a_replace_below_what_filled_meanwhile_ends_the_order_as_filled() -> None:
    filled = replace(REPLACING, terms=some_terms(10), filled_quantity=Decimal(8))
    settlement = answered("REPLACE", ActionState.DISPATCHING, filled, "Accepted")
    assert (settlement.order.close_reason, settlement.order.quantity) == (CloseReason.FILLED, Decimal(8))


def test_a_new_id_of_the_broker_for_a_replaced_order_is_added_to_the_others() -> None:
    settlement = after_outcome(ActionType.REPLACE, ActionState.DISPATCHING, REPLACING, Accepted("b2"), ASKED)
    assert settlement.order.broker_order_ids == ("b1", "b2")


@pytest.mark.parametrize(("state", "status"), list(product(ActionState, ReportStatus)))
def test_a_report_settles_a_replace_only_by_the_terms_of_an_order_that_ended(
    state: ActionState, status: ReportStatus
) -> None:
    ended = advance(REPLACING, Closed(CloseReason.CANCELED))
    settled = {
        name: after_report(ActionType.REPLACE, state, order, a_report(status, terms=terms), ASKED)
        for name, order, terms in (
            ("working", REPLACING, ASKED),
            ("silent", ended, None),
            ("replaced", ended, ASKED),
            ("as it was", ended, WORKING.terms),
        )
    }
    assert settled["working"] is settled["silent"] is None
    if state not in PAST_DOOR or status not in CLOSES:
        assert settled["replaced"] is settled["as it was"] is None
        return
    assert settled["replaced"] == Settlement(ActionState.ACKED, None, ended)
    refused = Settlement(ActionState.REFUSED, Reason("ORDER_TERMINAL"), ended)
    assert settled["as it was"] == (refused if state is ActionState.UNKNOWN else None)


# What a look-up shows and whether one before it missed, and what that makes of a replace in doubt.
LOOKS = {
    ("replaced", False): ("ACKED", ASKED),
    ("replaced", True): ("ACKED", ASKED),
    ("as it was", False): (None, WORKING.terms),
    ("as it was", True): ("FAILED", WORKING.terms),
    ("silent", True): (None, WORKING.terms),
    ("nothing", True): (None, WORKING.terms),
}


@pytest.mark.parametrize(("shows", "missed_before"), list(LOOKS))
def test_a_look_up_settles_a_replace_by_the_terms_that_the_order_shows(shows: str, *, missed_before: bool) -> None:
    terms = {"replaced": ASKED, "as it was": WORKING.terms}.get(shows)
    report = None if shows == "nothing" else a_report(ReportStatus.WORKING, terms=terms)
    settlement = after_look(advance(REPLACING, OutcomeUnknown()), report, ASKED, missed_before=missed_before)
    assert is_found(report, ASKED) == (shows == "replaced")
    assert (settlement.state, settlement.order.terms) == LOOKS[shows, missed_before]
    still = settlement.state is None
    assert settlement.order.certainty == ("UNKNOWN" if still else "CONFIRMED")
    assert settlement.order.pending == ("REPLACE" if still else "NONE")


@pytest.mark.parametrize("missed_before", [False, True])
def test_only_a_second_look_up_without_the_order_fails_a_create(*, missed_before: bool) -> None:
    missing = after_look(advance(FRESH, OutcomeUnknown()), None, None, missed_before=missed_before)
    assert missing.state == ("FAILED" if missed_before else None)
    found = a_report(ReportStatus.WORKING)
    assert is_found(found, None)
    assert after_look(advance(FRESH, OutcomeUnknown()), found, None, missed_before=missed_before).state is None

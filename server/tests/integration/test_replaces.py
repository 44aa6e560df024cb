"""Replaces with a scripted broker: written once, in turn, and settled by an answer or by the terms an order shows."""

import asyncio
import json
import time
from decimal import Decimal

import pytest

from openbell_server.application.execution.execute_action import DOOR_SECONDS
from openbell_server.domain.identifiers import IntentId, client_order_id
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    NotSent,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.order_terms import Terms, TimeInForce
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_replace, a_report, an_execution, some_terms

SETTLE_SECONDS = 0.05
OLD = some_terms(10, "1.50", TimeInForce.GOOD_TILL_CANCEL)
NEW = some_terms(12, "1.75", TimeInForce.GOOD_TILL_CANCEL)


async def replacing(harness: Harness, answer: Outcome | Exception | None = None) -> tuple[IntentId, str]:
    """An order whose replace was answered with this, or waits."""
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent))
    if answer is not None:
        harness.broker.script.append(answer)
        await harness.work()
    return intent, order_id


async def terms_of(harness: Harness, intent: IntentId) -> Terms:
    row = await harness.order(intent)
    return some_terms(row["quantity"], row["limit_price"], TimeInForce(row["time_in_force"]))


async def stands(harness: Harness, intent: IntentId) -> tuple[str, str | None, str, str]:
    row = await harness.order(intent)
    return row["standing"], row["close_reason"], row["pending"], row["certainty"]


def shown(order_id: str, terms: Terms | None, status: ReportStatus = ReportStatus.WORKING) -> OrderReport:
    return a_report(status, client_order_id=order_id, terms=terms)


def commands(harness: Harness) -> list[str]:
    return [write.command for write in harness.broker.writes]


OUTCOMES = [
    (Accepted("b1"), "ACKED", None, NEW, "NONE", "CONFIRMED"),
    (Refused("E1", "too late"), "REFUSED", "BROKER_REFUSED", OLD, "NONE", "CONFIRMED"),
    (Unknown("no answer"), "UNKNOWN", "NO_ANSWER", OLD, "REPLACE", "UNKNOWN"),
    (TimeoutError(), "UNKNOWN", "NO_ANSWER", OLD, "REPLACE", "UNKNOWN"),
    (ConnectionResetError("reset"), "UNKNOWN", "NO_ANSWER", OLD, "REPLACE", "UNKNOWN"),
]


@pytest.mark.parametrize(("answer", "state", "reason", "terms", "pending", "certainty"), OUTCOMES)
async def test_a_replace_is_written_once_whatever_the_answer_and_changes_the_order_only_if_taken(
    harness: Harness,
    answer: Outcome | Exception,
    state: str,
    reason: str | None,
    terms: Terms,
    pending: str,
    certainty: str,
) -> None:
    intent, _ = await replacing(harness, answer)
    assert (await harness.states())[1] == ("REPLACE", state, reason)
    assert await terms_of(harness, intent) == terms
    assert await stands(harness, intent) == ("WORKING", None, pending, certainty)
    for _ in range(3):
        assert await harness.work() == []
    assert commands(harness) == ["submit", "replace"]


async def test_a_taken_replace_is_told_with_the_new_terms(harness: Harness) -> None:
    await replacing(harness, Accepted("b1"))
    body = json.loads(
        await harness.pool.fetchval("select body from account_events where kind = 2 order by event_no desc limit 1")
    )
    assert (body["quantity"], body["limit_price"], body["status"], body["leaves_quantity"]) == (
        "12",
        "1.75",
        "NEW",
        "12",
    )
    assert body["time_in_force"] == "GOOD_TILL_CANCEL"


async def test_the_broker_is_told_the_order_s_id_the_replace_s_own_and_the_total(harness: Harness) -> None:
    intent, order_id = await harness.working()
    fill = an_execution(1, 4)
    await harness.report(a_report(ReportStatus.WORKING, [fill], client_order_id=order_id))
    await harness.accept(a_replace(intent, quantity="12"))
    (door,) = await harness.work()
    replacement = harness.broker.writes[-1].replacement
    assert replacement is not None
    assert (replacement.order.client_order_id, replacement.client_order_id) == (
        order_id,
        client_order_id(door.action.action_id),
    )
    assert (replacement.terms, replacement.filled_quantity) == (NEW, Decimal(4))
    assert abs((replacement.valid_until - door.opened_at).total_seconds() - DOOR_SECONDS) < 0.5
    assert replacement.account_id == harness.tenant.account.id


async def test_what_was_not_sent_before_its_door_closed_leaves_the_order_as_it_was(harness: Harness) -> None:
    async def late(_: str) -> Outcome:
        harness.clock.seconds += DOOR_SECONDS
        return NotSent("no connection")

    intent, _ = await harness.working()
    await harness.accept(a_replace(intent))
    harness.broker.script.append(late)
    await harness.work()
    assert (await harness.states())[1] == ("REPLACE", "FAILED", "NOT_SENT")
    assert (await terms_of(harness, intent), await stands(harness, intent)) == (
        OLD,
        ("WORKING", None, "NONE", "CONFIRMED"),
    )


async def test_a_total_that_has_filled_meanwhile_is_never_sent(harness: Harness) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent, quantity="4"))
    await harness.report(a_report(ReportStatus.WORKING, [an_execution(1, 4)], client_order_id=order_id))
    assert await harness.work() == []
    assert (await harness.states())[1] == ("REPLACE", "SKIPPED", "QUANTITY_NOT_ABOVE_FILLED")
    assert (await terms_of(harness, intent), await stands(harness, intent)) == (
        OLD,
        ("WORKING", None, "NONE", "CONFIRMED"),
    )
    assert commands(harness) == ["submit"]
    assert harness.hints.accounts


async def test_a_replace_of_an_order_that_closed_meanwhile_is_never_sent(harness: Harness) -> None:
    _, order_id = await replacing(harness)
    await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert await harness.work() == []
    assert (await harness.states())[1] == ("REPLACE", "SKIPPED", "ORDER_TERMINAL")
    assert commands(harness) == ["submit"]


async def test_all_replaces_that_wait_for_an_order_that_ended_are_skipped_at_once(harness: Harness) -> None:
    intent, order_id = await replacing(harness)
    for quantity in ("13", "14"):
        await harness.accept(a_replace(intent, quantity=quantity))
    await harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    assert await harness.work() == []
    assert (await harness.states())[1:] == [("REPLACE", "SKIPPED", "ORDER_TERMINAL")] * 3


async def filling(harness: Harness, answer: Outcome, filled: int, status: ReportStatus) -> IntentId:
    """An order of 10 that fills so far while its replace by 12 is in flight."""
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent))
    (door,) = await harness.open_doors()
    await harness.report(a_report(status, [an_execution(1, filled)], client_order_id=order_id))
    harness.broker.script.append(answer)
    await harness.execute.dispatch(harness.broker, door)
    return intent


async def test_an_order_full_by_its_old_total_works_on_once_its_replace_is_taken(harness: Harness) -> None:
    intent = await filling(harness, Accepted("b1"), 10, ReportStatus.WORKING)
    order = await harness.order(intent)
    assert (order["filled_quantity"], order["quantity"]) == (10, 12)
    assert await stands(harness, intent) == ("WORKING", None, "NONE", "CONFIRMED")


async def test_an_order_full_by_its_old_total_has_ended_once_its_replace_is_refused(harness: Harness) -> None:
    intent = await filling(harness, Refused("E1", "filled"), 10, ReportStatus.WORKING)
    assert await stands(harness, intent) == ("CLOSED", "FILLED", "NONE", "CONFIRMED")
    assert await terms_of(harness, intent) == OLD


@pytest.mark.parametrize(
    ("answer", "state", "terms"),
    [(Accepted("b1"), "ACKED", NEW), (Refused("E", ""), "REFUSED", OLD), (Unknown("no answer"), "UNKNOWN", OLD)],
)
async def test_the_end_of_an_order_told_before_the_answer_to_its_replace_stands(
    harness: Harness, answer: Outcome, state: str, terms: Terms
) -> None:
    intent = await filling(harness, answer, 12, ReportStatus.FILLED)
    assert (await harness.states())[1][1] == state
    assert await stands(harness, intent) == ("CLOSED", "FILLED", "NONE", "CONFIRMED")
    assert await terms_of(harness, intent) == terms


async def test_a_replace_by_less_than_filled_meanwhile_ends_the_order_as_filled(harness: Harness) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent, quantity="6"))
    (door,) = await harness.open_doors()
    await harness.report(a_report(ReportStatus.WORKING, [an_execution(1, 7)], client_order_id=order_id))
    await harness.execute.dispatch(harness.broker, door)
    assert await stands(harness, intent) == ("CLOSED", "FILLED", "NONE", "CONFIRMED")
    order = await harness.order(intent)
    assert (order["quantity"], order["filled_quantity"]) == (6, 7)


async def test_fills_after_a_replace_end_the_order_at_its_new_total(harness: Harness) -> None:
    intent, order_id = await replacing(harness, Accepted("b1"))
    await harness.report(a_report(ReportStatus.WORKING, [an_execution(1, 10)], client_order_id=order_id))
    assert (await harness.order(intent))["standing"] == "WORKING"
    fills = [an_execution(1, 10), an_execution(2, 2)]
    await harness.report(a_report(ReportStatus.WORKING, fills, client_order_id=order_id))
    assert await stands(harness, intent) == ("CLOSED", "FILLED", "NONE", "CONFIRMED")


async def test_a_report_from_before_a_replace_takes_nothing_back(harness: Harness) -> None:
    intent, order_id = await replacing(harness, Accepted("b1"))
    await harness.report(shown(order_id, OLD))
    assert await terms_of(harness, intent) == NEW


async def test_replaces_of_one_intent_go_one_after_the_other_and_the_last_stands(harness: Harness) -> None:
    intent = await harness.accept(a_limit_create())
    for quantity in ("11", "13", "12"):
        await harness.accept(a_replace(intent, quantity=quantity))
    written = []
    while doors := await harness.work():
        assert len(doors) == 1
        written.append(doors[0].action.seq)
    assert written == [1, 2, 3, 4]
    assert (await harness.order(intent))["quantity"] == 12
    assert {state for _, state, _ in await harness.states()} == {"ACKED"}


async def test_a_replace_waits_for_a_create_and_for_a_replace_in_doubt_and_other_intents_do_not(
    harness: Harness,
) -> None:
    intent = await harness.accept(a_limit_create())
    (create,) = await harness.open_doors()
    await harness.accept(a_replace(intent))
    assert await harness.open_doors() == []
    await harness.execute.dispatch(harness.broker, create)
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    await harness.accept(a_replace(intent, quantity="15"))
    other = await harness.accept(a_limit_create())
    assert [door.action.intent_id for door in await harness.work()] == [other]


async def test_a_cancel_supersedes_a_replace_that_was_not_sent(harness: Harness) -> None:
    intent, _ = await replacing(harness)
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert await harness.states() == [
        ("CREATE", "ACKED", None),
        ("REPLACE", "SKIPPED", "SUPERSEDED"),
        ("CANCEL", "ACKED", None),
    ]
    assert commands(harness) == ["submit", "cancel"]
    assert await stands(harness, intent) == ("WORKING", None, "CANCEL", "CONFIRMED")


async def test_a_cancel_of_an_unsent_order_skips_its_replaces_too(harness: Harness) -> None:
    intent = await harness.accept(a_limit_create())
    await harness.accept(a_replace(intent))
    await harness.accept(a_cancel(intent))
    await harness.accept(a_replace(intent, quantity="15"))
    assert await harness.work() == []
    assert harness.broker.calls == 0
    assert await harness.states() == [
        ("CREATE", "SKIPPED", "SUPERSEDED"),
        ("REPLACE", "SKIPPED", "SUPERSEDED"),
        ("CANCEL", "SKIPPED", "NOTHING_SENT"),
        ("REPLACE", "SKIPPED", "ORDER_TERMINAL"),
    ]
    assert await stands(harness, intent) == ("CLOSED", "SKIPPED", "NONE", "CONFIRMED")


async def test_a_cancel_waits_for_a_replace_in_flight_and_shows_meanwhile(harness: Harness) -> None:
    intent, _ = await replacing(harness)
    (door,) = await harness.open_doors()
    await harness.accept(a_cancel(intent))
    assert await harness.open_doors() == []
    await harness.execute.dispatch(harness.broker, door)
    assert await stands(harness, intent) == ("WORKING", None, "CANCEL", "CONFIRMED")
    await harness.work()
    assert commands(harness) == ["submit", "replace", "cancel"]


async def test_a_replace_behind_a_cancel_goes_only_if_the_cancel_was_refused(harness: Harness) -> None:
    intent, _ = await harness.working()
    await harness.accept(a_cancel(intent))
    await harness.accept(a_replace(intent))
    harness.broker.script.append(Refused("E1", "not now"))
    await harness.work()
    assert commands(harness) == ["submit", "cancel"]
    await harness.work()
    assert commands(harness) == ["submit", "cancel", "replace"]
    assert await terms_of(harness, intent) == NEW


async def settled(harness: Harness) -> tuple[str, str, str | None]:
    """Probe, ten times a second, until the replace is no longer in doubt."""
    async with asyncio.timeout(60):
        while (state := (await harness.states())[1])[1] == "UNKNOWN":
            await harness.settle(SETTLE_SECONDS)
            await asyncio.sleep(0.1)
    return state


async def test_a_replace_in_doubt_that_its_order_shows_is_acknowledged_and_never_sent_again(harness: Harness) -> None:
    intent, order_id = await replacing(harness, Unknown("no answer"))
    harness.broker.book[order_id] = shown(order_id, NEW)
    assert await settled(harness) == ("REPLACE", "ACKED", None)
    assert await terms_of(harness, intent) == NEW
    assert await stands(harness, intent) == ("WORKING", None, "NONE", "CONFIRMED")
    assert harness.broker.calls == 2


async def test_a_replace_in_doubt_that_its_order_does_not_show_twice_is_failed(harness: Harness) -> None:
    intent, order_id = await replacing(harness, Unknown("no answer"))
    harness.broker.book[order_id] = shown(order_id, OLD)
    begun = time.monotonic()
    assert await settled(harness) == ("REPLACE", "FAILED", "NOT_AT_BROKER")
    assert time.monotonic() - begun >= 1.0
    assert (await terms_of(harness, intent), await stands(harness, intent)) == (
        OLD,
        ("WORKING", None, "NONE", "CONFIRMED"),
    )
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert commands(harness) == ["submit", "replace", "cancel"]


@pytest.mark.parametrize("terms", [OLD, NEW], ids=["as it was", "replaced"])
async def test_what_an_order_shows_before_the_settle_time_proves_nothing(harness: Harness, terms: Terms) -> None:
    _, order_id = await replacing(harness, Unknown("no answer"))
    harness.broker.book[order_id] = shown(order_id, terms)
    for _ in range(3):
        await harness.settle(3600)
        assert (await harness.states())[1][1] == "UNKNOWN"


@pytest.mark.parametrize("report", ["nothing", "without terms"])
async def test_a_look_up_that_shows_no_terms_never_settles_a_replace(harness: Harness, report: str) -> None:
    _, order_id = await replacing(harness, Unknown("no answer"))
    if report == "without terms":
        harness.broker.book[order_id] = shown(order_id, None)
    begun = time.monotonic()
    while time.monotonic() - begun < 1.5:
        await harness.settle(0)
        assert (await harness.states())[1][1] == "UNKNOWN"
        await asyncio.sleep(0.1)
    harness.broker.book[order_id] = shown(order_id, NEW)
    await harness.settle(0)
    assert (await harness.states())[1][1] == "ACKED"


@pytest.mark.parametrize(
    ("terms", "state"),
    [(NEW, ("REPLACE", "ACKED", None)), (OLD, ("REPLACE", "REFUSED", "ORDER_TERMINAL"))],
    ids=["replaced", "as it was"],
)
@pytest.mark.parametrize("told_first", [False, True])
async def test_an_order_that_ended_shows_at_once_whether_its_replace_in_doubt_came_first(
    harness: Harness, terms: Terms, state: tuple[str, str, str | None], *, told_first: bool
) -> None:
    intent, order_id = await replacing(harness, Unknown("no answer"))
    if told_first:
        await harness.report(shown(order_id, None, ReportStatus.CANCELED))
        assert (await harness.states())[1][1] == "UNKNOWN"
    harness.broker.book[order_id] = shown(order_id, terms, ReportStatus.CANCELED)
    await harness.settle(3600)
    assert (await harness.states())[1] == state
    assert (await terms_of(harness, intent)).quantity == terms.quantity
    assert await stands(harness, intent) == ("CLOSED", "CANCELED", "NONE", "CONFIRMED")


async def test_a_replace_abandoned_past_its_door_is_probed_not_sent(harness: Harness) -> None:
    intent, order_id = await replacing(harness)
    await harness.open_doors()
    harness.broker.book[order_id] = shown(order_id, NEW)
    await harness.pool.execute(
        "update action_states set send_started_at = send_started_at - interval '10 seconds' where state = 'DISPATCHING'"
    )
    await harness.settle(SETTLE_SECONDS)
    assert (await harness.states())[1] == ("REPLACE", "ACKED", None)
    assert await terms_of(harness, intent) == NEW
    assert commands(harness) == ["submit"]

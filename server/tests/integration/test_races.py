"""Late, repeated and crossing messages on a real database: the domain's order is stored, and its notices logged."""

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    ExecutionChange,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_terms import TimeInForce
from support.brokers.order_model import Asked, Intent
from support.brokers.scripted_broker import Harness
from support.brokers.shuffled_reports import a_history, order_hash, shuffled
from support.builders.tenant import a_cancel, a_limit_create, a_replace, a_report, a_tenant, an_execution, some_terms

GTC = TimeInForce.GOOD_TILL_CANCEL
WORKS, CANCELS, FILLS = ReportStatus.WORKING, ReportStatus.CANCELED, ReportStatus.FILLED
FIVE_A, FIVE_B = an_execution(1, 5), an_execution(2, 5)
BUST = ExecutionChange(execution_id="e2", revision=1, quantity=Decimal(0), price=Decimal(1))


async def stored(harness: Harness, intent: IntentId) -> Order:
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as transaction:
        return (await transaction.of_intents([intent]))[0].order


async def order_events(harness: Harness) -> list[dict[str, Any]]:
    rows = await harness.pool.fetch("select body from account_events where kind = 2 order by event_no")
    return [json.loads(row["body"]) for row in rows]


async def settled(harness: Harness) -> None:
    """Look the actions in doubt up until none is."""
    async with asyncio.timeout(60):
        while any(state == "UNKNOWN" for _, state, _ in await harness.states()):
            await harness.settle(0)
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("number", [3, 8, 21, 37, 52, 79])
async def test_a_stored_order_is_the_one_of_the_domain_whatever_the_order_of_reports(pool: Pool, number: int) -> None:
    harness = Harness(pool, await a_tenant(pool))
    intent, order_id = await harness.working()
    begun = await stored(harness, intent)
    reports = shuffled([replace(each, client_order_id=order_id) for each in a_history(number).feed], Random(number))
    pure = Intent(begun, [Asked(ActionType.CREATE)])
    for report in reports:
        await harness.report(report)
        pure.report(report)
    assert order_hash(await stored(harness, intent)) == order_hash(pure.order)
    assert (await harness.pool.fetchval("select quantity from positions") or 0) == pure.order.filled_quantity
    said = [notice for event in await order_events(harness) for notice in event.get("notices", [])]
    assert said == pure.said


async def test_every_notice_of_a_report_is_in_the_log_and_the_first_is_the_reason(harness: Harness) -> None:
    _, order_id = await harness.working()
    await harness.report(a_report(CANCELS, client_order_id=order_id))
    assert "notices" not in (await order_events(harness))[-1]
    late = a_report(CANCELS, [an_execution(1, 12)], client_order_id=order_id)
    await harness.report(replace(late, terms=some_terms(9, "1.50", GTC), terms_version=2))
    told = (await order_events(harness))[-1]
    assert told["notices"] == ["LATE_FILL", "OVERFILL", "RESTATED"]
    assert told["reason"] == {"code": "LATE_FILL", "broker_code": None, "broker_text": None}


async def test_a_bust_reopens_a_full_order_takes_its_position_back_and_is_told_once(harness: Harness) -> None:
    intent, order_id = await harness.working()
    await harness.report(a_report(FILLS, [FIVE_A, FIVE_B], client_order_id=order_id))
    busted = replace(a_report(WORKS, [FIVE_A], [FIVE_A, FIVE_B], order_id), changes=(BUST,))
    for _ in range(3):
        await harness.report(busted)
    order = await stored(harness, intent)
    assert (order.standing, order.filled_quantity, order.leaves_quantity) == ("WORKING", Decimal(5), Decimal(5))
    assert await harness.pool.fetchval("select quantity from positions") == 5
    assert [event.get("notices") for event in await order_events(harness)][-2:] == [None, ["EXECUTION_BUSTED"]]
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert (await harness.states())[-1] == ("CANCEL", "ACKED", None)


async def test_an_end_that_waits_for_fills_is_remembered(harness: Harness) -> None:
    intent, order_id = await harness.working()
    ended = a_report(CANCELS, [FIVE_A], [], order_id)
    assert await harness.report(ended) == [ended]
    assert (await stored(harness, intent)).ended == "CANCELED"
    await harness.report(a_report(WORKS, [FIVE_A], client_order_id=order_id))
    assert (await stored(harness, intent)).close_reason == "CANCELED"


async def test_an_order_that_was_proved_absent_and_shows_up_works_again_and_says_so(harness: Harness) -> None:
    intent = await harness.accept(a_limit_create())
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    await settled(harness)
    assert await harness.states() == [("CREATE", "FAILED", "NOT_AT_BROKER")]
    order_id = door.action.order_name.client_order_id
    await harness.report(a_report(WORKS, [FIVE_A], client_order_id=order_id))
    assert await harness.states() == [("CREATE", "ACKED", "SIGHTED_LATE")]
    assert (await stored(harness, intent)).standing == "WORKING"
    assert (await order_events(harness))[-1]["notices"] == ["SIGHTED_LATE", "LATE_FILL"]
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert [write.command for write in harness.broker.writes] == ["submit", "cancel"]


@pytest.mark.parametrize("terms", ["replaced", "as it was"])
async def test_a_cancel_goes_out_while_a_replace_is_in_doubt_which_is_settled_all_the_same(
    harness: Harness, terms: str
) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent))
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert [write.command for write in harness.broker.writes] == ["submit", "replace", "cancel"]
    order = await stored(harness, intent)
    assert (order.pending, order.certainty) == ("CANCEL", "UNKNOWN")
    shown = some_terms(12, "1.75", GTC) if terms == "replaced" else some_terms(10, "1.50", GTC)
    harness.broker.book[order_id] = a_report(WORKS, client_order_id=order_id, terms=shown)
    await settled(harness)
    assert [state for _, state, _ in await harness.states()] == [
        "ACKED",
        "ACKED" if terms == "replaced" else "FAILED",
        "ACKED",
    ]
    assert (await stored(harness, intent)).terms == shown


FOUND: dict[str, tuple[OrderReport | None, list[str]]] = {
    "working": (a_report(WORKS), ["ACKED", "ACKED"]),
    "part filled": (a_report(WORKS, [FIVE_A]), ["ACKED", "ACKED"]),
    "filled": (a_report(FILLS, [FIVE_A, FIVE_B]), ["ACKED", "SKIPPED"]),
    "absent": (None, ["FAILED", "SKIPPED"]),
}


@pytest.mark.parametrize("found", list(FOUND))
async def test_a_cancel_waits_behind_a_create_in_doubt_and_goes_only_if_the_order_works(
    harness: Harness, found: str
) -> None:
    intent = await harness.accept(a_limit_create())
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    await harness.accept(a_cancel(intent))
    assert await harness.work() == []
    assert (await stored(harness, intent)).pending == "NEW"
    report, states = FOUND[found]
    order_id = door.action.order_name.client_order_id
    if report is not None:
        harness.broker.book[order_id] = replace(report, client_order_id=order_id)
    await settled(harness)
    await harness.work()
    assert [state for _, state, _ in await harness.states()] == states
    assert len(harness.broker.writes) == 1 + (states[1] == "ACKED")


async def test_late_fills_on_any_link_of_a_chain_of_replaces_count(harness: Harness) -> None:
    intent, _ = await harness.working()
    for number in range(2, 6):
        await harness.accept(a_replace(intent, quantity=str(10 + number)))
        harness.broker.script.append(Accepted(f"b{number}"))
        await harness.work()
    # A broker that knows no ids of its clients names the link.
    for number in (4, 1, 5, 2, 3):
        fill = an_execution(number, 3)
        await harness.report(replace(a_report(WORKS, [fill]), client_order_id=None, broker_order_id=f"b{number}"))
    order = await stored(harness, intent)
    assert (order.quantity, order.filled_quantity, order.close_reason) == (Decimal(15), Decimal(15), "FILLED")
    assert order.broker_order_ids == ("b1", "b2", "b3", "b4", "b5")


@pytest.mark.parametrize("quantity", ["3", "4"])
async def test_a_total_below_or_at_what_has_filled_is_skipped_and_a_cancel_of_the_rest_goes(
    harness: Harness, quantity: str
) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent, quantity=quantity))
    await harness.report(a_report(WORKS, [an_execution(1, 4)], client_order_id=order_id))
    assert await harness.work() == []
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert (await harness.states())[1:] == [
        ("REPLACE", "SKIPPED", "QUANTITY_NOT_ABOVE_FILLED"),
        ("CANCEL", "ACKED", None),
    ]


@pytest.mark.parametrize(
    ("outcome", "notices"), [(Accepted("b1"), None), (Refused("E1", "no"), ["OVERFILL"])], ids=["taken", "refused"]
)
async def test_fills_beyond_the_old_total_are_an_alarm_only_once_the_replace_is_refused(
    harness: Harness, outcome: Outcome, notices: list[str] | None
) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent))
    (door,) = await harness.open_doors()
    await harness.report(a_report(WORKS, [an_execution(1, 11)], client_order_id=order_id))
    assert "notices" not in (await order_events(harness))[-1]
    harness.broker.script.append(outcome)
    await harness.execute.dispatch(harness.broker, door)
    assert (await order_events(harness))[-1].get("notices") == notices

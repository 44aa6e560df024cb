"""Reports of a scripted broker: each fill counts once, positions are their sum, and the log has no gap."""

import asyncio
import json
import random
from dataclasses import replace
from decimal import Decimal

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_market_create, a_report, a_tenant, an_execution


async def test_a_report_may_come_before_the_answer_to_its_submit(harness: Harness) -> None:
    intent = await harness.accept()

    async def report_first(order_id: str) -> Outcome:
        await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
        return Accepted("b1")

    harness.broker.script.append(report_first)
    await harness.work()
    order = await harness.order(intent)
    assert await harness.states() == [("CREATE", "ACKED", None)]
    assert (order["standing"], order["filled_quantity"], order["broker_order_ids"]) == ("CLOSED", 10, ["b1"])


async def test_a_refusal_after_a_fill_does_not_take_the_fill_back(harness: Harness) -> None:
    intent = await harness.accept()

    async def fill_first(order_id: str) -> Outcome:
        await harness.report(a_report(ReportStatus.WORKING, [an_execution(1, 4)], client_order_id=order_id))
        return Refused("E1", "duplicate id")

    harness.broker.script.append(fill_first)
    await harness.work()
    order = await harness.order(intent)
    assert (await harness.states(), order["standing"], order["filled_quantity"]) == (
        [("CREATE", "ACKED", None)],
        "WORKING",
        4,
    )


async def test_reports_twice_and_out_of_order_count_each_fill_once(harness: Harness) -> None:
    intent, order_id = await harness.working()
    fills = [an_execution(number, Decimal("2.5"), number) for number in range(1, 5)]
    reports = [a_report(ReportStatus.WORKING, fills[:n], fills[n - 1 : n], order_id) for n in range(1, 4)]
    reports += [a_report(ReportStatus.FILLED, fills, client_order_id=order_id)] * 2 + reports
    random.Random(5).shuffle(reports)
    for report in reports:
        await harness.report(report)
    await harness.report(*reports)
    order = await harness.order(intent)
    assert (order["filled_quantity"], order["filled_value"], order["close_reason"]) == (10, 25, "FILLED")
    assert await harness.pool.fetchval("select count(*) from executions") == 4
    assert await harness.pool.fetchval("select quantity from positions") == 10


async def test_one_execution_twice_in_one_report_is_counted_once(harness: Harness) -> None:
    intent, order_id = await harness.working()
    fill = an_execution(1, 2)
    await harness.report(a_report(ReportStatus.WORKING, [fill], [fill, fill], order_id))
    assert (await harness.order(intent))["filled_quantity"] == 2
    assert await harness.pool.fetchval("select quantity from positions") == 2


async def test_a_report_that_counts_more_than_it_tells_is_asked_about(harness: Harness) -> None:
    intent, order_id = await harness.working()
    fills = [an_execution(1, 4)]
    short = a_report(ReportStatus.CANCELED, fills, (), order_id)
    assert await harness.report(short) == [short]
    assert (await harness.order(intent))["standing"] == "WORKING"
    assert await harness.report(a_report(ReportStatus.CANCELED, fills, client_order_id=order_id)) == []
    assert (await harness.order(intent))["close_reason"] == "CANCELED"


async def test_reports_about_orders_that_are_not_ours_change_nothing(harness: Harness, pool: Pool) -> None:
    other_organization = Harness(pool, await a_tenant(pool))
    intent, order_id = await harness.working()
    await other_organization.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id="x"))
    assert (await harness.order(intent))["filled_quantity"] == 0


async def test_positions_are_the_exact_sum_of_all_fills(harness: Harness) -> None:
    small = Decimal("0.000000000000000001")
    large = Decimal(123456789012345678)
    commands = [a_market_create("999999999999999999"), replace(a_market_create("5"), order_side=OrderSide.SELL)]
    for number, command in enumerate(commands):
        await harness.accept(command)
        (door,) = await harness.work()
        first = [an_execution(10 * number, large if number == 0 else 1), an_execution(10 * number + 1, small)]
        await harness.report(a_report(ReportStatus.WORKING, first, None, client_order_id(door.action.action_id)))
    sold = await harness.pool.fetchval(
        "select sum(e.quantity * case o.order_side when 'BUY' then 1 else -1 end) "
        "from executions e join orders o using (order_id)"
    )
    assert sold == Decimal(123456789012345677)
    assert await harness.pool.fetchval("select quantity from positions") == sold


async def test_the_log_of_an_account_is_gapless_and_every_body_is_json(harness: Harness) -> None:
    harness.broker.script.extend([Refused("E", 'quote " and € \\'), Unknown("x"), Accepted("b1"), Accepted("b2")])
    odd = a_market_create(reference='"\\ é €')
    intents = [await harness.accept(odd) for _ in range(4)]
    doors = await harness.work()
    await harness.accept(a_cancel(intents[-1]))
    await asyncio.gather(
        harness.work(),
        *(
            harness.report(
                a_report(ReportStatus.WORKING, [an_execution(n, 1)], None, client_order_id(door.action.action_id))
            )
            for n, door in enumerate(doors[1:])
        ),
        harness.settle(0),
        *(harness.accept() for _ in range(3)),
    )
    rows = await harness.pool.fetch("select event_no, kind, body from account_events order by event_no")
    assert [row["event_no"] for row in rows] == list(range(1, len(rows) + 1))
    assert await harness.pool.fetchval("select event_no from account_counters") == len(rows)
    bodies = [json.loads(row["body"]) for row in rows if row["body"] is not None]
    assert len(bodies) == len(rows) - 8
    assert {body["client_reference_id"] for body in bodies if "action_id" in body} >= {'"\\ é €'}
    assert all(float(body["filled_quantity"]) >= 0 for body in bodies if "filled_quantity" in body)

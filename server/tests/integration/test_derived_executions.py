"""A broker that tells totals only: what it counts is kept as executions, once each, wherever it is learned."""

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from openbell_server.domain.orders.broker_reports import OrderReport, ReportStatus
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_report, described

WORKING, FILLED, CANCELED = ReportStatus.WORKING, ReportStatus.FILLED, ReportStatus.CANCELED


def totals(order_id: str, status: ReportStatus, filled: int, average: str) -> OrderReport:
    report = a_report(status, client_order_id=order_id)
    return replace(report, filled_quantity=Decimal(filled), average_price=Decimal(average))


async def kept(harness: Harness) -> list[tuple[str, int, Decimal]]:
    rows = await harness.pool.fetch("select execution_id, quantity, price from executions order by quantity")
    return [(row["execution_id"], int(row["quantity"]), row["price"]) for row in rows]


async def test_what_is_new_in_a_total_is_an_execution_and_the_end_that_counts_it_closes_the_order(
    harness: Harness,
) -> None:
    intent, order_id = await harness.working()
    assert await harness.report(totals(order_id, WORKING, 4, "1.25")) == []
    assert await harness.report(totals(order_id, CANCELED, 9, "1.40")) == []
    order = await harness.order(intent)
    assert (order["filled_quantity"], order["filled_value"], order["close_reason"]) == (9, Decimal("12.6"), "CANCELED")
    assert await kept(harness) == [("b1:4", 4, Decimal("1.25")), ("b1:9", 5, Decimal("1.52"))]
    assert await harness.position() == 9


async def test_totals_twice_out_of_order_and_at_once_count_each_share_once(harness: Harness) -> None:
    intent, order_id = await harness.working()
    told = [(2, "1"), (5, "1.6"), (7, "2"), (10, "1.7")]
    reports = [totals(order_id, FILLED if filled == 10 else WORKING, filled, average) for filled, average in told] * 3
    random.Random(7).shuffle(reports)
    await asyncio.gather(*(harness.report(*reports[first : first + 4]) for first in (0, 4, 8)))
    await harness.report(*reports)
    order = await harness.order(intent)
    assert (order["filled_quantity"], order["filled_value"], order["close_reason"]) == (10, 17, "FILLED")
    summed = await harness.pool.fetchrow("select sum(quantity), sum(quantity * price) from executions")
    assert tuple(summed or ()) == (10, 17)
    assert await harness.position() == 10


async def test_a_total_below_what_was_counted_takes_nothing_back(harness: Harness) -> None:
    intent, order_id = await harness.working()
    await harness.report(totals(order_id, WORKING, 6, "2"))
    assert await harness.report(totals(order_id, WORKING, 4, "2")) == []
    assert ((await harness.order(intent))["filled_quantity"], await harness.position(), len(await kept(harness))) == (
        6,
        6,
        1,
    )


async def test_a_total_without_an_average_is_asked_about(harness: Harness) -> None:
    _, order_id = await harness.working()
    for short in (replace(totals(order_id, WORKING, 4, "2"), average_price=None), totals(order_id, WORKING, 4, "0")):
        assert await harness.report(short) == [short]
    assert await kept(harness) == []


async def test_an_execution_bears_the_time_of_its_total(harness: Harness) -> None:
    _, order_id = await harness.working()
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    await harness.report(replace(totals(order_id, WORKING, 4, "2"), as_of=noon))
    await harness.report(totals(order_id, WORKING, 5, "2"))
    first, learned = await harness.pool.fetch("select executed_at, recorded_at from executions order by executed_at")
    assert first["executed_at"] == noon
    assert abs((learned["executed_at"] - learned["recorded_at"]).total_seconds()) < 60


async def test_a_comparison_learns_totals_that_nobody_heard_and_then_has_nothing_new(harness: Harness) -> None:
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = described(totals(order_id, FILLED, 10, "1.5"))
    assert (await harness.reconcile(names_executions=False)).is_complete
    order = await harness.order(intent)
    assert (order["filled_value"], order["close_reason"], await harness.position()) == (15, "FILLED", 10)
    events = await harness.pool.fetchval("select event_no from account_counters")
    assert (await harness.reconcile(names_executions=False)).is_complete
    assert await harness.pool.fetchval("select event_no from account_counters") == events


async def test_totals_of_an_order_that_is_not_ours_move_the_position_once(harness: Harness) -> None:
    for filled in (4, 9, 9, 4):
        other_organization = totals("by-phone-17", WORKING, filled, "1.5")
        harness.broker.book["by-phone-17"] = described(other_organization, "x1")
        assert (await harness.reconcile(names_executions=False)).is_complete
    assert await harness.pool.fetchval("select filled_quantity from external_orders") == 9
    assert (await harness.position(), await kept(harness)) == (9, [])

"""A broker that tells totals only: what it counts is kept as executions, once each, wherever it is learned."""

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from builders import a_report, a_tenant, described
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.broker_orders import OrderReport, ReportStatus
from scripted_broker import Desk

WORKING, FILLED, CANCELED = ReportStatus.WORKING, ReportStatus.FILLED, ReportStatus.CANCELED


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    return Desk(pool, await a_tenant(pool))


def totals(order_id: str, status: ReportStatus, filled: int, average: str) -> OrderReport:
    report = a_report(status, client_order_id=order_id)
    return replace(report, filled_quantity=Decimal(filled), average_price=Decimal(average))


async def kept(desk: Desk) -> list[tuple[str, int, Decimal]]:
    rows = await desk.pool.fetch("select execution_id, quantity, price from executions order by quantity")
    return [(row["execution_id"], int(row["quantity"]), row["price"]) for row in rows]


async def test_what_is_new_in_a_total_is_an_execution_and_the_end_that_counts_it_closes_the_order(desk: Desk) -> None:
    intent, order_id = await desk.working()
    assert await desk.report(totals(order_id, WORKING, 4, "1.25")) == []
    assert await desk.report(totals(order_id, CANCELED, 9, "1.40")) == []
    order = await desk.order(intent)
    assert (order["filled_quantity"], order["filled_value"], order["close_reason"]) == (9, Decimal("12.6"), "CANCELED")
    assert await kept(desk) == [("b1:4", 4, Decimal("1.25")), ("b1:9", 5, Decimal("1.52"))]
    assert await desk.position() == 9


async def test_totals_twice_out_of_order_and_at_once_count_each_share_once(desk: Desk) -> None:
    intent, order_id = await desk.working()
    told = [(2, "1"), (5, "1.6"), (7, "2"), (10, "1.7")]
    reports = [totals(order_id, FILLED if filled == 10 else WORKING, filled, average) for filled, average in told] * 3
    random.Random(7).shuffle(reports)
    await asyncio.gather(*(desk.report(*reports[first : first + 4]) for first in (0, 4, 8)))
    await desk.report(*reports)
    order = await desk.order(intent)
    assert (order["filled_quantity"], order["filled_value"], order["close_reason"]) == (10, 17, "FILLED")
    summed = await desk.pool.fetchrow("select sum(quantity), sum(quantity * price) from executions")
    assert tuple(summed or ()) == (10, 17)
    assert await desk.position() == 10


async def test_a_total_below_what_was_counted_takes_nothing_back(desk: Desk) -> None:
    intent, order_id = await desk.working()
    await desk.report(totals(order_id, WORKING, 6, "2"))
    assert await desk.report(totals(order_id, WORKING, 4, "2")) == []
    assert ((await desk.order(intent))["filled_quantity"], await desk.position(), len(await kept(desk))) == (6, 6, 1)


async def test_a_total_without_an_average_is_asked_about(desk: Desk) -> None:
    _, order_id = await desk.working()
    for short in (replace(totals(order_id, WORKING, 4, "2"), average_price=None), totals(order_id, WORKING, 4, "0")):
        assert await desk.report(short) == [short]
    assert await kept(desk) == []


async def test_an_execution_bears_the_time_of_its_total(desk: Desk) -> None:
    _, order_id = await desk.working()
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    await desk.report(replace(totals(order_id, WORKING, 4, "2"), as_of=noon))
    await desk.report(totals(order_id, WORKING, 5, "2"))
    first, learned = await desk.pool.fetch("select executed_at, recorded_at from executions order by executed_at")
    assert first["executed_at"] == noon
    assert abs((learned["executed_at"] - learned["recorded_at"]).total_seconds()) < 60


async def test_a_comparison_learns_totals_that_nobody_heard_and_then_has_nothing_new(desk: Desk) -> None:
    intent, order_id = await desk.working()
    desk.broker.book[order_id] = described(totals(order_id, FILLED, 10, "1.5"))
    assert (await desk.reconcile(names_executions=False)).is_complete
    order = await desk.order(intent)
    assert (order["filled_value"], order["close_reason"], await desk.position()) == (15, "FILLED", 10)
    events = await desk.pool.fetchval("select event_no from account_counters")
    assert (await desk.reconcile(names_executions=False)).is_complete
    assert await desk.pool.fetchval("select event_no from account_counters") == events


async def test_totals_of_an_order_that_is_not_ours_move_the_position_once(desk: Desk) -> None:
    for filled in (4, 9, 9, 4):
        stranger = totals("by-phone-17", WORKING, filled, "1.5")
        desk.broker.book["by-phone-17"] = described(stranger, "x1")
        assert (await desk.reconcile(names_executions=False)).is_complete
    assert await desk.pool.fetchval("select filled_quantity from external_orders") == 9
    assert (await desk.position(), await kept(desk)) == (9, [])

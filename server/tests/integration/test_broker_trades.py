"""The account's log tells every execution once, before the order that it changed, with what is held after it."""

import asyncio
import itertools
import json
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import ExecutionChange, ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness
from support.brokers.shuffled_reports import a_history, shuffled
from support.builders.tenant import a_market_create, a_report, a_tenant, an_execution

WORKS, CANCELS, FILLS = ReportStatus.WORKING, ReportStatus.CANCELED, ReportStatus.FILLED
TRADE, ORDER = EventKind.BROKER_TRADE, EventKind.BROKER_ORDER


async def log(harness: Harness, after: int = 0) -> list[tuple[EventKind, dict[str, Any]]]:
    rows = await harness.pool.fetch(
        "select kind, body from account_events where account_id = $1 and event_no > $2 order by event_no",
        harness.account.account_id,
        after,
    )
    return [(EventKind(row["kind"]), json.loads(row["body"] or "{}")) for row in rows]


async def trades(harness: Harness) -> list[dict[str, Any]]:
    return [body for kind, body in await log(harness) if kind is TRADE]


def tallied(body: dict[str, Any]) -> tuple[str, ...]:
    return tuple(body[name] for name in ("execution_id", "kind", "cumulative_quantity", "leaves_quantity", "position"))


async def test_executions_of_one_report_are_told_one_by_one_and_then_the_order(harness: Harness) -> None:
    intent, order_id = await harness.working()
    after = len(await log(harness))
    fills = [an_execution(2, 3, 7), an_execution(1, 2)]
    await harness.report(a_report(WORKS, fills, client_order_id=order_id))
    (first, told), (second, other), (third, order) = await log(harness, after)
    assert [first, second, third] == [TRADE, TRADE, ORDER]
    assert [tallied(told), tallied(other)] == [("e2", "NORMAL", "3", "7", "3"), ("e1", "NORMAL", "5", "5", "5")]
    assert (order["filled_quantity"], order["leaves_quantity"]) == ("5", "5")
    assert (told["symbol"], told["order_side"], told["quantity"], told["price"]) == ("AAPL", "BUY", "3", "7")
    assert (told["client_order_id"], told["broker_order_ids"]) == (order["client_order_id"], ["b1"])
    assert datetime.fromisoformat(told["executed_at"]) == fills[0].executed_at
    stored = await harness.pool.fetchval("select distinct intent_id from account_events where kind = $1", TRADE)
    assert stored == intent


async def test_the_same_execution_is_told_once_whoever_reports_it_and_however_often(harness: Harness) -> None:
    _, order_id = await harness.working()
    fill = an_execution(1, 4)
    report = a_report(WORKS, [fill], [fill, fill], order_id)
    await asyncio.gather(*(harness.report(report, report) for _ in range(4)))
    assert [tallied(body) for body in await trades(harness)] == [("e1", "NORMAL", "4", "6", "4")]


async def test_a_sale_makes_the_position_less_and_every_order_of_the_symbol_moves_the_same(
    harness: Harness,
) -> None:
    for number, side in enumerate((OrderSide.BUY, OrderSide.SELL)):
        await harness.accept(replace(a_market_create("5"), order_side=side))
        (door,) = await harness.work()
        fills = [an_execution(10 * number + each, 1 + each + 1 * number) for each in range(2)]
        await harness.report(a_report(FILLS, fills, client_order_id=client_order_id(door.action.action_id)))
    told = await trades(harness)
    assert [body["position"] for body in told] == ["1", "3", "1", "-2"]
    assert [body["cumulative_quantity"] for body in told] == ["1", "3", "2", "5"]


async def test_an_execution_that_is_corrected_and_taken_back_is_told_each_time_and_once(
    harness: Harness,
) -> None:
    _, order_id = await harness.working()
    fills = [an_execution(1, 4), an_execution(2, 3)]
    await harness.report(a_report(WORKS, fills, client_order_id=order_id))
    for quantity, price, revision in ((4, 9, 1), (2, 9, 2), (0, 1, 3)):
        change = ExecutionChange(execution_id="e1", revision=revision, quantity=Decimal(quantity), price=Decimal(price))
        report = replace(a_report(WORKS, fills, (), order_id), changes=(change,))
        await harness.report(report)
        await harness.report(report)
    told = [(*tallied(body), body["quantity"], body["price"]) for body in await trades(harness)]
    assert told == [
        ("e1", "NORMAL", "4", "6", "4", "4", "1"),
        ("e2", "NORMAL", "7", "3", "7", "3", "1"),
        ("e1", "CORRECTION", "7", "3", "7", "4", "9"),
        ("e1", "CORRECTION", "5", "5", "5", "2", "9"),
        ("e1", "BUST", "3", "7", "3", "2", "9"),
    ]
    kinds = [kind for kind, _ in await log(harness)]
    assert [after for kind, after in itertools.pairwise(kinds) if kind is TRADE] == [
        TRADE,
        *[ORDER] * 4,
    ]


@pytest.mark.parametrize("number", [8, 21, 52])
async def test_each_trade_starts_where_the_one_before_left_whatever_the_order_of_reports(
    pool: Pool, number: int
) -> None:
    harness = Harness(pool, await a_tenant(pool))
    intent, order_id = await harness.working()
    for report in shuffled(
        [replace(each, client_order_id=order_id) for each in a_history(number).feed], Random(number)
    ):
        await harness.report(report)
    held, standing = Decimal(0), dict[str, Decimal]()
    for body in await trades(harness):
        quantity, before = Decimal(body["quantity"]), standing.get(body["execution_id"], Decimal(0))
        after = Decimal(0) if body["kind"] == "BUST" else quantity
        standing[body["execution_id"]] = after
        held += after - before
        assert (Decimal(body["cumulative_quantity"]), Decimal(body["position"])) == (held, held)
    assert held == (await harness.order(intent))["filled_quantity"]
    assert standing.keys() == {row["execution_id"] for row in await pool.fetch("select execution_id from executions")}

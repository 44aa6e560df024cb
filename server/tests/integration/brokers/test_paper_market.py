"""The paper broker's market on real PostgreSQL: prices that move, sizes, days and auctions."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.application.ports.broker import BrokerOrder
from openbell_server.brokers.paper.prices import InvalidPrices
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.broker_reports import Accepted, Refused, ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.paper import serve
from openbell_server.settings import Settings
from support.brokers.paper_broker import (
    AAPL,
    PRICE,
    ask,
    found,
    kind,
    named,
    new_order,
    next_report,
    replacement,
    resting,
    running,
    settings_of,
    until,
)


async def set_price(settings: Settings, price: object, size: int | None = None) -> None:
    body = {"price": str(price)} | ({} if size is None else {"size": str(size)})
    assert (await ask(settings, "PUT", "/prices/AAPL", body)).status_code == 200


async def fills(session: PaperSession, order: BrokerOrder) -> list[str]:
    return [f"{fill.quantity} at {fill.price}" for fill in (await found(session, order)).executions]


async def costs(settings: Settings, price: str) -> bool:
    return bool((await ask(settings, "GET", "/prices/AAPL")).json()["price"] == price)


async def has_status(session: PaperSession, order: BrokerOrder, status: ReportStatus) -> bool:
    return (await found(session, order)).status is status


async def test_an_order_fills_step_by_step_and_the_feed_tells_each(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session, aclosing(session.reports()) as feed:
        assert await next_report(feed) is None
        order = new_order(quantity=Decimal(25))
        await set_price(settings, 50, 10)
        await session.submit(order)
        await set_price(settings, 51, 10)
        await set_price(settings, 49)
        assert await fills(session, order) == ["10 at 50", "10 at 51", "5 at 49"]
        told = [report for _ in range(4) if (report := await next_report(feed))]
        assert [(report.status, int(report.filled_quantity)) for _, report in told] == [
            (ReportStatus.WORKING, 0),
            (ReportStatus.WORKING, 10),
            (ReportStatus.WORKING, 20),
            (ReportStatus.FILLED, 25),
        ]
        executions = [fill for _, report in told for fill in report.executions]
        assert tuple(executions) == (await found(session, order)).executions


async def test_now_or_never_takes_what_is_there_and_all_or_nothing_does_not(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await set_price(settings, 50, 10)
        some = new_order(quantity=Decimal(25), time_in_force=TimeInForce.IMMEDIATE_OR_CANCEL)
        whole = new_order(quantity=Decimal(25), time_in_force=TimeInForce.FILL_OR_KILL)
        fits = new_order(quantity=Decimal(10), time_in_force=TimeInForce.FILL_OR_KILL)
        for order in (some, whole, fits):
            assert kind(await session.submit(order)) is Accepted
        reports = [await found(session, order) for order in (some, whole, fits)]
        assert [(report.status, int(report.filled_quantity)) for report in reports] == [
            (ReportStatus.EXPIRED, 10),
            (ReportStatus.EXPIRED, 0),
            (ReportStatus.FILLED, 10),
        ]


async def test_an_order_that_filled_in_part_is_replaced_by_its_total_and_canceled_with_what_it_has(
    ledger_url: str,
) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await set_price(settings, 50, 10)
        changed, canceled = (new_order(OrderType.LIMIT, limit_price=Decimal(50)) for _ in range(2))
        changed, canceled = (replace(order, quantity=Decimal(25)) for order in (changed, canceled))
        for order in (changed, canceled):
            await session.submit(order)
        too_few = replacement(changed, Decimal(50))
        too_few = replace(too_few, terms=replace(too_few.terms, quantity=Decimal(10)))
        assert kind(await session.replace(too_few)) is Refused
        assert kind(await session.replace(replacement(changed, Decimal(49)))) is Accepted
        await set_price(settings, 49)
        assert await fills(session, changed) == ["10 at 50", "40 at 49"]
        await set_price(settings, 50, 10)
        assert (
            kind(await session.cancel(canceled.account_id, named(canceled.client_order_id), canceled.valid_until))
            is Refused
        )
        assert await fills(session, canceled) == ["10 at 50", "15 at 49"]


async def test_a_price_that_was_set_is_held_until_it_is_freed(ledger_url: str) -> None:
    settings = settings_of(ledger_url, prices="walk:seed=7,step_ms=20,bps=50")
    async with running(settings) as session:
        await set_price(settings, "10000")
        order = new_order(OrderType.LIMIT, limit_price=Decimal(9000))
        other = new_order(symbol=Symbol("MSFT"), quantity=Decimal(2500))
        for each in (order, other):
            await session.submit(each)
        # By then the other symbol has moved twice.
        await until(lambda: has_status(session, other, ReportStatus.FILLED))
        assert await has_status(session, order, ReportStatus.WORKING)
        assert (await ask(settings, "GET", "/prices/AAPL")).json() == {"symbol": "AAPL", "price": "10000"}
        freed = (await ask(settings, "DELETE", "/prices/aapl")).json()
        assert (Decimal(freed["price"]) < 1000, freed["size"]) == (True, "1000")
        assert await has_status(session, order, ReportStatus.FILLED)


async def test_a_walk_fills_a_limit_in_lots_sooner_or_later(ledger_url: str) -> None:
    settings = settings_of(ledger_url, prices="walk:seed=7,step_ms=20,bps=50")
    async with running(settings) as session:
        now = Decimal((await ask(settings, "GET", "/prices/AAPL")).json()["price"])
        limits = (OrderSide.BUY, now * Decimal("0.999")), (OrderSide.SELL, now * Decimal("1.001"))
        orders = [
            new_order(OrderType.LIMIT, order_side=side, limit_price=limit, quantity=Decimal(2500))
            for side, limit in limits
        ]
        market = new_order(quantity=Decimal(2500))
        for order in (*orders, market):
            await session.submit(order)

        async def one_is_filled() -> bool:
            done = [await has_status(session, order, ReportStatus.FILLED) for order in orders]
            return any(done) and await has_status(session, market, ReportStatus.FILLED)

        await until(one_is_filled, 60)
        assert [fill.quantity for fill in (await found(session, market)).executions] == [1000, 1000, 500]
        for order in orders:
            assert order.limit_price is not None
            for fill in (await found(session, order)).executions:
                assert fill.quantity <= 1000
                better = order.limit_price - fill.price
                assert better >= 0 if order.order_side is OrderSide.BUY else better <= 0


async def test_a_file_moves_what_works_and_a_restart_begins_it_anew(ledger_url: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("time,symbol,price,size\n0,AAPL,100,5\n0.4,MSFT,7\n0.8,AAPL,90,5\n1.2,AAPL,95\n")
    settings = settings_of(ledger_url, prices=f"csv:{file}")
    order = new_order(OrderType.LIMIT, limit_price=Decimal(95), quantity=Decimal(12))
    for name in ("first", "second"):
        async with running(settings) as session:
            bought = replace(order, client_order_id=name)
            await until(lambda: costs(settings, "100"))
            await session.submit(bought)
            await until(partial(has_status, session, bought, ReportStatus.FILLED))
            assert await fills(session, bought) == ["5 at 90", "7 at 95"]


async def test_prices_that_cannot_be_read_keep_the_process_from_starting(ledger_url: str) -> None:
    settings = settings_of(ledger_url, prices="csv:nowhere.csv")
    with pytest.raises(InvalidPrices, match=r"nowhere\.csv cannot be read"):
        await serve(settings, asyncio.Event(), Operations("paper"), JetStreamConnection(""))


async def make_due(ledger_url: str) -> None:
    connection = await asyncpg.connect(ledger_url)
    try:
        await connection.execute("update orders set due_at = now() where due_at is not null")
    finally:
        await connection.close()


async def test_a_day_ends_what_is_for_the_day_and_its_auction_fills_what_waits_for_it(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        day, ext, stays = resting(), replace(resting(), time_in_force=TimeInForce.EXT), resting()
        stays = replace(stays, time_in_force=TimeInForce.GOOD_TILL_CANCEL)
        auctions = [
            replace(new_order(), time_in_force=TimeInForce.AT_CLOSE, quantity=Decimal(2500)),
            replace(resting(), time_in_force=TimeInForce.AT_CLOSE),
            new_order(time_in_force=TimeInForce.AT_OPEN),
        ]
        for order in (day, ext, stays, *auctions):
            assert kind(await session.submit(order)) is Accepted
            assert await has_status(session, order, ReportStatus.WORKING)
        await set_price(settings, PRICE, 1)
        assert await has_status(session, auctions[0], ReportStatus.WORKING)
        await make_due(ledger_url)
        await until(lambda: has_status(session, day, ReportStatus.EXPIRED))
        assert await has_status(session, ext, ReportStatus.EXPIRED)
        assert await has_status(session, stays, ReportStatus.WORKING)
        assert await fills(session, auctions[0]) == [f"1000 at {PRICE}", f"1500 at {PRICE}"]
        assert await has_status(session, auctions[1], ReportStatus.EXPIRED)
        assert await has_status(session, auctions[2], ReportStatus.FILLED)


async def test_an_operator_rings_a_bell_without_waiting_for_its_time(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        day, opens, closes = resting(), new_order(time_in_force=TimeInForce.AT_OPEN), new_order()
        closes = replace(closes, time_in_force=TimeInForce.AT_CLOSE)
        for order in (day, opens, closes):
            await session.submit(order)
        assert (await ask(settings, "POST", "/bells/open")).json() == {"rang": "open"}
        statuses = [(await found(session, order)).status for order in (day, opens, closes)]
        assert statuses == [ReportStatus.WORKING, ReportStatus.FILLED, ReportStatus.WORKING]
        await ask(settings, "POST", "/bells/close")
        assert await has_status(session, day, ReportStatus.EXPIRED)
        assert await has_status(session, closes, ReportStatus.FILLED)
        assert (await ask(settings, "POST", "/bells/lunch")).status_code == 404


async def test_a_replace_gives_an_order_a_day_of_its_own(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        order = replace(resting(), time_in_force=TimeInForce.GOOD_TILL_CANCEL)
        await session.submit(order)
        change = replacement(order, PRICE - 2)
        await session.replace(replace(change, terms=replace(change.terms, time_in_force=TimeInForce.DAY)))
        await make_due(ledger_url)
        await until(lambda: has_status(session, order, ReportStatus.EXPIRED))


@pytest.mark.parametrize("time_in_force", [TimeInForce.AT_OPEN, TimeInForce.AT_CLOSE])
async def test_a_stop_that_waits_for_an_auction_is_refused(ledger_url: str, time_in_force: TimeInForce) -> None:
    async with running(settings_of(ledger_url)) as session:
        stop = new_order(OrderType.STOP, stop_price=PRICE + 1)
        refused = await session.submit(replace(stop, time_in_force=time_in_force))
        assert isinstance(refused, Refused)
        assert refused.broker_code == "invalid_order"
        await session.submit(stop)
        change = replacement(stop, None)
        change = replace(change, terms=replace(change.terms, time_in_force=time_in_force))
        assert kind(await session.replace(change)) is Refused


async def test_a_symbol_nobody_has_orders_in_has_a_price_too(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings):
        assert (await ask(settings, "GET", "/prices/AAPL")).json() == {"symbol": AAPL, "price": str(PRICE)}
        response = await ask(settings, "PUT", "/prices/AAPL", {"price": "5", "size": "0"})
        assert (response.status_code, response.json()["code"]) == (400, "malformed")
        assert (await ask(settings, "GET", f"/prices/{Symbol('AAPL')}")).json()["price"] == str(PRICE)

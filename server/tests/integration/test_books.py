"""The books of an account are those of all its trades, however they were reported and whenever they were saved."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.money.books import PostgresBookStore
from openbell_server.application.money import read_books
from openbell_server.application.money.read_books import CurrentBooks, ReadBooks
from openbell_server.application.money.save_books import SaveBooks
from openbell_server.domain.identifiers import Symbol, client_order_id
from openbell_server.domain.money.profit import Book, CostMethod
from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange, ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_market_create, a_report, a_tenant

AAPL = Symbol("AAPL")
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def these(*values: object) -> list[object]:
    """For comparisons of decimals with whole numbers."""
    return [*values]


class Booked:
    """An account whose orders fill as a test wants."""

    def __init__(self, harness: Harness, store: PostgresBookStore) -> None:
        self._harness, self.store = harness, store

    async def order(self, side: OrderSide = OrderSide.BUY) -> str:
        await self._harness.accept(replace(a_market_create("100"), order_side=side))
        (door,) = await self._harness.work()
        return client_order_id(door.action.action_id)

    async def fill(self, order: str, fills: Sequence[BrokerExecution], *changes: ExecutionChange) -> None:
        report = a_report(ReportStatus.WORKING, fills, client_order_id=order)
        gone = sum(
            (fill.quantity for fill in fills for each in changes if each.execution_id == fill.execution_id), Decimal(0)
        )
        left = sum((each.quantity for each in changes), report.filled_quantity - gone)
        assert not await self._harness.report(replace(report, changes=changes, filled_quantity=left))

    async def read(self) -> CurrentBooks:
        account = self._harness.account
        return await ReadBooks(self.store)(account.organization_id, account.account_id, [AAPL])

    async def save(self) -> None:
        assert not await SaveBooks(self.store, self.store, events_behind=1)([self._harness.account.slot])

    async def saved(self) -> Book:
        account = self._harness.account
        books = await self.store.read_books(account.organization_id, account.account_id, [AAPL])
        return books[AAPL]

    async def made_again(self) -> Book:
        account = self._harness.account
        book, _ = await read_books.made_again(self.store, account.organization_id, account.account_id, AAPL)
        return book


def fill(number: int, quantity: int, price: int, minutes: int | None = None) -> BrokerExecution:
    return BrokerExecution(
        execution_id=f"e{number}",
        quantity=Decimal(quantity),
        price=Decimal(price),
        executed_at=NOON + timedelta(minutes=number if minutes is None else minutes),
    )


@pytest.fixture
async def booked(pool: Pool) -> Booked:
    return Booked(Harness(pool, await a_tenant(pool)), PostgresBookStore(pool))


async def test_trades_count_before_and_after_they_are_saved(booked: Booked) -> None:
    await booked.fill(await booked.order(), [fill(1, 10, 100), fill(2, 10, 110)])
    before = await booked.read()
    await booked.save()
    after = await booked.read()
    assert before.books == after.books == {AAPL: await booked.saved()}
    assert (len(before.news), after.news) == (1, {})
    await booked.fill(await booked.order(OrderSide.SELL), [fill(3, 15, 120)])
    book = (await booked.read()).books[AAPL]
    assert these(book.quantity, book.cost, book.total.realized(CostMethod.FIFO)) == [5, 525, 250]
    await booked.save()
    assert await booked.saved() == book == await booked.made_again()


@pytest.mark.parametrize("is_saved", [True, False])
async def test_a_trade_that_is_reported_late_counts_when_it_was_made(booked: Booked, *, is_saved: bool) -> None:
    buys, sells = await booked.order(), await booked.order(OrderSide.SELL)
    await booked.fill(buys, [fill(2, 10, 110)])
    await booked.fill(sells, [fill(3, 10, 120)])
    if is_saved:
        await booked.save()
    await booked.fill(buys, [fill(2, 10, 110), fill(1, 10, 100)])
    book = (await booked.read()).books[AAPL]
    assert these(book.quantity, book.cost_by(CostMethod.FIFO), book.total.realized(CostMethod.FIFO)) == [10, 1100, 200]
    await booked.save()
    assert await booked.saved() == book == await booked.made_again()


async def test_a_bust_and_a_correction_leave_the_books_as_if_the_fill_had_never_been_otherwise(booked: Booked) -> None:
    buys = await booked.order()
    fills = [fill(1, 10, 100), fill(2, 10, 110)]
    await booked.fill(buys, fills)
    await booked.fill(await booked.order(OrderSide.SELL), [fill(3, 10, 120)])
    await booked.save()
    corrected = ExecutionChange(execution_id="e1", revision=1, quantity=Decimal(10), price=Decimal(105))
    await booked.fill(buys, fills, corrected)
    book = (await booked.read()).books[AAPL]
    assert book.total.realized(CostMethod.FIFO) == 150
    await booked.save()
    busted = ExecutionChange(execution_id="e1", revision=2, quantity=Decimal(0), price=Decimal(105))
    await booked.fill(buys, fills, busted)
    book = (await booked.read()).books[AAPL]
    assert these(book.quantity, book.total.realized(CostMethod.FIFO), book.total.trades) == [0, 100, 2]
    await booked.save()
    assert await booked.saved() == await booked.made_again()


async def test_the_saved_figures_of_the_periods_are_those_of_the_book(booked: Booked, pool: Pool) -> None:
    buys = await booked.order()
    fills = [fill(1, 10, 100), fill(2, 10, 110, minutes=40)]
    for reported in (fills[:1], fills, fills):
        await booked.fill(buys, reported)
        await booked.save()
    await booked.fill(await booked.order(OrderSide.SELL), [fill(3, 4, 120, minutes=20)])
    await booked.save()
    rows = await pool.fetch("select period, realized_fifo, trades, bought_value from profit_figures order by period")
    assert [tuple(row) for row in rows] == [
        (NOON, 0, 1, 1000),
        (NOON + timedelta(minutes=15), 80, 1, 0),
        (NOON + timedelta(minutes=30), 0, 1, 1100),
    ]
    assert (await booked.saved()).total.realized(CostMethod.FIFO) == 80


async def test_two_savers_of_one_account_save_once(booked: Booked) -> None:
    await booked.fill(await booked.order(), [fill(1, 10, 100)])
    account = (await booked.read()).read
    store, books = booked.store, await booked.read()
    where = booked._harness.account.organization_id, booked._harness.account.account_id
    assert await store.save_books(*where, account, books.books, books.news)
    assert not await store.save_books(*where, account, books.books, books.news)
    assert (await booked.saved()).total.trades == 1


async def test_books_are_made_again_where_events_were_pruned(booked: Booked, pool: Pool) -> None:
    await booked.fill(await booked.order(), [fill(1, 10, 100), fill(2, 10, 110)])
    await pool.execute("update account_counters set event_floor = event_no")
    current = await booked.read()
    assert (current.read.is_gap, current.books[AAPL]) == (True, await booked.made_again())
    await booked.save()
    assert not (await booked.read()).read.is_gap


async def test_more_news_than_one_read_has_are_all_counted(booked: Booked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_books, "NEWS_MAX", 2)
    order, fills = await booked.order(), [fill(number, number, 100 + number) for number in range(1, 6)]
    for reported in range(1, 6):
        await booked.fill(order, fills[:reported])
    assert (await booked.read()).books[AAPL] == await booked.made_again()


async def test_a_book_of_too_many_trades_is_left_out_until_it_was_saved(booked: Booked) -> None:
    buys, account = await booked.order(), booked._harness.account
    await booked.fill(buys, [fill(2, 10, 110)])
    await booked.save()
    await booked.fill(buys, [fill(2, 10, 110), fill(1, 10, 100)])
    bounded = ReadBooks(booked.store, trades_max=1)
    current = await bounded(account.organization_id, account.account_id, [AAPL])
    assert (current.books, current.news) == ({}, {})
    await booked.save()
    assert (await bounded(account.organization_id, account.account_id)).books == {AAPL: await booked.made_again()}

"""The paper broker's own append-only ledger: one writer, one transaction per command, reads beside it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import aiosql
import asyncpg

from openbell_server.brokers.paper.matching import Quote
from openbell_server.brokers.paper.wire import (
    ExecutionBody,
    FeedLine,
    LastKeyBody,
    LedgerOrderBody,
    LedgerSummary,
    OrderPage,
    ReportBody,
    decimal_text,
)
from openbell_server.domain.broker_orders import ReportStatus
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders import OrderSide, OrderType, TimeInForce

PAGE: Final = 500
_TIMEOUT_SECONDS: Final = 5
_READERS: Final = 4
_SCHEMA: Final = Path(__file__).with_name("schema.sql")

# Everything out of aiosql is untyped; what leaves this module is not.
queries: Any = aiosql.from_path(Path(__file__).with_name("ledger.sql"), "asyncpg")


def broker_order_id(number: int) -> str:
    """The broker's name for its order."""
    return f"P{number}"


class LedgerInUse(Exception):
    """There can be one writer only."""


class Ledger:
    """The ledger; `writing` is the only way to add to it."""

    def __init__(self, url: str, readers: "asyncpg.Pool[asyncpg.Record]") -> None:
        """Use `open`."""
        self._url = url
        self._readers = readers
        self._turn = asyncio.Lock()
        self._writer: asyncpg.Connection[asyncpg.Record] | None = None
        self._committed = asyncio.Event()
        # Prices that were set, as the table holds them: there is no other writer.
        self.prices: dict[Symbol, Quote] = {}

    @classmethod
    async def open(cls, url: str) -> "Ledger":
        """Connect, bring the schema, and become the only writer."""
        readers = await asyncpg.create_pool(
            url, min_size=1, max_size=_READERS, timeout=_TIMEOUT_SECONDS, command_timeout=_TIMEOUT_SECONDS
        )
        ledger = cls(url, readers)
        try:
            async with ledger.writing():
                pass
        except BaseException:
            await ledger.close()
            raise
        return ledger

    async def close(self) -> None:
        """Let go of the connections."""
        if self._writer is not None:
            await self._writer.close(timeout=_TIMEOUT_SECONDS)
        await asyncio.wait_for(self._readers.close(), _TIMEOUT_SECONDS)

    def next_commit(self) -> asyncio.Event:
        """Set at the next commit; take it before reading, and nothing is missed."""
        return self._committed

    @asynccontextmanager
    async def writing(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """The one writer's turn: a transaction that commits at the end; numbers are given in the order of turns."""
        async with self._turn:
            if self._writer is None or self._writer.is_closed():
                self._writer = await self._connect_writer()
            async with self._writer.transaction():
                yield self._writer
            committed, self._committed = self._committed, asyncio.Event()
            committed.set()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator["asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"]:
        """One moment of the ledger, for several questions."""
        async with (
            self._readers.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection

    async def find(self, account_id: UUID, client_order_id: str, accepted_before: datetime) -> LedgerOrderBody | None:
        """An order with all its executions."""
        async with self._readers.acquire() as connection:
            rows = queries.find_order(
                connection, account_id=account_id, client_order_id=client_order_id, accepted_before=accepted_before
            )
            orders = _orders([row async for row in rows])
        return orders[0] if orders else None

    async def page(self, account_id: UUID, since: datetime, accepted_before: datetime, after: int) -> OrderPage:
        """Some of an account's orders, by number: what arrives while pages are read comes on a later one."""
        async with self._readers.acquire() as connection:
            rows = queries.orders_of(
                connection,
                account_id=account_id,
                since=since,
                accepted_before=accepted_before,
                after=after,
                page=PAGE,
            )
            orders = _orders([row async for row in rows])
        return OrderPage(tuple(orders), orders[-1].number if len(orders) == PAGE else None)

    async def last_update(self) -> int:
        """The number of the newest update."""
        async with self._readers.acquire() as connection:
            return int(await queries.last_update(connection))

    async def updates_after(self, number: int) -> list[FeedLine]:
        """Some of the updates after this one, in order."""
        async with self._readers.acquire() as connection:
            return [_feed_line(row) async for row in queries.updates_after(connection, number=number, page=PAGE)]

    async def last_key(self, account_id: UUID) -> LastKeyBody:
        """The key that the account came with last."""
        async with self._readers.acquire() as connection:
            row = await queries.last_key(connection, account_id=account_id)
            return LastKeyBody(row["key_id"], row["received_at"]) if row else LastKeyBody(None, None)

    async def is_anything_due(self, now: datetime) -> bool:
        """Whether the day of an order that works has ended by now, or its auction is held."""
        async with self._readers.acquire() as connection:
            return bool(await queries.is_anything_due(connection, now=now))

    async def working_symbols(self, most: int) -> list[Symbol]:
        """Symbols of orders that work."""
        async with self._readers.acquire() as connection:
            return [row["symbol"] async for row in queries.working_symbols(connection, most=most)]

    async def summary(self) -> LedgerSummary:
        """The ledger in numbers."""
        async with self._readers.acquire() as connection:
            return LedgerSummary(**await queries.summary(connection))

    async def _connect_writer(self) -> "asyncpg.Connection[asyncpg.Record]":
        connection = await asyncpg.connect(self._url, timeout=_TIMEOUT_SECONDS, command_timeout=_TIMEOUT_SECONDS)
        try:
            await connection.execute(_SCHEMA.read_text())
            try:
                await queries.become_the_only_writer(connection)
            except TimeoutError as trouble:
                raise LedgerInUse("another process writes this ledger") from trouble
            # The last writer may have set prices that this one never saw.
            self.prices = {
                row["symbol"]: Quote(row["price"], row["size"]) async for row in queries.set_prices(connection)
            }
        except BaseException:
            connection.terminate()
            raise
        return connection


def _execution(order_number: int, row: asyncpg.Record) -> tuple[ExecutionBody, ...]:
    if row["ordinal"] is None:
        return ()
    execution = ExecutionBody(
        execution_id=f"{broker_order_id(order_number)}-{row['ordinal']}",
        quantity=decimal_text(row["execution_quantity"]),
        price=decimal_text(row["price"]),
        executed_at=row["executed_at"],
    )
    return (execution,)


def _orders(rows: Iterable[asyncpg.Record]) -> list[LedgerOrderBody]:
    """Orders from rows that repeat the order for each execution."""
    executions: dict[int, tuple[ExecutionBody, ...]] = {}
    first_rows: dict[int, asyncpg.Record] = {}
    for row in rows:
        number = row["number"]
        first_rows.setdefault(number, row)
        executions[number] = executions.get(number, ()) + _execution(number, row)
    return [_order(row, executions[number]) for number, row in first_rows.items()]


def _order(row: asyncpg.Record, executions: tuple[ExecutionBody, ...]) -> LedgerOrderBody:
    return LedgerOrderBody(
        number=row["number"],
        account_id=row["account_id"],
        client_order_id=row["client_order_id"],
        broker_order_id=broker_order_id(row["number"]),
        symbol=row["symbol"],
        side=OrderSide(row["order_side"]),
        type=OrderType(row["order_type"]),
        quantity=decimal_text(row["quantity"]),
        limit_price=None if row["limit_price"] is None else decimal_text(row["limit_price"]),
        stop_price=None if row["stop_price"] is None else decimal_text(row["stop_price"]),
        time_in_force=TimeInForce(row["time_in_force"]),
        accepted_at=row["accepted_at"],
        status=ReportStatus(row["status"]),
        filled_quantity=decimal_text(row["filled_quantity"]),
        executions=executions,
    )


def _feed_line(row: asyncpg.Record) -> FeedLine:
    return FeedLine(
        number=row["number"],
        account_id=row["account_id"],
        report=ReportBody(
            client_order_id=row["client_order_id"],
            broker_order_id=broker_order_id(row["order_number"]),
            status=ReportStatus(row["status"]),
            filled_quantity=decimal_text(row["filled_quantity"]),
            executions=_execution(row["order_number"], row),
        ),
    )

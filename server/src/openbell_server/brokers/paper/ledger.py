"""The paper broker's append-only ledger: one writer, one transaction per command, concurrent readers."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import aiosql
import asyncpg
import msgspec

from openbell_exchange.faults import Faults, plan_of
from openbell_exchange.matching import Quote
from openbell_server.brokers.http_client import decimal_text, optional_text
from openbell_server.brokers.paper.wire import (
    AccountRules,
    ChangeBody,
    ExecutionBody,
    FeedLine,
    LastKeyBody,
    LedgerOrderBody,
    LedgerSummary,
    OrderPage,
    ReportBody,
)
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce

PAGE: Final = 500
_TIMEOUT_SECONDS: Final = 5
# At start the database may be busy or not available yet.
_OPEN_SECONDS: Final = 30
# After these errors the state of the connection is unknown.
_DOUBTFUL: Final = (TimeoutError, OSError, asyncpg.InterfaceError, asyncpg.PostgresError, asyncio.CancelledError)
_READERS: Final = 4
# Several sets of submits, whose number is limited too.
_RECENT_MAX: Final = 4 * PAGE
_Row = asyncpg.Record | Mapping[str, Any]
_SCHEMA: Final = Path(__file__).with_name("schema.sql")

# aiosql is untyped; the functions of this module are typed.
queries: Any = aiosql.from_path(Path(__file__).with_name("ledger.sql"), "asyncpg")


def broker_order_id(number: int) -> str:
    return f"P{number}"


def number_of(broker_order_id: str) -> int | None:
    """The order number of a broker_order_id, or None if it has another form."""
    digits = broker_order_id.removeprefix("P")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 19
    return int(digits) if is_number and broker_order_id == f"P{int(digits)}" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """Identifies an order by the broker's number, or else by its client_order_id."""

    client_order_id: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class AccountFaults:
    """The fault plan of one account."""

    seed: int
    faults: Mapping[str, float]
    set_at: datetime
    plan: Faults


class _RecentUpdates:
    """The newest updates up to the last committed one, without gaps, so that feeds need not read them again."""

    def __init__(self) -> None:
        self._after = 0
        self._lines: list[tuple[str, FeedLine]] = []

    def add(self, after: int, lines: Sequence[tuple[str, FeedLine]]) -> None:
        if after != self._after + len(self._lines):
            self._after, self._lines = after, []
        self._lines += lines
        surplus = len(self._lines) - _RECENT_MAX
        if surplus > 0:
            self._after += surplus
            del self._lines[:surplus]

    def after(self, number: int) -> list[tuple[str, FeedLine]] | None:
        """At most PAGE updates after this number; None if they may be missing here."""
        start = number - self._after
        return self._lines[start : start + PAGE] if self._lines and start >= 0 else None


class LedgerInUse(Exception):
    """Another process already writes this ledger."""


class Ledger:
    """The ledger; create it with `open`. Only `writing` can change it."""

    def __init__(self, url: str, readers: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._url = url
        self._readers = readers
        self._turn = asyncio.Lock()
        self._writer: asyncpg.Connection[asyncpg.Record] | None = None
        self._committed = asyncio.Event()
        # How often anything else than submits was written, or may have been.
        self.changes = 0
        self._recent = _RecentUpdates()
        # Cached from the tables, which have no other writer.
        self.prices: dict[Symbol, Quote] = {}
        self.faults: dict[UUID, AccountFaults] = {}
        self.rules: dict[UUID, AccountRules] = {}

    @classmethod
    async def open(cls, url: str) -> "Ledger":
        """Connect, create the schema, and become the only writer; raises LedgerInUse if there is another."""
        readers = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=_READERS,
            timeout=_OPEN_SECONDS,
            command_timeout=_TIMEOUT_SECONDS,
            reset=_keep_state,
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
        if self._writer is not None:
            await self._writer.close(timeout=_TIMEOUT_SECONDS)
        await asyncio.wait_for(self._readers.close(), _TIMEOUT_SECONDS)

    def next_commit(self) -> asyncio.Event:
        """An event that is set at the next commit. Get it before reading, so that no commit is missed."""
        return self._committed

    @asynccontextmanager
    async def writing(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """A transaction of the single writer, committed at the end. Numbers follow the order of transactions."""
        async with self.writing_submits() as connection:
            self._has_changed()
            async with connection.transaction():
                yield connection

    @asynccontextmanager
    async def writing_submits(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """The single writer without a transaction, so that a single statement is one round trip, with its commit.

        The caller adds the updates that it wrote with `add_updates`.
        """
        async with self._turn:
            if self._writer is None or self._writer.is_closed():
                self._writer = await self._connect_writer()
                # Another process may have written since.
                self._has_changed()
            try:
                yield self._writer
            except BaseException as trouble:
                # A statement that was not confirmed may be committed.
                self._has_changed()
                # A connection that did not confirm BEGIN could stay inside the transaction and never commit again.
                if isinstance(trouble, _DOUBTFUL):
                    self._writer.terminate()
                raise
            committed, self._committed = self._committed, asyncio.Event()
            committed.set()

    def add_updates(self, after: int, rows: Sequence[_Row]) -> None:
        """Keep updates that `writing_submits` has committed, the first with the number after this one."""
        self._recent.add(after, [(row["profile"], _feed_line(row)) for row in rows])

    def _has_changed(self) -> None:
        self.changes += 1
        self._recent = _RecentUpdates()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator["asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"]:
        """A consistent snapshot for several queries."""
        async with (
            self._readers.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection

    async def find(
        self, account_id: UUID, profile: str, key: OrderKey, accepted_before: datetime, *, only_open: bool
    ) -> LedgerOrderBody | None:
        """An order with all its executions."""
        async with self._readers.acquire() as connection:
            rows = queries.find_order(
                connection,
                account_id=account_id,
                profile=profile,
                client_order_id=key.client_order_id,
                number=key.number,
                only_open=only_open,
                accepted_before=accepted_before,
            )
            orders = _orders([row async for row in rows])
        return orders[0] if orders else None

    async def page(
        self, account_id: UUID, profile: str, since: datetime, accepted_before: datetime, after: int
    ) -> OrderPage:
        """One page of an account's orders by number; orders that arrive meanwhile are on a later page."""
        async with self._readers.acquire() as connection:
            rows = queries.orders_of(
                connection,
                account_id=account_id,
                profile=profile,
                since=since,
                accepted_before=accepted_before,
                after=after,
                page=PAGE,
            )
            orders = _orders([row async for row in rows])
        return OrderPage(tuple(orders), orders[-1].number if len(orders) == PAGE else None)

    async def set_faults(self, account_id: UUID, faults: AccountFaults) -> None:
        async with self.writing() as connection:
            await queries.set_faults(
                connection,
                account_id=account_id,
                seed=faults.seed,
                faults=msgspec.json.encode(faults.faults).decode(),
                set_at=faults.set_at,
            )
        self.faults[account_id] = faults

    async def clear_faults(self, account_id: UUID) -> None:
        async with self.writing() as connection:
            await queries.clear_faults(connection, account_id=account_id)
        self.faults.pop(account_id, None)

    async def set_rules(self, account_id: UUID, rules: AccountRules) -> None:
        async with self.writing() as connection:
            await queries.set_rules(connection, account_id=account_id, **msgspec.structs.asdict(rules))
        self.rules[account_id] = rules

    async def clear_rules(self, account_id: UUID) -> None:
        async with self.writing() as connection:
            await queries.clear_rules(connection, account_id=account_id)
        self.rules.pop(account_id, None)

    async def last_update(self) -> int:
        async with self._readers.acquire() as connection:
            return int(await queries.last_update(connection))

    async def updates_after(self, number: int) -> list[tuple[str, FeedLine]]:
        """At most PAGE updates after this number in order, each with the profile of its order."""
        recent = self._recent.after(number)
        if recent is not None:
            return recent
        async with self._readers.acquire() as connection:
            rows = queries.updates_after(connection, number=number, page=PAGE)
            return [(row["profile"], _feed_line(row)) async for row in rows]

    async def last_key(self, account_id: UUID) -> LastKeyBody:
        async with self._readers.acquire() as connection:
            row = await queries.last_key(connection, account_id=account_id)
            return LastKeyBody(row["key_id"], row["received_at"]) if row else LastKeyBody(None, None)

    async def is_anything_due(self, now: datetime) -> bool:
        """Whether a working order has reached the end of its day or its auction."""
        async with self._readers.acquire() as connection:
            return bool(await queries.is_anything_due(connection, now=now))

    async def working_symbols(self, most: int) -> list[Symbol]:
        async with self._readers.acquire() as connection:
            return [row["symbol"] async for row in queries.working_symbols(connection, most=most)]

    async def summary(self) -> LedgerSummary:
        async with self._readers.acquire() as connection:
            return LedgerSummary(**await queries.summary(connection))

    async def _connect_writer(self) -> "asyncpg.Connection[asyncpg.Record]":
        connection = await asyncpg.connect(self._url, timeout=_OPEN_SECONDS, command_timeout=_TIMEOUT_SECONDS)
        try:
            await connection.execute(_SCHEMA.read_text(), timeout=_OPEN_SECONDS)
            try:
                await queries.become_the_only_writer(connection)
            except TimeoutError as trouble:
                raise LedgerInUse("another process writes this ledger") from trouble
            # A previous writer may have changed prices, faults and rules.
            self.prices = {
                row["symbol"]: Quote(row["price"], row["size"]) async for row in queries.set_prices(connection)
            }
            self.faults = {row["account_id"]: _faults(row) async for row in queries.all_faults(connection)}
            self.rules = {
                row["account_id"]: AccountRules(row["shorting"], row["any_tick"])
                async for row in queries.all_rules(connection)
            }
        except BaseException:
            connection.terminate()
            raise
        return connection


async def _keep_state(_: object) -> None:
    """Readers set nothing that outlives a transaction, so a released connection needs no reset."""


def _faults(row: asyncpg.Record) -> AccountFaults:
    faults = msgspec.json.decode(row["faults"], type=dict[str, int | float])
    return AccountFaults(row["seed"], faults, row["set_at"], plan_of(row["seed"], faults))


def _execution_id(order_number: int, ordinal: int) -> str:
    return f"{broker_order_id(order_number)}-{ordinal}"


def _execution(order_number: int, row: _Row) -> tuple[ExecutionBody, ...]:
    if row["ordinal"] is None:
        return ()
    execution = ExecutionBody(
        execution_id=_execution_id(order_number, row["ordinal"]),
        quantity=decimal_text(row["execution_quantity"]),
        price=decimal_text(row["price"]),
        fee=decimal_text(row["fee"]),
        executed_at=row["executed_at"],
    )
    return (execution,)


def _orders(rows: Iterable[asyncpg.Record]) -> list[LedgerOrderBody]:
    """The rows repeat the order for each execution."""
    executions: dict[int, tuple[ExecutionBody, ...]] = {}
    first_rows: dict[int, asyncpg.Record] = {}
    for row in rows:
        number = row["number"]
        first_rows.setdefault(number, row)
        executions[number] = executions.get(number, ()) + _execution(number, row)
    return [
        LedgerOrderBody(
            number=number,
            account_id=row["account_id"],
            executions=executions[number],
            changes=_changes(number, row["changes"]),
            **_facts(number, row),
        )
        for number, row in first_rows.items()
    ]


def _changes(order_number: int, listed: str | None) -> tuple[ChangeBody, ...]:
    changes = msgspec.json.decode(listed or "[]", type=list[tuple[int, int, str, str]])
    return tuple(
        ChangeBody(execution_id=_execution_id(order_number, ordinal), revision=revision, quantity=quantity, price=price)
        for ordinal, revision, quantity, price in changes
    )


def _facts(order_number: int, row: _Row) -> dict[str, Any]:
    return {
        "client_order_id": row["client_order_id"],
        "broker_order_id": broker_order_id(order_number),
        "symbol": row["symbol"],
        "side": OrderSide(row["order_side"]),
        "type": OrderType(row["order_type"]),
        "quantity": decimal_text(row["quantity"]),
        "limit_price": optional_text(row["limit_price"]),
        "stop_price": optional_text(row["stop_price"]),
        "time_in_force": TimeInForce(row["time_in_force"]),
        "terms_version": row["terms_version"],
        "accepted_at": row["accepted_at"],
        "status": ReportStatus(row["status"]),
        # The market marks orders without a stop price as triggered too.
        "triggered": row["triggered"] and row["stop_price"] is not None,
        "filled_quantity": decimal_text(row["filled_quantity"]),
    }


def _feed_line(row: _Row) -> FeedLine:
    number, revision = row["order_number"], row["revision"]
    reported = _execution(number, row)
    changes = tuple(
        ChangeBody(execution_id=change.execution_id, revision=revision, quantity=change.quantity, price=change.price)
        for change in reported
        if revision is not None
    )
    return FeedLine(
        number=row["number"],
        account_id=row["account_id"],
        report=ReportBody(executions=reported if revision is None else (), changes=changes, **_facts(number, row)),
    )

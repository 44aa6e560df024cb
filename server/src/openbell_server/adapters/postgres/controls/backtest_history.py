"""Reads events, commands with receipts, and refusals of an account page by page for a back-test."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.controls.backtest_entries import (
    OPEN_ELSEWHERE,
    adjusted,
    entry_of,
    external_order,
    order_at,
    order_of_event,
    refused_command,
)
from openbell_server.application.controls.ports.backtest_history import Stretch
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.backtest import Entry
from openbell_server.domain.controls.backtest_state import OrderSnapshot, PositionAdjusted, RecordedState
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.order_terms import EXACT, OrderSide

EVENTS_PER_PAGE: Final = 1_000
ROWS_PER_PAGE: Final = 2_000
# The database sorts the events of one query in memory.
EVENTS_PER_QUERY: Final = 10_000
_NOTHING: Final = Decimal(0)
_queries = named_queries.load("backtest_history")
_events = named_queries.load("events")
_intents = named_queries.load("intents")


@dataclass(slots=True)
class _StateBefore:
    """Collects the state before the first entry."""

    orders: dict[IntentId | str, OrderSnapshot] = field(default_factory=dict)
    # The newest snapshot of each order that changed since.
    last: dict[IntentId | str, OrderSnapshot] = field(default_factory=dict)
    # Our orders that were recorded before.
    older: set[UUID] = field(default_factory=set)
    # Symbols of external orders that changed since: their earlier filled quantity is not stored.
    unknown: set[Symbol] = field(default_factory=set)
    adjusted: list[PositionAdjusted] = field(default_factory=list)

    def positions(self, now: str) -> dict[Symbol, Decimal]:
        """The current positions (JSON) minus all fills and adjustments since."""
        positions = {Symbol(symbol): Decimal(quantity) for symbol, quantity in json.loads(now).items()}
        for key, last in self.last.items():
            filled_before = self.orders[key].filled_quantity if key in self.orders else _NOTHING
            change = EXACT.subtract(last.filled_quantity, filled_before)
            signed = change if last.order_side is OrderSide.BUY else -change
            positions[last.symbol] = EXACT.subtract(positions.get(last.symbol, _NOTHING), signed)
        for each in self.adjusted:
            positions[each.symbol] = EXACT.subtract(positions.get(each.symbol, _NOTHING), each.change)
        return positions


@dataclass(frozen=True, slots=True)
class PostgresHistoryStore:
    """Implements HistoryStore. Each page is its own transaction, so a back-test holds no locks for long."""

    pool: Pool

    async def now(self, account: TradingAccount) -> datetime:
        [current] = await self._rows(account, _queries.current_state)
        now: datetime = current["now"]
        return now

    async def forgotten_until(self, account: TradingAccount) -> datetime | None:
        [current] = await self._rows(account, _queries.current_state)
        forgotten: datetime | None = current["forgotten_until"]
        return forgotten

    async def stretch(self, account: TradingAccount, since: datetime, until: datetime, commands_max: int) -> Stretch:
        where = {"organization_id": account.organization_id, "account_id": account.id}
        [current] = await self._rows(account, _queries.current_state)
        async with transaction(self.pool, Role.TENANT, account.organization_id) as connection:

            async def numbers(statement: Any, head: int) -> range:  # noqa: ANN401 - aiosql statements are untyped
                first = await statement(connection, **where, moment=since, head=head)
                return range(first, await statement(connection, **where, moment=until, head=head))

            moments = [{**where, "moment": moment, "later_seconds": 0.0} for moment in (since, until)]
            # Skip actions that were recorded after the head was read.
            edges = [await _intents.first_number_since(connection, **moment) for moment in moments]
            actions = range(*(min(edge, current["action_no"] + 1) for edge in edges))
            events = await numbers(_events.first_event_since, current["event_no"])
            refusals = await numbers(_queries.first_refusal_since, current["refusal_no"])
            commands, fits_since = len(actions) + len(refusals), None
            if commands > commands_max:
                fits_since = await _queries.fits_since(
                    connection,
                    **where,
                    action_no=max(actions.start, actions.stop - commands_max // 2),
                    refusal_no=max(refusals.start, refusals.stop - commands_max // 2),
                )
        return Stretch(
            begins_at=since,
            events=events,
            refusals=refusals,
            commands=commands,
            fits_since=fits_since,
            is_whole=current["is_only_account"],
        )

    async def state_before(self, account: TradingAccount, stretch: Stretch) -> RecordedState:
        moment, found = stretch.begins_at, _StateBefore()
        [current] = await self._rows(account, _queries.current_state)
        head = current["event_no"]
        for after in range(stretch.events.start - 1, head, EVENTS_PER_QUERY):
            last = min(after + EVENTS_PER_QUERY, head)
            rows = await self._rows(account, _queries.last_order_events, after=after, last=last)
            for row in rows:
                order = order_of_event(row["kind"], row["intent_id"], row["body"])
                found.last[order.key] = order
                if row["known_at"] < moment and row["kind"] == EventKind.BROKER_ORDER:
                    found.older.add(row["intent_id"])
            rows = await self._rows(account, _queries.adjustments, after=after, last=last)
            found.adjusted += [adjusted(row["body"]) for row in rows]
        async for rows in self._pages(account, _queries.open_orders_before, "order_id", UUID(int=0), moment=moment):
            found.older.update(row["order_id"] for row in rows)
        older = sorted(found.older)
        for intent_ids in _slices(older):
            for row in await self._rows(account, _queries.orders_at, intent_ids=intent_ids, moment=moment):
                found.orders[row["order_id"]] = order_at(row)
        await self._add_external(account, moment, found)
        positions = None if current["positions_as_of"] is None else found.positions(current["positions"])
        state = RecordedState(found.orders.values(), positions, found.unknown)
        for intent_ids in _slices(older):
            for row in await self._rows(account, _queries.replaces_at, intent_ids=intent_ids, moment=moment):
                state.replacing(row["intent_id"], row["seq"], row["quantity"], row["limit_price"])
        return state

    async def entries(self, account: TradingAccount, stretch: Stretch) -> AsyncIterator[Sequence[Entry]]:
        refusals = self._refusals(account, stretch)
        refusal = await anext(refusals, None)
        page: list[Entry]
        async for rows in self._events(account, stretch):
            page = []
            for row in rows:
                # The times are comparable, because both were taken under the account's lock.
                while refusal is not None and refusal["created_at"] <= row["occurred_at"]:
                    _add(page, refused_command(refusal, account.environment))
                    refusal = await anext(refusals, None)
                _add(page, entry_of(row, account.environment))
            yield page
        page = []
        while refusal is not None:
            _add(page, refused_command(refusal, account.environment))
            refusal = await anext(refusals, None)
            if len(page) == EVENTS_PER_PAGE or refusal is None:
                yield page
                page = []

    async def _events(self, account: TradingAccount, stretch: Stretch) -> AsyncIterator[list[asyncpg.Record]]:
        """Pages of events; the next page is read while the caller evaluates one."""
        after, last = stretch.events.start - 1, stretch.events.stop - 1

        def read() -> asyncio.Task[list[asyncpg.Record]]:
            limits = {"after": after, "last": last, "row_limit": EVENTS_PER_PAGE}
            return asyncio.create_task(self._rows(account, _queries.read_events, **limits))

        reading = read()
        try:
            while after < last:
                rows = await reading
                after = rows[-1]["event_no"] if len(rows) == EVENTS_PER_PAGE else last
                if after < last:
                    reading = read()
                yield rows
        finally:
            reading.cancel()

    async def _refusals(self, account: TradingAccount, stretch: Stretch) -> AsyncIterator[asyncpg.Record]:
        first, last = stretch.refusals.start, stretch.refusals.stop - 1
        async for rows in self._pages(account, _queries.read_refusals, "refusal_no", first - 1, last=last):
            for row in rows:
                yield row

    async def _add_external(self, account: TradingAccount, moment: datetime, found: _StateBefore) -> None:
        async for rows in self._pages(account, _queries.external_orders_before, "broker_order_id", "", moment=moment):
            for row in rows:
                key, filled = row["broker_order_id"], row["filled_quantity"]
                is_changed_since = key in found.last
                if is_changed_since:
                    found.unknown.add(row["symbol"])
                found.orders[key] = external_order(
                    key,
                    row["symbol"],
                    row["order_side"],
                    row["quantity"],
                    row["limit_price"],
                    filled,
                    is_open=is_changed_since or row["status"] in OPEN_ELSEWHERE,
                )

    async def _rows(self, account: TradingAccount, statement: Any, **values: object) -> list[asyncpg.Record]:  # noqa: ANN401 - aiosql statements are untyped
        async with transaction(self.pool, Role.TENANT, account.organization_id) as connection:
            rows = statement(connection, organization_id=account.organization_id, account_id=account.id, **values)
            return [row async for row in rows]

    async def _pages(
        self,
        account: TradingAccount,
        statement: Any,  # noqa: ANN401 - aiosql statements are untyped
        key: str,
        after: object,
        **values: object,
    ) -> AsyncIterator[list[asyncpg.Record]]:
        """Pages of rows ordered by a key, beginning after a value of the key."""
        while True:
            rows = await self._rows(account, statement, row_limit=ROWS_PER_PAGE, **{f"after_{key}": after}, **values)
            yield rows
            if len(rows) < ROWS_PER_PAGE:
                return
            after = rows[-1][key]


def _add(page: list[Entry], entry: Entry | None) -> None:
    if entry is not None:
        page.append(entry)


def _slices(ids: list[UUID]) -> Iterator[list[UUID]]:
    for start in range(0, len(ids), ROWS_PER_PAGE):
        yield ids[start : start + ROWS_PER_PAGE]

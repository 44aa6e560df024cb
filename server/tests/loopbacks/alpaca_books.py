"""Reads the engine's ledger for Alpaca's loopback, and keeps beside it what the ledger forgets."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Final
from uuid import UUID

import asyncpg

from openbell_exchange.history import Fill, History, Member, Step
from openbell_exchange.terms import OrderSpec, OrderType, ReportStatus, TimeInForce

_TIMEOUT_SECONDS: Final = 5
# An order of the ledger shows its last terms only, and Alpaca shows the first ones for ever.
_SCHEMA: Final = """
create table if not exists alpaca_first_terms (
    account_id uuid not null,
    client_order_id text not null,
    quantity numeric not null,
    limit_price numeric,
    stop_price numeric,
    time_in_force text not null,
    primary key (account_id, client_order_id)
)
"""
_REMEMBER: Final = """
insert into alpaca_first_terms values ($1, $2, $3, $4, $5, $6)
on conflict (account_id, client_order_id) do update set
    quantity = excluded.quantity, limit_price = excluded.limit_price, stop_price = excluded.stop_price,
    time_in_force = excluded.time_in_force
"""
_NAMED: Final = """
select number, 0 as index from orders where account_id = $1 and client_order_id = $2 and profile = 'paper'
union all
select order_number, 1 + (
    select count(*) from replacements as earlier
    where earlier.order_number = r.order_number and earlier.replaced_at < r.replaced_at
)
from replacements as r where account_id = $1 and client_order_id = $2
"""
_ORDERS: Final = """
select
    number, orders.account_id, orders.client_order_id, symbol, order_side, order_type, accepted_at, status,
    coalesce(first.quantity, orders.quantity) as quantity,
    case when first is null then orders.limit_price else first.limit_price end as limit_price,
    case when first is null then orders.stop_price else first.stop_price end as stop_price,
    coalesce(first.time_in_force, orders.time_in_force) as time_in_force
from orders left join alpaca_first_terms as first
    on first.account_id = orders.account_id and first.client_order_id = orders.client_order_id
where number = any($1::bigint[]) order by number
"""
_REPLACEMENTS: Final = "select * from replacements where order_number = any($1::bigint[]) order by replaced_at"
_EXECUTIONS: Final = "select * from executions where order_number = any($1::bigint[]) order by ordinal"
_CHANGES: Final = "select * from execution_changes where order_number = any($1::bigint[]) order by revision"
_UPDATES: Final = "select * from updates where order_number = any($1::bigint[]) order by number"
_POSITION: Final = "select quantity from positions where account_id = $1 and symbol = $2"

_Rows = dict[int, list[asyncpg.Record]]


class Books:
    """All that Alpaca would know of its orders."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        """Use `books`."""
        self._pool = pool

    async def remember(self, account_id: UUID, client_order_id: str, spec: OrderSpec) -> None:
        """What a new order asks for, before it is known what becomes of it."""
        terms = (spec.quantity, spec.limit_price, spec.stop_price, spec.time_in_force)
        await self._pool.execute(_REMEMBER, account_id, client_order_id, *terms)

    async def named(self, account_id: UUID, client_order_id: str) -> tuple[int, int] | None:
        """The engine's number of the order, and the place in its chain, that bears this id."""
        row = await self._pool.fetchrow(_NAMED, account_id, client_order_id)
        return (row["number"], row["index"]) if row else None

    async def position(self, account_id: UUID, symbol: str) -> Decimal:
        """What the account has of a symbol now."""
        return Decimal(await self._pool.fetchval(_POSITION, account_id, symbol) or 0)

    async def history(self, number: int) -> History | None:
        """One order."""
        found = await self.histories([number])
        return found[0] if found else None

    async def histories(self, numbers: Iterable[int]) -> list[History]:
        """Those of the orders that there are, at one moment."""
        wanted = list(numbers)
        async with (
            self._pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            orders = await connection.fetch(_ORDERS, wanted)
            replacements, executions, changes, updates = [
                _by_order(await connection.fetch(sql, wanted))
                for sql in (_REPLACEMENTS, _EXECUTIONS, _CHANGES, _UPDATES)
            ]
        return [
            History(
                number=row["number"],
                account_id=row["account_id"],
                symbol=row["symbol"],
                side="buy" if row["order_side"] == "BUY" else "sell",
                order_type=OrderType(row["order_type"]),
                members=[
                    _member(row, "accepted_at"),
                    *(_member(replacement, "replaced_at") for replacement in replacements[row["number"]]),
                ],
                # One that was written into the ledger by hand has a state, and no way that led there.
                steps=[_step(update) for update in updates[row["number"]]]
                or [Step(0, row["accepted_at"], ReportStatus(row["status"]), None, None)],
                fills=[_fill(execution, changes[row["number"]]) for execution in executions[row["number"]]],
            )
            for row in orders
        ]


@asynccontextmanager
async def books(ledger_url: str) -> AsyncIterator[Books]:
    """The books in the engine's database."""
    pool = await asyncpg.create_pool(
        ledger_url, min_size=1, max_size=4, timeout=_TIMEOUT_SECONDS, command_timeout=_TIMEOUT_SECONDS
    )
    try:
        await pool.execute(_SCHEMA)
        yield Books(pool)
    finally:
        await asyncio.wait_for(pool.close(), _TIMEOUT_SECONDS)


def _by_order(rows: Iterable[asyncpg.Record]) -> _Rows:
    by_order: _Rows = defaultdict(list)
    for row in rows:
        by_order[row["order_number"]].append(row)
    return by_order


def _member(row: asyncpg.Record, began: str) -> Member:
    return Member(
        client_order_id=row["client_order_id"],
        began_at=row[began],
        total=row["quantity"],
        limit_price=row["limit_price"],
        stop_price=row["stop_price"],
        time_in_force=TimeInForce(row["time_in_force"]),
    )


def _step(row: asyncpg.Record) -> Step:
    return Step(
        number=row["number"],
        happened_at=row["happened_at"],
        status=ReportStatus(row["status"]),
        ordinal=row["execution_ordinal"],
        revision=row["revision"],
    )


def _fill(row: asyncpg.Record, changes: Iterable[asyncpg.Record]) -> Fill:
    return Fill(
        ordinal=row["ordinal"],
        quantity=row["quantity"],
        price=row["price"],
        executed_at=row["executed_at"],
        changes={c["revision"]: (c["quantity"], c["price"]) for c in changes if c["ordinal"] == row["ordinal"]},
    )

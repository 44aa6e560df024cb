"""A queue to fill and to look into, and a teller that does as it is told."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

import asyncpg

from openbell_server.adapters.postgres.connection import Connection, Pool, Role, transaction
from openbell_server.adapters.postgres.events.outbox import QUEUE_SQL, PostgresOutboxStore
from openbell_server.application.events.relay_outbox import Published, RelayOutbox
from openbell_server.domain.events.outbox import ClaimedRow, Queue
from support.brokers.execution_harness import Clock
from support.builders.tenant import a_tenant

# Long enough that no test waits for it by chance.
LONG_SECONDS = 3600.0
_FILL = {
    Queue.ACCOUNTS: "insert into account_outbox (organization_id, account_id, event_type, payload, available_at,"
    " created_at) select $1, $2, 'account.updated', json_build_object('account_id', $2::uuid, 'n', n)::text,"
    " now(), now() from generate_series(1, $3::integer) n order by n",
    Queue.INTENTS: "insert into intent_outbox (organization_id, account_id, slot, action_id, available_at, created_at)"
    " select $1, $2, 0, gen_random_uuid(), now(), now() from generate_series(1, $3::integer)",
    Queue.USERS: "insert into user_outbox (organization_id, event_type, payload, available_at, created_at)"
    " select $1, 'user.deleted', json_build_object('n', n, 'user_id', $2::uuid)::text, now(), now()"
    " from generate_series(1, $3::integer) n order by n",
}


@dataclass(frozen=True, slots=True)
class _OneLane:
    connection: Connection

    async def acquire(self, *, timeout: float) -> Connection:
        del timeout
        return self.connection

    async def release(self, connection: Connection) -> None:
        assert connection is self.connection


@asynccontextmanager
async def relay_store(login: Pool, queue: Queue) -> AsyncIterator[PostgresOutboxStore]:
    """A queue in the hands of a login that has the relay's role for this transaction only."""
    async with transaction(login, Role.RELAY) as connection:
        yield PostgresOutboxStore(cast("Pool", _OneLane(connection)), queue)


@dataclass(slots=True)
class ScriptedTeller:
    """Implements Publisher: remembers what it told, and misses what it is told to miss."""

    ready: bool = True
    # Whole accounts or users, or single rows.
    broken: set[str | int] = field(default_factory=set)
    told: list[ClaimedRow] = field(default_factory=list)
    before_answer: Callable[[], None] = lambda: None

    async def is_ready(self) -> bool:
        return self.ready

    async def publish(self, rows: Sequence[ClaimedRow], is_late: Callable[[], bool]) -> Published:
        del is_late
        confirmed: set[int] = set()
        missed: dict[str, int] = {}
        for row in rows:
            if row.in_order_of in missed:
                continue
            self.before_answer()
            if self.broken & {row.in_order_of, row.outbox_id}:
                missed[row.in_order_of] = row.outbox_id
            else:
                self.told.append(row)
                confirmed.add(row.outbox_id)
        return Published(frozenset(confirmed), frozenset(missed.values()))


@dataclass(frozen=True, slots=True)
class Outbox:
    """The queue under test, with what tests do to it."""

    pool: Pool
    queue: Queue = Queue.ACCOUNTS

    @property
    def store(self) -> PostgresOutboxStore:
        return PostgresOutboxStore(self.pool, self.queue)

    @property
    def table(self) -> str:
        return QUEUE_SQL[self.queue]["queue"]

    async def fill(self, rows: int) -> str:
        """Rows of an account or user of their own."""
        account = (await a_tenant(self.pool)).account
        await self.add(account.organization_id, account.id, rows)
        return str(account.id)

    async def add(self, organization_id: object, in_order_of: object, rows: int) -> None:
        await self.pool.execute(_FILL[self.queue], organization_id, in_order_of, rows)

    async def claim(self, limit: int = 100) -> list[ClaimedRow]:
        return await self.store.claim_across_organizations(limit)

    async def age(self, seconds: float) -> None:
        """As if every claim had been made so long ago; one that somebody is at this moment resolving is left alone.

        Whoever waited for such rows in an order of its own would wait in a circle.
        """
        await self.pool.execute(
            f"update {self.table} set claimed_at = clock_timestamp() - make_interval(secs => $1) where outbox_id in"
            f" (select outbox_id from {self.table} where status = 'processing' for update skip locked)",
            seconds,
        )

    async def make_due(self) -> None:
        """As if every wait were over."""
        await self.pool.execute(f"update {self.table} set available_at = created_at where resolved_at is null")

    async def now(self) -> datetime:
        """By the database's clock."""
        return cast("datetime", await self.pool.fetchval("select clock_timestamp()"))

    async def rows(self) -> list[asyncpg.Record]:
        return await self.pool.fetch(f"select * from {self.table} order by outbox_id")

    async def statuses(self) -> list[str]:
        return [row["status"] for row in await self.rows()]

    async def ids(self) -> list[int]:
        return [row["outbox_id"] for row in await self.rows()]

    def relay(self, teller: ScriptedTeller, clock: Clock | None = None, jitter: float = 1.0) -> RelayOutbox:
        return RelayOutbox(self.store, teller, lambda: jitter, clock or Clock())

"""Connections to PostgreSQL: one bounded pool per process, and the offset between our clock and the database's."""

import asyncio
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.domain.identifiers import uuid7

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 5.0
CLOCK_REFRESH_SECONDS = 60.0
# Nobody heard the end of the statement: it may have been committed.
DOUBTFUL = (
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    TimeoutError,
    OSError,
)
# What a caller may retry; the added ones are the database's own word that it wrote nothing.
UNAVAILABLE = (
    *DOUBTFUL,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TransactionRollbackError,
)
_queries = named_queries.load("connection")

if TYPE_CHECKING:
    Pool = asyncpg.Pool[asyncpg.Record]
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:  # generic in its stubs only
    Pool = asyncpg.Pool
    Connection = asyncpg.pool.PoolConnectionProxy


async def _keep(_: object) -> None:
    """Leave a released connection as it is: nothing here outlives its transaction, and a reset is a round trip."""


async def open_pool(url: str, *, connections_max: int = 10) -> Pool:
    """A pool on the platform's schema; connections are replaced before they grow old."""
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=connections_max,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        max_inactive_connection_lifetime=600.0,
        reset=_keep,
        server_settings={
            "search_path": "openbell, pg_catalog",
            "timezone": "UTC",
            "lock_timeout": "2s",
            "idle_in_transaction_session_timeout": "10s",
            # Every statement looks up by key: one plan fits all parameters, and planning anew costs more than running.
            "plan_cache_mode": "force_generic_plan",
            "jit": "off",
        },
    )


@dataclass(slots=True)
class DatabaseClock:
    """Makes UUIDv7 ids on the database's clock, by an offset that is read again every minute."""

    pool: Pool
    offset_millis: int = 0
    read_at: float = float("-inf")

    async def refresh(self) -> None:
        """Read the offset if it is old."""
        if time.monotonic() - self.read_at < CLOCK_REFRESH_SECONDS:
            return
        before = time.time_ns()
        database = await _queries.database_millis(self.pool)
        self.offset_millis = int(database) - (before + time.time_ns()) // 2_000_000
        self.read_at = time.monotonic()

    async def new_ids(self, count: int) -> list[UUID]:
        """Fresh ids."""
        await self.refresh()
        now = time.time_ns() // 1_000_000 + self.offset_millis
        return [uuid7(now, os.urandom(10)) for _ in range(count)]


async def ping(pool: Pool) -> None:
    """Fail unless the database answers within two seconds."""
    async with asyncio.timeout(2):
        await _queries.database_millis(pool)

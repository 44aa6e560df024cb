"""Connections to PostgreSQL: one bounded pool per process, transactions in a role, and the database's clock."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from openbell_server.adapters.postgres import named_queries
from openbell_server.domain.identifiers import uuid7

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 5.0
LOCK_SECONDS = 2
# One account whose lock is not free must not hold up a set of others for longer.
LANE_LOCK_MILLIS = 1000
# A plan that was made while tables were small is kept: it must be the one for when they are large.
LANE_PLANS: Final = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
ACCEPT_LANE: Final = {"lock_timeout": f"{LANE_LOCK_MILLIS}ms", **LANE_PLANS}
# A queue is read from its oldest row on, however few rows the planner takes it to have.
QUEUE_LANE: Final = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
ROLLBACK_SECONDS = 2.0
# After a switch of servers nobody stays connected to the old one for longer than this.
CONNECTION_AGE_SECONDS_MAX = 600.0
CLOCK_REFRESH_SECONDS = 1.0
# Nobody heard the end of the statement: it may have been committed.
DOUBTFUL = (
    asyncpg.InterfaceError,
    # What the driver says when the server's last word has come, and the end of the connection not yet, and when every
    # server that it reached is read-only.
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    TimeoutError,
    OSError,
)


class NoConnection(Exception):
    """There was none to be had, so nothing was begun; its cause says why."""


# Another has a lock that was needed, for longer than we wait.
BLOCKED = (asyncpg.LockNotAvailableError,)
# What a caller may retry; the added ones are the database's own word that it wrote nothing.
UNAVAILABLE = (
    *DOUBTFUL,
    asyncpg.InsufficientResourcesError,
    *BLOCKED,
    NoConnection,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TransactionRollbackError,
    # It was prepared before a migration; the next one is prepared anew.
    asyncpg.InvalidCachedStatementError,
)
# What keeps an operator's command, or a process that starts, from its database.
UNREACHABLE = (*UNAVAILABLE, asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
# What a statement for the newest schema meets on an older one.
OUTDATED = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedFunctionError)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_queries = named_queries.load("connection")

if TYPE_CHECKING:
    Pool = asyncpg.Pool[asyncpg.Record]
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:  # generic in its stubs only
    Pool = asyncpg.Pool
    Connection = asyncpg.pool.PoolConnectionProxy


def plainly(error: Exception) -> str:
    """What the server or the network said; an address that cannot be read may hold a password, and is not repeated."""
    cause = error.__cause__ if isinstance(error, NoConnection) else error
    said = str(cause) if isinstance(cause, OSError | asyncpg.PostgresError) else ""
    # A time-out has no words.
    return said or type(cause).__name__


class Role(StrEnum):
    """What a transaction may do; the login itself may do nothing."""

    # All of one organization, and nothing of any other.
    TENANT = "openbell_tenant"
    # The accept step, and nothing else.
    ACCEPT = "openbell_accept"
    KEYS = "openbell_keys"
    RELAY = "openbell_relay"
    # Counts the accounts' queue, and sees nothing of what its rows say.
    HEALTH = "openbell_health"
    EXECUTOR = "openbell_executor"
    # Reads sealed secrets; of all processes only executors have it.
    VAULT = "openbell_vault"
    # Lists organizations and changes one of them; no process has it.
    OPERATOR = "openbell_operator"


PROCESS_ROLES: Final = tuple(role for role in Role if role not in {Role.VAULT, Role.OPERATOR})
EXECUTOR_ROLES: Final = (*PROCESS_ROLES, Role.VAULT)


class _AgingConnection(asyncpg.Connection):
    __slots__ = ("opened_at",)

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - whatever the driver passes
        super().__init__(*arguments, **named)
        self.opened_at = time.monotonic()


async def _keep(_: object) -> None:
    """Leave a released connection as it is: nothing here outlives its transaction, and a reset is a round trip."""


async def open_pool(
    url: str, *, connections_max: int = 10, idle_seconds: int = 10, settings: Mapping[str, str] | None = None
) -> Pool:
    """A pool on the platform's schema, of connections to a server that can be written to.

    Whoever falls silent inside a transaction for longer than the idle seconds, or takes nothing the server sends,
    loses it, and its locks.
    """
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=connections_max,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        max_inactive_connection_lifetime=CONNECTION_AGE_SECONDS_MAX,
        connection_class=_AgingConnection,
        target_session_attrs=SessionAttribute.read_write,
        reset=_keep,
        server_settings={
            # Unnamed it would come first: a temporary table must never answer for one of ours.
            "search_path": "openbell, pg_catalog, pg_temp",
            "timezone": "UTC",
            "lock_timeout": f"{LOCK_SECONDS}s",
            "idle_in_transaction_session_timeout": f"{idle_seconds}s",
            "tcp_user_timeout": f"{idle_seconds}s",
            # Every statement looks up by key: one plan fits all parameters, and planning anew costs more than running.
            "plan_cache_mode": "force_generic_plan",
            "max_parallel_workers_per_gather": "0",
            "jit": "off",
            **(settings or {}),
        },
    )


async def open_lanes(url: str, role: Role, connections_max: int, settings: Mapping[str, str]) -> Pool:
    """A pool whose connections are in a role for good: a statement of theirs is a transaction by itself."""
    return await open_pool(url, connections_max=connections_max, settings={"role": role.value, **settings})


@contextlib.asynccontextmanager
async def transaction(
    pool: Pool, role: Role, organization_id: UUID | None = None, *, locked: UUID | None = None
) -> AsyncIterator[Connection]:
    """A transaction in a role, for one organization: the database lets it see and write no other's rows.

    Role and organization end with the transaction, as does the lock of an account of theirs. A connection whose state
    is in doubt is not used again.
    """
    async with kept_whole(pool) as connection:
        # One message, so that naming role and organization costs no round trip of its own. It takes no parameters;
        # the digits of a UUID cannot be anything else.
        named = organization_id.hex if organization_id else ""
        begin = f"begin; set local role {role}; select set_config('openbell.organization_id', '{named}', true)"
        if locked is not None:
            # A statement of its own in there: whatever is read after it is as the lock's last holder left it.
            begin += (
                f"; select from account_counters where organization_id = '{named}' and account_id = '{locked.hex}'"
                " for no key update"
            )
        ended = await connection.execute(begin)
        assert locked is None or ended == "SELECT 1", "the organization has no such account: nothing is locked"
        yield connection
        ended = await connection.execute("commit")
        assert ended == "COMMIT", "a statement had failed and nobody said so: nothing was committed"


@contextlib.asynccontextmanager
async def kept_whole(pool: Pool) -> AsyncIterator[Connection]:
    """A connection of the pool, which does not come back to it with its state in doubt."""
    try:
        connection = await pool.acquire(timeout=CONNECT_SECONDS)
    except DOUBTFUL as error:
        raise NoConnection from error
    try:
        try:
            yield connection
        except asyncpg.ReadOnlySQLTransactionError:
            # The server was demoted, and every other connection of the pool leads to it as well.
            await pool.expire_connections()
            _drop(connection)
            raise
        except (*DOUBTFUL, asyncio.CancelledError):
            _drop(connection)
            raise
        except BaseException:
            await _roll_back(connection)
            raise
        # The proxy passes on what our own class of connection has; its type does not say so.
        if time.monotonic() - connection.opened_at > CONNECTION_AGE_SECONDS_MAX:  # type: ignore[attr-defined]
            await connection.close(timeout=ROLLBACK_SECONDS)
    finally:
        await pool.release(connection)


async def _roll_back(connection: Connection) -> None:
    try:
        await connection.execute("rollback", timeout=ROLLBACK_SECONDS)
    except BaseException:
        _drop(connection)
        raise


def _drop(connection: Connection) -> None:
    # One that the server has closed is no longer ours to end, and that must not hide what happened.
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


@dataclass(slots=True)
class DatabaseClock:
    """The database's clock, read again every second; it makes UUIDv7 ids."""

    pool: Pool
    # What it showed, in microseconds, and our own clock when we had heard it.
    _shown: int = 0
    _heard_at: float = float("-inf")
    _reading: asyncio.Future[None] | None = None

    async def now(self) -> datetime:
        """What the database's clock shows, or showed a moment ago; never what it will show."""
        return _EPOCH + timedelta(microseconds=await self._micros())

    async def new_ids(self, count: int) -> list[UUID]:
        """Fresh ids."""
        millis = await self._micros() // 1000
        chance = os.urandom(10 * count)
        return [uuid7(millis, chance[start : start + 10]) for start in range(0, 10 * count, 10)]

    async def _micros(self) -> int:
        if time.monotonic() - self._heard_at > CLOCK_REFRESH_SECONDS:
            # Whoever finds it old at the same time waits for one reading.
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read())
            await asyncio.shield(self._reading)
        return self._shown + int((time.monotonic() - self._heard_at) * 1_000_000)

    async def _read(self) -> None:
        try:
            self._shown = await _queries.database_micros(self.pool)
            self._heard_at = time.monotonic()
        finally:
            self._reading = None


async def check_writing(pool: Pool) -> None:
    """Fail unless the database takes a write within two seconds: one that only answers is not ready."""
    async with asyncio.timeout(2), transaction(pool, Role.TENANT) as connection:
        await _queries.check_writing(connection)

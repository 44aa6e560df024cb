"""Connects to PostgreSQL: bounded pools, transactions in a role, and the database's clock."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.keeping_pool import KeepingPool
from openbell_server.domain.identifiers import uuid7

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 5.0
LOCK_SECONDS = 2
# A batch of commands waits at most this long for one locked account, so that the other accounts go on.
ACCEPT_LOCK_MILLIS = 1000
# Plans are cached. One that was made while tables were small must also be good when they are large.
INDEX_PLANS: Final = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
ACCEPT_POOL_SETTINGS: Final = {"lock_timeout": f"{ACCEPT_LOCK_MILLIS}ms", **INDEX_PLANS}
# A queue is read by index from its oldest row, however few rows the planner expects.
RELAY_POOL_SETTINGS: Final = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
ROLLBACK_SECONDS = 2.0
# After a failover, connections to the old server are closed within this time.
CONNECTION_AGE_SECONDS_MAX = 600.0
CLOCK_REFRESH_SECONDS = 1.0
# The end of the statement was not received: it may have been committed.
DOUBTFUL = (
    asyncpg.InterfaceError,
    # The driver raises it when the server's last message arrived before the connection closed, and when every server
    # that it reached is read-only.
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    TimeoutError,
    OSError,
)


class NoConnection(Exception):
    """The pool had no connection, so nothing was started; `__cause__` has the reason."""


# Another transaction held a needed lock for longer than lock_timeout.
BLOCKED = (asyncpg.LockNotAvailableError,)
# Errors that a caller may retry. With those added to DOUBTFUL, the database reports that it wrote nothing.
UNAVAILABLE = (
    *DOUBTFUL,
    asyncpg.InsufficientResourcesError,
    *BLOCKED,
    NoConnection,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TransactionRollbackError,
    # The statement was prepared before a migration; the driver prepares it again.
    asyncpg.InvalidCachedStatementError,
)
# Errors that stop an operator's command, or a process at its start.
UNREACHABLE = (*UNAVAILABLE, asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
# PostgreSQL raises these for a statement that needs a newer schema.
OUTDATED = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedFunctionError)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_queries = named_queries.load("connection")

if TYPE_CHECKING:
    Pool = asyncpg.Pool[asyncpg.Record]
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:  # generic in its stubs only
    Pool = asyncpg.Pool
    Connection = asyncpg.pool.PoolConnectionProxy


def describe_error(error: Exception) -> str:
    """The message of the server or the network. Other messages are left out: they may quote a password."""
    cause = error.__cause__ if isinstance(error, NoConnection) else error
    message = str(cause) if isinstance(cause, OSError | asyncpg.PostgresError) else ""
    # A timeout has no message.
    return message or type(cause).__name__


class Role(StrEnum):
    """The rights of a transaction; the login itself has none."""

    # Reads one organization's accounts, orders and events.
    READER = "openbell_reader"
    # These three also write for that organization: what callers manage, what brokers did, what was delivered.
    TENANT = "openbell_tenant"
    EXECUTION = "openbell_execution"
    DELIVERY = "openbell_delivery"
    # Runs only the accept step.
    ACCEPT = "openbell_accept"
    KEYS = "openbell_keys"
    RELAY = "openbell_relay"
    # Counts what waits, failed or was halted.
    HEALTH = "openbell_health"
    EXECUTOR = "openbell_executor"
    # Reads sealed secrets; only executors have it.
    VAULT = "openbell_vault"
    # Keeps the sessions of the console, and reads no other table.
    CONSOLE = "openbell_console"
    # Lists and changes organizations; no process has it.
    OPERATOR = "openbell_operator"


# Each kind of process has a login of its own, which may take these roles and no other. The operator's login is for
# people; the one that owns the schema migrates.
LOGIN_ROLES: Final[Mapping[str, tuple[Role, ...]]] = {
    "api": (Role.READER, Role.TENANT, Role.ACCEPT, Role.KEYS, Role.HEALTH),
    "stream": (Role.READER, Role.KEYS),
    "relay": (Role.READER, Role.DELIVERY, Role.RELAY, Role.HEALTH),
    "executor": (Role.READER, Role.EXECUTION, Role.ACCEPT, Role.EXECUTOR, Role.HEALTH, Role.VAULT),
    # Two parts in one process each, for small installations.
    "front": (Role.READER, Role.TENANT, Role.ACCEPT, Role.KEYS, Role.HEALTH),
    "back": (
        *(Role.READER, Role.DELIVERY, Role.RELAY, Role.EXECUTION, Role.ACCEPT, Role.EXECUTOR, Role.HEALTH),
        Role.VAULT,
    ),
    "console": (Role.CONSOLE,),
    "operator": (Role.EXECUTOR, Role.OPERATOR),
}


class _AgingConnection(asyncpg.Connection):
    __slots__ = ("opened_at",)

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - the driver's arguments
        super().__init__(*arguments, **named)
        self.opened_at = time.monotonic()


async def _no_reset(_: object) -> None:
    """Skip the reset of a released connection: our settings end with the transaction, and a reset is a round trip."""


async def open_pool(
    url: str,
    *,
    connections_max: int = 10,
    idle_seconds: int = 10,
    settings: Mapping[str, str] | None = None,
    pool_class: Callable[..., Any] = asyncpg.create_pool,
) -> Pool:
    """A pool of connections to a writable server.

    The server ends a transaction, and releases its locks, if its client sends or receives nothing for `idle_seconds`.
    """
    opened: Pool = await pool_class(
        url,
        min_size=1,
        max_size=connections_max,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        max_inactive_connection_lifetime=CONNECTION_AGE_SECONDS_MAX,
        connection_class=_AgingConnection,
        target_session_attrs=SessionAttribute.read_write,
        reset=_no_reset,
        server_settings={
            # pg_temp would be searched first if it were not listed: a temporary table must not hide one of ours.
            "search_path": "openbell, pg_catalog, pg_temp",
            "timezone": "UTC",
            "lock_timeout": f"{LOCK_SECONDS}s",
            "idle_in_transaction_session_timeout": f"{idle_seconds}s",
            "tcp_user_timeout": f"{idle_seconds}s",
            # Every statement looks up by key, so one plan fits all parameters; planning costs more than running.
            "plan_cache_mode": "force_generic_plan",
            "max_parallel_workers_per_gather": "0",
            "jit": "off",
            **(settings or {}),
        },
    )
    return opened


async def open_role_pool(url: str, role: Role, connections_max: int, settings: Mapping[str, str]) -> Pool:
    """A pool whose connections always have the role, so that a single statement needs no transaction around it."""
    settings = {"role": role.value, **settings}
    return await open_pool(url, connections_max=connections_max, settings=settings, pool_class=KeepingPool)


@contextlib.asynccontextmanager
async def transaction(
    pool: Pool, role: Role, organization_id: UUID | None = None, *, locked: UUID | None = None
) -> AsyncIterator[Connection]:
    """A transaction in a role, for one organization: row security hides the rows of all others.

    With `locked`, it takes that account's lock first. Role, organization and lock end with the transaction.
    A connection whose state is in doubt is not used again.
    """
    async with acquire_clean(pool) as connection:
        # One message saves a round trip. It cannot have parameters; the hex digits of a UUID are safe to insert.
        named = organization_id.hex if organization_id else ""
        begin = f"begin; set local role {role}; select set_config('openbell.organization_id', '{named}', true)"
        if locked is not None:
            # A separate statement: later statements see what the lock's last holder committed.
            begin += (
                f"; select from account_counters where organization_id = '{named}' and account_id = '{locked.hex}'"
                " for no key update"
            )
        ended = await connection.execute(begin)
        assert locked is None or ended == "SELECT 1", "the organization has no such account: nothing is locked"
        yield connection
        ended = await connection.execute("commit")
        assert ended == "COMMIT", "a statement failed and its error was ignored: nothing was committed"


async def act_as(connection: Connection, role: Role) -> None:
    """Take another role of the login for the next statements of the transaction."""
    await connection.execute(f"set local role {role}")


@contextlib.asynccontextmanager
async def acquire_clean(pool: Pool) -> AsyncIterator[Connection]:
    """A connection of the pool; it is closed instead of reused if its state is in doubt."""
    keeping = pool if isinstance(pool, KeepingPool) else None
    connection = None if keeping is None else await keeping.take()
    if connection is None:
        connection = await _acquire(pool, keeping)
    try:
        try:
            yield connection
        except asyncpg.ReadOnlySQLTransactionError:
            # The server was demoted, and every other connection of the pool is to the same server.
            await pool.expire_connections()
            _drop(connection)
            raise
        except (*DOUBTFUL, asyncio.CancelledError):
            _drop(connection)
            raise
        except BaseException:
            await _roll_back(connection)
            raise
        # The proxy forwards attributes of our connection class, which its type does not show.
        if time.monotonic() - connection.opened_at > CONNECTION_AGE_SECONDS_MAX:  # type: ignore[attr-defined]
            await connection.close(timeout=ROLLBACK_SECONDS)
    finally:
        if keeping is None or not keeping.keep(connection):
            await pool.release(connection)


async def _acquire(pool: Pool, keeping: KeepingPool | None) -> Connection:
    if keeping is not None:
        keeping.waiting += 1
    try:
        return await pool.acquire(timeout=CONNECT_SECONDS)
    except DOUBTFUL as error:
        raise NoConnection from error
    finally:
        if keeping is not None:
            keeping.waiting -= 1


async def _roll_back(connection: Connection) -> None:
    try:
        await connection.execute("rollback", timeout=ROLLBACK_SECONDS)
    except BaseException:
        _drop(connection)
        raise


def _drop(connection: Connection) -> None:
    # terminate() fails on a connection that the server has closed, and must not hide the first error.
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


@dataclass(frozen=True, slots=True)
class PostgresStore:
    """A store on a pool. Each of these methods runs one statement in its own transaction.

    The organization that a statement names is the only one that its transaction sees. A statement that crosses
    organizations runs in a role instead.
    """

    # For the statements that name an organization.
    role: ClassVar[Role] = Role.TENANT

    pool: Pool
    # Connections that always have the executor's role, so that its statements need no transaction around them.
    executor_pool: Pool | None = field(default=None, kw_only=True)
    # The same for the relay's role.
    relay_pool: Pool | None = field(default=None, kw_only=True)

    async def _one(
        self, statement: Callable[..., Any], organization_id: UUID, account_id: UUID | None = None, **values: object
    ) -> Any:  # noqa: ANN401 - a row, a value or a status
        async with transaction(self.pool, self.role, organization_id) as connection:
            return await statement(connection, **_where(organization_id, account_id), **values)

    async def _rows(
        self, statement: Callable[..., Any], organization_id: UUID, account_id: UUID | None = None, **values: object
    ) -> list[asyncpg.Record]:
        async with transaction(self.pool, self.role, organization_id) as connection:
            return [row async for row in statement(connection, **_where(organization_id, account_id), **values)]

    async def _one_across(self, role: Role, statement: Callable[..., Any], **values: object) -> Any:  # noqa: ANN401 - a row, a value or a status
        async with self._crossing(role) as connection:
            return await statement(connection, **values)

    async def _rows_across(self, role: Role, statement: Callable[..., Any], **values: object) -> list[asyncpg.Record]:
        async with self._crossing(role) as connection:
            return [row async for row in statement(connection, **values)]

    def _crossing(self, role: Role) -> contextlib.AbstractAsyncContextManager[Connection]:
        always = {Role.EXECUTOR: self.executor_pool, Role.RELAY: self.relay_pool}.get(role)
        return transaction(self.pool, role) if always is None else acquire_clean(always)


def _where(organization_id: UUID, account_id: UUID | None) -> dict[str, UUID]:
    where = {"organization_id": organization_id}
    return where if account_id is None else where | {"account_id": account_id}


@dataclass(slots=True)
class DatabaseClock:
    """The database's clock, read every second; it also creates UUIDv7 ids."""

    pool: Pool
    # The database's time in microseconds, and our monotonic clock when the answer arrived.
    _database_micros: int = 0
    _read_at: float = float("-inf")
    _reading: asyncio.Future[None] | None = None

    async def now(self) -> datetime:
        """The database's time, possibly late by one round trip, never early."""
        return _EPOCH + timedelta(microseconds=await self._micros())

    async def new_ids(self, count: int) -> list[UUID]:
        millis = await self._micros() // 1000
        chance = os.urandom(10 * count)
        return [uuid7(millis, chance[start : start + 10]) for start in range(0, 10 * count, 10)]

    async def _micros(self) -> int:
        if time.monotonic() - self._read_at > CLOCK_REFRESH_SECONDS:
            # Concurrent callers share one read.
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read())
            await asyncio.shield(self._reading)
        return self._database_micros + int((time.monotonic() - self._read_at) * 1_000_000)

    async def _read(self) -> None:
        try:
            self._database_micros = await _queries.database_micros(self.pool)
            self._read_at = time.monotonic()
        finally:
            self._reading = None


async def check_writing(pool: Pool) -> None:
    """Raise unless the database commits a write within two seconds; a read-only database is not ready."""
    async with asyncio.timeout(2), transaction(pool, Role.READER) as connection:
        await _queries.check_writing(connection)

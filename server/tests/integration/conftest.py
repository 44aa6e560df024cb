"""A database of its own for every test, cloned from a template that is migrated once per worker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from openbell_server.adapters.identity import jwks
from openbell_server.adapters.jetstream import connection as jetstream
from openbell_server.adapters.jetstream import streams
from openbell_server.adapters.postgres import connection
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.execution import ticks
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.brokers import http_client, http_connections
from openbell_server.brokers.paper import ledger
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.events.outbox import Queue
from openbell_server.processes import operations_port
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_tenant
from support.environment.logins import EXECUTOR_LOGIN, TEST_LOGIN, allow_every_login
from support.environment.store_benches import Bench, memory_bench, postgres_bench
from support.environment.tick_benches import TickBench, memory_tick_bench, postgres_tick_bench
from support.tenancy.outbox_queues import Outbox
from support.tenancy.populated_tenant import PopulatedTenant, populated_tenant
from support.tenancy.statements import Owner

TEMPLATE = "openbell_template"
# A machine may stand still for as long. What a limit does is a matter of tests that set it themselves, or that use the
# limits as they are.
PATIENCE_SECONDS = 60
LIMITS = {
    connection: ("CONNECT_SECONDS", "STATEMENT_SECONDS", "LOCK_SECONDS", "ROLLBACK_SECONDS"),
    jetstream: ("CONNECT_SECONDS",),
    streams: ("REQUEST_SECONDS",),
    http_client: ("DEADLINE_SECONDS",),
    http_connections: ("CONNECT_SECONDS",),
    ledger: ("_TIMEOUT_SECONDS",),
    operations_port: ("CHECK_SECONDS",),
    jwks: ("FETCH_SECONDS",),
}


LIMITS_AS_THEY_ARE = {(module, name): getattr(module, name) for module, names in LIMITS.items() for name in names}


@pytest.fixture(scope="session", autouse=True)
def patience() -> None:
    for module, name in LIMITS_AS_THEY_ARE:
        setattr(module, name, PATIENCE_SECONDS)


@pytest.fixture
def limits_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for (module, name), seconds in LIMITS_AS_THEY_ARE.items():
        monkeypatch.setattr(module, name, seconds)


async def administer(services: LocalServices, *statements: str) -> None:
    connection = await asyncpg.connect(services.postgres.url("postgres"), timeout=60)
    try:
        for statement in statements:
            await connection.execute(statement, timeout=60)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def template(services: LocalServices) -> str:
    # On servers that are reused, an earlier process may have made it.
    with contextlib.suppress(asyncpg.DuplicateDatabaseError):
        asyncio.run(administer(services, f"create database {TEMPLATE}"))
        migrate(services.postgres.url(TEMPLATE))
    return TEMPLATE


@pytest.fixture
async def database(services: LocalServices, template: str) -> str:
    """The URL of a fresh database."""
    await administer(
        services,
        "drop database if exists openbell_test with (force)",
        # Half the work of the default, which writes every block to the log.
        f"create database openbell_test template {template} strategy file_copy",
    )
    return services.postgres.url("openbell_test")


@pytest.fixture
async def empty(services: LocalServices) -> AsyncIterator[str]:
    """The URL of a database with nothing in it."""
    await administer(
        services,
        "drop database if exists openbell_empty with (force)",
        "create database openbell_empty strategy file_copy",
    )
    yield services.postgres.url("openbell_empty")
    await administer(services, "drop database openbell_empty with (force)")


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(database)
    yield opened
    await opened.close()


@pytest.fixture
async def harness(pool: Pool) -> Harness:
    return Harness(pool, await a_tenant(pool))


@pytest.fixture(params=["memory", "postgres"])
def pool_if_any(request: pytest.FixtureRequest) -> Pool | None:
    return request.getfixturevalue("pool") if request.param == "postgres" else None


@pytest.fixture
async def bench(pool_if_any: Pool | None) -> Bench:
    """An account on each of the two databases that execution can run on."""
    return await (postgres_bench(pool_if_any) if pool_if_any else memory_bench())


@pytest.fixture
async def tick_pool(database: str) -> AsyncIterator[Pool]:
    """As executors write ticks; of the owner, who may take their role."""
    opened = await ticks.open_tick_pool(database)
    yield opened
    await opened.close()


@pytest.fixture
def tick_pool_if_any(request: pytest.FixtureRequest, pool_if_any: Pool | None) -> Pool | None:
    return request.getfixturevalue("tick_pool") if pool_if_any else None


@pytest.fixture
async def tick_bench(pool_if_any: Pool | None, tick_pool_if_any: Pool | None) -> TickBench:
    """An account whose orders are written in ticks, on each of the two databases."""
    if pool_if_any and tick_pool_if_any:
        return await postgres_tick_bench(pool_if_any, tick_pool_if_any)
    return await memory_tick_bench()


@pytest.fixture
async def login_pool(services: LocalServices, database: str) -> AsyncIterator[Pool]:
    """As the platform's processes connect; the other pool is the owner's, which may see everything."""
    await asyncio.to_thread(allow_every_login, database)
    opened = await open_pool(services.postgres.url("openbell_test", TEST_LOGIN))
    yield opened
    await opened.close()


@pytest.fixture
async def executor_pool(services: LocalServices, database: str) -> AsyncIterator[Pool]:
    """As executors connect, who alone may read what is sealed."""
    await asyncio.to_thread(allow_every_login, database)
    opened = await open_pool(services.postgres.url("openbell_test", EXECUTOR_LOGIN))
    yield opened
    await opened.close()


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Owner]:
    connection = await asyncpg.connect(database, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})
    yield connection
    await connection.close()


@pytest.fixture(params=list(Queue))
def outbox(pool: Pool, request: pytest.FixtureRequest) -> Outbox:
    return Outbox(pool, request.param)


@pytest.fixture
async def us(login_pool: Pool) -> PopulatedTenant:
    return await populated_tenant(login_pool)


@pytest.fixture
async def them(login_pool: Pool, us: PopulatedTenant) -> PopulatedTenant:
    del us  # made first, so that the outbox row in somebody's hands is theirs
    return await populated_tenant(login_pool)

"""A transaction takes its role and organization with it when it ends, and no connection in doubt is used again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import asyncpg
import pytest

from openbell_server.adapters.postgres import connection as connection_module
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool, Role, check_writing, open_pool, transaction
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.identifiers import AccountId
from support.brokers.paper_broker import until
from support.builders.tenant import accept, new_id
from support.environment.logins import TEST_LOGIN
from support.rest.rest_api import rest_api
from support.tenancy.populated_tenant import PopulatedTenant
from support.tenancy.statements import Owner

ACCOUNTS = "select organization_id from accounts"


class State(NamedTuple):
    """A connection as it is taken from the pool."""

    pid: int
    role: str
    organization: str
    in_transaction: bool


CLEAN = (TEST_LOGIN, "", False)
WRITE = "update write_checks set written_at = 'epoch'"


async def state(pool: Pool) -> State:
    async with pool.acquire() as connection:
        in_transaction = connection.is_in_transaction()
        row = await connection.fetchrow(
            "select pg_backend_pid(), current_user, coalesce(current_setting('openbell.organization_id', true), '')"
        )
        assert row is not None
        return State(row[0], row[1], row[2], in_transaction)


async def run(pool: Pool, *statements: str, after: Exception | None = None, timeout: float | None = None) -> None:
    async with transaction(pool, Role.TENANT, new_id()) as connection:
        for statement in statements:
            await connection.execute(statement, timeout=timeout)
        if after is not None:
            raise after


@pytest.fixture
async def one(services: LocalServices, login_pool: Pool) -> AsyncIterator[Pool]:
    """A pool of one connection: whoever comes next gets what the last one left."""
    del login_pool  # makes the login
    opened = await open_pool(services.postgres.url("openbell_test", TEST_LOGIN), connections_max=1)
    yield opened
    await opened.close()


async def test_inside_a_transaction_role_and_organization_are_the_named_ones(one: Pool) -> None:
    organization = new_id()
    async with transaction(one, Role.TENANT, organization) as connection:
        row = await connection.fetchrow("select current_user, current_setting('openbell.organization_id')::uuid")
        assert row is not None
        assert tuple(row) == (Role.TENANT, organization)


async def test_role_and_organization_end_with_a_commit(one: Pool) -> None:
    before = await state(one)
    await run(one, "select 1")
    assert await state(one) == (before.pid, *CLEAN)


@pytest.mark.parametrize("statement", ["select 1", "select 1 / 0", "select 1 from no_such_table"])
async def test_an_exception_rolls_back_and_the_connection_is_used_again(one: Pool, statement: str) -> None:
    before = await state(one)
    with pytest.raises((LookupError, asyncpg.PostgresError)):
        await run(one, WRITE, statement, after=LookupError())
    assert await state(one) == (before.pid, *CLEAN)
    async with transaction(one, Role.TENANT) as connection:
        assert await connection.fetchval("select written_at > 'epoch' from write_checks")


@pytest.mark.parametrize("statement", ["select pg_sleep(0.5)", "select 1"])
async def test_a_cancelled_transaction_s_connection_is_not_used_again(owner: Owner, one: Pool, statement: str) -> None:
    before = await state(one)
    inside = asyncio.Event()

    async def work() -> None:
        async with transaction(one, Role.TENANT, new_id()) as connection:
            inside.set()
            await connection.execute(statement)
            await asyncio.sleep(30)

    task = asyncio.ensure_future(work())
    await inside.wait()
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    after = await state(one)
    assert after.pid != before.pid
    assert after[1:] == CLEAN

    async def is_gone() -> bool:
        left = await owner.fetchval("select count(*) from pg_stat_activity where pid = $1", before.pid)
        return bool(left == 0)

    await until(is_gone)


async def test_a_statement_that_took_too_long_costs_its_connection(one: Pool) -> None:
    before = await state(one)
    with pytest.raises(TimeoutError):
        await run(one, "select pg_sleep(0.5)", timeout=0.01)
    after = await state(one)
    assert after.pid != before.pid
    assert after[1:] == CLEAN


async def test_a_failure_that_nobody_told_of_is_not_taken_for_a_commit(one: Pool) -> None:
    before = await state(one)

    async def swallow() -> None:
        async with transaction(one, Role.TENANT, new_id()) as connection:
            with contextlib.suppress(asyncpg.DivisionByZeroError):
                await connection.execute("select 1 / 0")

    with pytest.raises(AssertionError, match="nothing was committed"):
        await swallow()
    assert await state(one) == (before.pid, *CLEAN)


async def test_what_is_not_an_organization_s_id_is_never_put_into_a_statement(one: Pool) -> None:
    hostile: Any = f"{new_id()}', true); set local role openbell_executor; select ('"
    with pytest.raises(AttributeError):
        async with transaction(one, Role.TENANT, hostile):
            pass
    assert (await state(one))[1:] == CLEAN


async def pids_of(pool: Pool, count: int) -> set[int]:
    """The connections of a pool, all taken at once."""
    taken = [await pool.acquire() for _ in range(count)]
    try:
        return {await connection.fetchval("select pg_backend_pid()") for connection in taken}
    finally:
        for connection in taken:
            await pool.release(connection)


async def test_a_server_that_says_it_is_read_only_loses_every_connection_of_the_pool(login_pool: Pool) -> None:
    before = await pids_of(login_pool, 3)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await run(login_pool, "set transaction read only", WRITE)
    assert len(before) == 3
    assert before & await pids_of(login_pool, 3) == set()


async def test_an_old_connection_is_replaced_after_its_transaction(one: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await state(one)
    monkeypatch.setattr(connection_module, "CONNECTION_AGE_SECONDS_MAX", -1.0)
    async with transaction(one, Role.TENANT) as connection:
        assert await connection.fetchval("select pg_backend_pid()") == before.pid
    assert (await state(one)).pid != before.pid


async def test_readiness_tells_whether_the_database_takes_a_write(owner: Owner, one: Pool) -> None:
    async with rest_api(one) as api:

        async def ready() -> int:
            return (await api.client.get("/healthz")).status_code

        assert await ready() == 200
        # As a demoted server is: open connections turn read-only, and new ones are.
        await one.execute("set default_transaction_read_only = on")
        await owner.execute("alter database openbell_test set default_transaction_read_only = on")
        try:
            assert [await ready(), await ready()] == [503, 503]
            with pytest.raises(UNAVAILABLE):
                await check_writing(one)
        finally:
            await owner.execute("alter database openbell_test reset default_transaction_read_only")
        assert await ready() == 200
        await check_writing(one)


async def test_a_plan_made_for_one_role_and_organization_never_serves_another(
    owner: Owner, one: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    everyone = {row[0] for row in await owner.fetch(ACCOUNTS)}
    own = ({us.organization_id}, {them.organization_id})
    assert everyone == own[0] | own[1]

    async def seen(role: Role, neighbour: PopulatedTenant | None, query: str) -> set[Any]:
        async with transaction(one, role, neighbour.organization_id if neighbour else None) as connection:
            return {row[0] for row in await connection.fetch(query)}

    for query in (ACCOUNTS, "select distinct organization_id from tracked_actions"):
        for _ in range(8):
            assert await seen(Role.TENANT, us, query) == own[0]
            assert await seen(Role.TENANT, them, query) == own[1]
            assert await seen(Role.TENANT, None, query) == set()
            if query == ACCOUNTS:
                assert await seen(Role.EXECUTOR, None, query) == everyone
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await seen(Role.KEYS, us, query)
    prepared = await one.fetch("select statement, generic_plans, custom_plans from pg_prepared_statements")
    plans = {row["statement"]: (row["generic_plans"] >= 24, row["custom_plans"]) for row in prepared}
    assert plans[ACCOUNTS] == (True, 0), "the same prepared statement was to serve all of them"


@pytest.mark.parametrize("named", ["", " ", "garbage", "null", "{}"])
async def test_a_setting_that_is_no_organization_shows_nothing(one: Pool, us: PopulatedTenant, named: str) -> None:
    del us
    try:
        async with transaction(one, Role.TENANT) as connection:
            await connection.execute("select set_config('openbell.organization_id', $1, true)", named)
            assert await connection.fetch(ACCOUNTS) == []
    except asyncpg.InvalidTextRepresentationError:
        pass


async def test_a_temporary_table_takes_no_real_one_s_place(one: Pool, us: PopulatedTenant) -> None:
    """One that a connection was left with must not answer for ours, neither to a statement nor to the accept step."""
    names = ("accounts", "organizations", "account_counters", "orders")
    async with one.acquire() as connection:
        for name in names:
            await connection.execute(f"create temp table {name} (organization_id uuid, account_id uuid)")
            await connection.execute(f"grant all on pg_temp.{name} to public")
    account = us.tenant.account
    assert await PostgresOrganizationStore(one).find_account(us.organization_id, account.id) == account
    (accepted,) = await accept(one, us.tenant.submission())
    assert accepted.status == "ACCEPTED"
    assert await PostgresOrganizationStore(one).find_account(us.organization_id, AccountId(new_id())) is None
    assert [await one.fetchval(f"select count(*) from pg_temp.{name}") for name in names] == [0] * 4

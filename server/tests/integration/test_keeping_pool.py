"""A role's pool keeps one connection at hand, and nothing that is not in order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import DOUBTFUL, Pool, Role, acquire_clean, open_role_pool
from support.brokers.paper_broker import until


@pytest.fixture
async def role_pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_role_pool(database, Role.EXECUTOR, 2, {})
    yield opened
    async with asyncio.timeout(60):
        await opened.close()


async def pid(pool: Pool) -> int:
    async with acquire_clean(pool) as connection:
        found: int = await connection.fetchval("select pg_backend_pid()")
        return found


async def test_one_after_the_other_use_the_same_connection_without_the_pool(
    role_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await pid(role_pool)
    assert role_pool.get_size() - role_pool.get_idle_size() == 0
    monkeypatch.setattr(asyncpg.Pool, "acquire", None)
    monkeypatch.setattr(asyncpg.Pool, "release", None)
    assert {await pid(role_pool) for _ in range(3)} == {first}
    monkeypatch.undo()


async def test_as_many_as_the_pool_has_use_it_at_once(role_pool: Pool) -> None:
    async with acquire_clean(role_pool) as one, acquire_clean(role_pool) as two:
        assert await one.fetchval("select pg_backend_pid()") != await two.fetchval("select pg_backend_pid()")
        waiting = asyncio.ensure_future(pid(role_pool))
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await waiting
    assert role_pool.get_size() - role_pool.get_idle_size() == 0


async def test_a_connection_that_the_server_closed_is_replaced(role_pool: Pool, pool: Pool) -> None:
    first = await pid(role_pool)
    await pool.execute("select pg_terminate_backend($1)", first)
    # The driver may not have noticed yet; then one statement fails.
    with contextlib.suppress(*DOUBTFUL):
        await pid(role_pool)
    assert await pid(role_pool) != first


async def test_connections_that_expired_are_replaced(role_pool: Pool) -> None:
    first = await pid(role_pool)
    await role_pool.expire_connections()
    assert await pid(role_pool) != first


async def test_a_connection_whose_state_is_in_doubt_is_not_kept(role_pool: Pool) -> None:
    first = await pid(role_pool)
    with pytest.raises(TimeoutError):
        async with acquire_clean(role_pool) as connection:
            await connection.execute("select pg_sleep(60)", timeout=0.05)
    assert await pid(role_pool) != first


async def test_a_pool_with_a_kept_connection_closes_at_once(database: str, pool: Pool) -> None:
    opened = await open_role_pool(database, Role.EXECUTOR, 2, {})
    last = await pid(opened)
    async with asyncio.timeout(60):
        await opened.close()
    await until(lambda: _is_gone(pool, last))


async def _is_gone(pool: Pool, process: int) -> bool:
    return not await pool.fetchval("select exists (select from pg_stat_activity where pid = $1)", process)

"""The counts of what was written before they were kept: each action once, whoever writes meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from builders import Tenant, a_cancel, a_tenant, accept
from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.domain.broker_orders import Refused, Unknown
from rest_api import problem, rest_api
from roll_ups import miscounted
from scripted_broker import Desk

BEFORE = "0011_replace_orders"


@pytest.fixture
async def older_pool(empty: str) -> AsyncIterator[Pool]:
    await asyncio.to_thread(migrate, empty, BEFORE)
    async with await open_pool(empty) as pool:
        yield pool


async def a_past(pool: Pool, tenant: Tenant) -> Desk:
    """Actions that were settled in several ways, one in doubt, and some that wait."""
    desk = Desk(pool, tenant)
    desk.broker.script.extend([Refused("no", "no"), Unknown("no answer")])
    for _ in range(5):
        await desk.accept()
    await desk.work()
    await desk.accept(a_cancel(await desk.accept()))
    await desk.work()
    for _ in range(7):
        await desk.accept()
    await pool.execute(
        "insert into receipts (organization_id, account_id, receipt_id, verdict, body, hash, created_at)"
        " values ($1, $2, gen_random_uuid(), 'REFUSED', '{}', sha256(''), clock_timestamp())",
        tenant.account.organization_id,
        tenant.account.id,
    )
    return desk


async def work(desk: Desk, free: int = 8) -> None:
    """As executors do: again, where a statement was prepared before the migration."""
    try:
        await desk.work(free=free)
    except UNAVAILABLE:
        await desk.work(free=free)


async def test_what_was_written_before_is_counted_once(empty: str, older_pool: Pool) -> None:
    desks = [await a_past(older_pool, await a_tenant(older_pool)) for _ in range(3)]
    await asyncio.to_thread(migrate, empty)
    assert await miscounted(older_pool) == []
    assert await older_pool.fetchval("select sum(count) from intent_counts where span = 'EVER'") > 50
    for desk in desks:
        await work(desk)
        await desk.accept()
    assert await miscounted(older_pool) == []


async def test_nobody_is_counted_twice_or_not_at_all_who_writes_while_the_past_is_counted(
    empty: str, older_pool: Pool
) -> None:
    desks = [await a_past(older_pool, await a_tenant(older_pool)) for _ in range(4)]
    migrated = asyncio.Event()

    async def write(desk: Desk) -> int:
        turns = 0
        while not migrated.is_set():
            await accept(older_pool, *(one.tenant.submission() for one in desks))
            await work(desk, free=3)
            turns += 1
        return turns

    async def a_new_account() -> None:
        while not migrated.is_set():
            desk = Desk(older_pool, await a_tenant(older_pool))
            await desk.accept()
            await work(desk)
            await desk.accept()

    writing = asyncio.gather(a_new_account(), *(write(desk) for desk in desks))
    try:
        await asyncio.wait_for(asyncio.to_thread(migrate, empty), 60)
    finally:
        migrated.set()
        turns = await writing
    assert all(done is None or done > 0 for done in turns)
    assert await miscounted(older_pool) == []


async def test_until_the_past_is_counted_there_are_no_statistics_and_lists_are_filtered_all_the_same(
    empty: str, older_pool: Pool
) -> None:
    tenant = await a_tenant(older_pool)
    await a_past(older_pool, tenant)
    async with rest_api(older_pool) as api:
        problem(await api.read(tenant, "/stats"), 503, "schema_outdated")
        for query in ({"symbol": "AAPL"}, {"action_type": "CREATE"}, {"created_after": "2026-01-01T00:00:00Z"}):
            assert len((await api.read(tenant, "", **query)).json()["data"]) > 10
        await asyncio.to_thread(migrate, empty)
        assert (await api.read(tenant, "/stats")).json()["actions"] == {"CREATE": 13, "REPLACE": 0, "CANCEL": 1}


async def test_a_revision_that_ended_half_way_is_taken_up_again(empty: str, older_pool: Pool) -> None:
    await a_past(older_pool, await a_tenant(older_pool))
    # A table stands where the revision ends with a view.
    await older_pool.execute("create table counted_intents (x integer)")
    with pytest.raises(Exception, match="counted_intents"):
        await asyncio.to_thread(migrate, empty)
    await a_past(older_pool, await a_tenant(older_pool))
    await older_pool.execute("drop table counted_intents")
    await asyncio.to_thread(migrate, empty)
    assert await miscounted(older_pool) == []

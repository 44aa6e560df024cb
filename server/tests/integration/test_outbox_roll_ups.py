"""What became of rows: the counts of completed rows are exactly those that are there, and failures are noted."""

import asyncio
from random import Random

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.events.outbox import QUEUE_SQL, PostgresOutboxStore
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.postgres.schema import OLDEST
from openbell_server.application.events.relay_outbox import RelayBatch
from openbell_server.domain.events.outbox import ATTEMPTS_MAX, Queue
from support.builders.tenant import a_tenant
from support.tenancy.outbox_queues import LONG_SECONDS, Outbox, ScriptedTeller

BUCKET = 16384
_COUNTED = """
select bucket, event_type, count, oldest_created_at, max_attempts, newest_resolved_at
from outbox_roll_ups where queue = $1 order by 1, 2
"""
_THERE = """
select outbox_id / 16384 as bucket, event_type, count(*), min(created_at), max(attempts), max(resolved_at)
from {} where status = 'completed' group by 1, 2 order by 1, 2
"""
_FAILURES = """
select outbox_id, organization_id, event_type, created_at, attempts, failed_at
from outbox_failures where queue = $1 order by 1
"""
_FAILED = """
select outbox_id, organization_id, event_type, created_at, attempts, resolved_at
from {} where status = 'failed' order by 1
"""


async def assert_exact(pool: Pool, queue: Queue) -> None:
    table = QUEUE_SQL[queue]["queue"]
    assert await rows(pool, _COUNTED, queue) == await rows(pool, _THERE.format(table))
    assert await rows(pool, _FAILURES, queue) == await rows(pool, _FAILED.format(table))


async def rows(pool: Pool, query: str, *values: object) -> list[tuple[object, ...]]:
    return [tuple(row) for row in await pool.fetch(query, *values)]


async def jump(outbox: Outbox, outbox_id: int) -> None:
    """Let the next row have this number."""
    await outbox.pool.execute(f"alter table {outbox.table} alter column outbox_id restart with {outbox_id}")


async def test_the_counts_say_what_is_there_whatever_happens_and_whoever_races(outbox: Outbox) -> None:
    random = Random(1)
    await jump(outbox, BUCKET - 60)
    store = PostgresOutboxStore(outbox.pool, outbox.queue, attempts_max=2)

    async def work() -> None:
        for _ in range(15):
            held = await store.claim_across_organizations(random.randrange(1, 20))
            done = [row for row in held if random.random() < 0.6]
            await store.complete_across_organizations(done)
            left = [row for row in held if row not in done]
            await store.release_across_organizations(left, [random.choice([0.0, None]) for _ in left])
            if random.random() < 0.2:
                await outbox.age(6)

    for _ in range(5):
        for _ in range(4):
            await outbox.fill(random.randrange(1, 12))
        await asyncio.gather(*(work() for _ in range(4)))
        await assert_exact(outbox.pool, outbox.queue)
    assert len(await rows(outbox.pool, _COUNTED, outbox.queue)) > 1
    assert await rows(outbox.pool, _FAILURES, outbox.queue)


async def test_completed_rows_are_removed_with_their_counts_once_they_are_old_and_failed_ones_stay(
    outbox: Outbox,
) -> None:
    await outbox.fill(3)
    ids = await outbox.ids()
    teller = ScriptedTeller(broken={ids[0]})
    for _ in range(ATTEMPTS_MAX + 1):
        await outbox.relay(teller)()
        await outbox.make_due()
    assert await outbox.store.prune_across_organizations(LONG_SECONDS) == 0
    assert await outbox.store.prune_across_organizations(0) == 2
    assert await outbox.statuses() == ["failed"]
    assert await rows(outbox.pool, _COUNTED, outbox.queue) == []
    await assert_exact(outbox.pool, outbox.queue)
    assert await outbox.store.prune_across_organizations(0) == 0


async def test_a_bucket_with_a_row_that_waits_is_left_and_the_next_one_is_removed(outbox: Outbox) -> None:
    await outbox.fill(1)
    await outbox.relay(ScriptedTeller())()
    await outbox.fill(1)
    (held,) = await outbox.claim()
    await jump(outbox, BUCKET)
    await outbox.fill(2)
    assert await outbox.relay(ScriptedTeller())() == RelayBatch(2, 2, 0)
    assert await outbox.store.prune_across_organizations(0) == 2
    assert await outbox.store.prune_across_organizations(0) == 0
    await assert_exact(outbox.pool, outbox.queue)
    assert await outbox.store.complete_across_organizations([held]) == 1
    assert await outbox.store.prune_across_organizations(0) == 2
    assert await outbox.rows() == []


async def test_removing_beside_relays_keeps_the_counts_exact(outbox: Outbox) -> None:
    stop = asyncio.Event()

    async def relay() -> None:
        for _ in range(20):
            await outbox.fill(3)
            await outbox.relay(ScriptedTeller())()

    async def prune() -> int:
        removed = 0
        while not stop.is_set():
            removed += await outbox.store.prune_across_organizations(0)
        return removed

    pruning = asyncio.ensure_future(prune())
    await asyncio.gather(*(relay() for _ in range(3)))
    await outbox.relay(ScriptedTeller())()
    stop.set()
    removed = await pruning
    await assert_exact(outbox.pool, outbox.queue)
    assert removed + len(await outbox.rows()) == 180


@pytest.mark.parametrize("change", ["status = 'pending', resolved_at = null", "attempts = 0"])
async def test_a_resolved_row_cannot_be_changed_by_anybody(outbox: Outbox, change: str) -> None:
    await outbox.fill(1)
    await outbox.relay(ScriptedTeller())()
    with pytest.raises(asyncpg.RaiseError, match="is changed no more"):
        await outbox.pool.execute(f"update {outbox.table} set {change}")


@pytest.mark.parametrize("queue", [Queue.INTENTS, Queue.USERS])
async def test_queues_are_drained_and_counted_on_the_schema_before_and_while_it_is_migrated(
    empty: str, queue: Queue
) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    async with await open_pool(empty) as pool:
        outbox = Outbox(pool, queue)
        owners = [await outbox.fill(4) for _ in range(3)]
        teller = ScriptedTeller(broken={owners[0]})
        for _ in range(ATTEMPTS_MAX):
            await outbox.relay(teller)()
            await outbox.make_due()
        stop = asyncio.Event()

        async def relay_on() -> None:
            tenant = (await a_tenant(pool)).account
            while not stop.is_set():
                await outbox.add(tenant.organization_id, tenant.id, 2)
                await outbox.relay(ScriptedTeller())()

        relaying = asyncio.ensure_future(relay_on())
        await asyncio.to_thread(migrate, empty)
        stop.set()
        await relaying
        await assert_exact(pool, queue)
        assert sorted(set(await outbox.statuses())) == ["completed", "failed"]

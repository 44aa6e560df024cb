"""Slot leases: every slot has one holder, the dead lose theirs, newcomers get a share, and the paused know it."""

import asyncio
import time
from uuid import UUID, uuid4

from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.execution.sign_ins import PostgresSessionStore
from openbell_server.adapters.postgres.execution.slot_leases import PostgresLeaseStore
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.application.execution.slot_leases import LEASE_SECONDS, SlotLeases, run_id
from openbell_server.domain.identifiers import SLOTS
from openbell_server.processes.executor import _Feeds, _renew_leases
from support.brokers.paper_broker import until

ALL = frozenset(range(SLOTS))


def an_executor(pool: Pool, name: str | None = None) -> SlotLeases:
    return SlotLeases(PostgresLeaseStore(pool), run_id(name, uuid4()) if name else uuid4(), time.monotonic)


async def expire(pool: Pool, executor: SlotLeases) -> None:
    """As if it had not renewed for long."""
    await pool.execute("update slot_leases set held_until = now() where holder = $1", executor.executor_id)
    await pool.execute(
        "update executors set seen_at = now() - interval '10 s' where executor_id = $1", executor.executor_id
    )


async def test_the_only_executor_holds_every_slot(pool: Pool) -> None:
    executor = an_executor(pool)
    assert executor.held() == frozenset()
    await executor.renew()
    assert executor.held() == ALL


async def test_a_newcomer_gets_its_share_and_no_slot_has_two_holders(pool: Pool) -> None:
    first, second, third = (an_executor(pool) for _ in range(3))
    for _ in range(4):
        for executor in (first, second, third):
            await executor.renew()
    held = [executor.held() for executor in (first, second, third)]
    assert frozenset.union(*held) == ALL
    assert sum(len(slots) for slots in held) == SLOTS
    assert max(len(slots) for slots in held) - min(len(slots) for slots in held) <= 2


async def test_the_slots_of_the_dead_are_taken(pool: Pool) -> None:
    dead, heir = an_executor(pool), an_executor(pool)
    await dead.renew()
    await heir.renew()
    assert heir.held() == frozenset()
    await expire(pool, dead)
    await heir.renew()
    assert heir.held() == ALL


async def test_a_drained_executor_leaves_its_slots_at_once(pool: Pool) -> None:
    leaving, heir = an_executor(pool), an_executor(pool)
    await leaving.renew()
    await leaving.release()
    assert leaving.held() == frozenset()
    await heir.renew()
    assert heir.held() == ALL


async def test_a_successor_of_the_same_name_takes_over_at_once(pool: Pool) -> None:
    await an_executor(pool, "one").renew()
    successor = an_executor(pool, "one")
    await successor.renew()
    assert successor.held() == ALL


async def two_runs_of_one_name(pool: Pool) -> tuple[SlotLeases, SlotLeases]:
    """A predecessor that still renews beside its successor."""
    predecessor, successor = an_executor(pool, "one"), an_executor(pool, "one")
    await predecessor.renew()
    for _ in range(3):
        await successor.renew()
        await predecessor.renew()
    assert (predecessor.held(), successor.held()) == (frozenset(), ALL)
    return predecessor, successor


async def test_a_predecessor_of_the_same_name_takes_nothing_along_when_it_leaves(pool: Pool) -> None:
    predecessor, successor = await two_runs_of_one_name(pool)
    await predecessor.release()
    assert await pool.fetchval("select count(*) from slot_leases where holder = $1", successor.executor_id) == SLOTS
    assert await pool.fetchval("select array_agg(executor_id) from executors") == [successor.executor_id]


async def test_of_two_with_the_same_name_the_earlier_works_again_when_the_later_left(pool: Pool) -> None:
    predecessor, successor = await two_runs_of_one_name(pool)
    await successor.release()
    await predecessor.renew()
    assert predecessor.held() == ALL


async def test_of_two_with_the_same_name_the_earlier_works_again_when_the_later_died(pool: Pool) -> None:
    predecessor, successor = await two_runs_of_one_name(pool)
    await expire(pool, successor)
    await predecessor.renew()
    assert predecessor.held() == ALL
    bystander = an_executor(pool, "another")
    for _ in range(3):
        for executor in (predecessor, successor, bystander):
            await executor.renew()
    held = [executor.held() for executor in (predecessor, successor, bystander)]
    assert frozenset.union(*held) == ALL
    assert sum(len(slots) for slots in held) == SLOTS


async def test_racing_runs_of_one_name_end_with_one_holder_for_every_slot(pool: Pool) -> None:
    for _ in range(10):
        runs = [an_executor(pool, "one") for _ in range(4)]
        await asyncio.gather(*(run.renew() for run in runs))
        for _ in range(3):
            for run in runs:
                await run.renew()
        held = [run.held() for run in runs]
        assert sum(len(slots) for slots in held) == len(frozenset.union(*held)) == SLOTS


async def test_an_executor_that_was_paused_holds_nothing_until_it_has_asked(pool: Pool) -> None:
    clock = [0.0]
    paused = SlotLeases(PostgresLeaseStore(pool), uuid4(), lambda: clock[0])
    await paused.renew()
    assert paused.held() == ALL
    clock[0] += LEASE_SECONDS
    assert paused.held() == frozenset()
    await expire(pool, paused)
    heir = an_executor(pool)
    await heir.renew()
    await paused.renew()
    assert paused.held().isdisjoint(heir.held())


async def test_racing_executors_never_hold_the_same_slot(pool: Pool) -> None:
    executors = [an_executor(pool) for _ in range(6)]
    for _ in range(5):
        await asyncio.gather(*(executor.renew() for executor in executors))
    held = [executor.held() for executor in executors]
    assert sum(len(slots) for slots in held) == len(frozenset.union(*held)) == SLOTS


async def test_whatever_goes_wrong_once_the_slots_are_held_again(pool: Pool) -> None:
    failures = [RuntimeError("nobody thought of this one")]

    class FailsOnce(PostgresLeaseStore):
        async def renew(self, executor_id: UUID, seconds: float) -> tuple[set[int], int]:
            if failures:
                raise failures.pop()
            return await super().renew(executor_id, seconds)

    executor = SlotLeases(FailsOnce(pool), uuid4(), time.monotonic)
    feeds = _Feeds(PostgresSessionStore(pool, DatabaseClock(pool)), executor, {}, frozenset)
    holding = asyncio.ensure_future(_renew_leases(executor, PostgresRecoveryStore(pool), feeds))

    async def holds_all() -> bool:
        return executor.held() == ALL

    try:
        await until(holds_all)
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)

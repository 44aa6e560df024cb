"""Slot leases: every slot has one holder, the dead lose theirs, newcomers get a share, and the paused know it."""

import asyncio
import time
from uuid import UUID, uuid4

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.leases import PostgresLeaseStore
from openbell_server.application.hold_slots import LEASE_SECONDS, HoldSlots
from openbell_server.domain.identifiers import SLOTS

ALL = frozenset(range(SLOTS))


def an_executor(pool: Pool, name: UUID | None = None) -> HoldSlots:
    return HoldSlots(PostgresLeaseStore(pool), name or uuid4(), time.monotonic)


async def expire(pool: Pool, executor: HoldSlots) -> None:
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
    name = uuid4()
    await an_executor(pool, name).renew()
    successor = an_executor(pool, name)
    await successor.renew()
    assert successor.held() == ALL


async def test_an_executor_that_was_paused_holds_nothing_until_it_has_asked(pool: Pool) -> None:
    clock = [0.0]
    paused = HoldSlots(PostgresLeaseStore(pool), uuid4(), lambda: clock[0])
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

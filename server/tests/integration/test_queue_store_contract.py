"""What the outbox and the leases do, on PostgreSQL and in the simulation's memory alike."""

from dataclasses import replace
from uuid import uuid4

from openbell_server.application.execution.slot_leases import run_id
from openbell_server.domain.events.outbox import ATTEMPTS_MAX
from openbell_server.domain.identifiers import SLOTS
from openbell_server.domain.orders.action_lifecycle import ActionState
from support.environment.store_benches import Bench

ALL_SLOTS = range(SLOTS)

# ---- the outbox


async def test_rows_are_claimed_once_and_in_order(bench: Bench) -> None:
    for _ in range(3):
        await bench.accept()
    rows = await bench.database.outbox.claim_across_organizations(9)
    assert [row.outbox_id for row in rows] == sorted(row.outbox_id for row in rows)
    assert {(row.attempts, row.in_order_of) for row in rows} == {(1, str(bench.account.account_id))}
    assert (len(rows), await bench.database.outbox.claim_across_organizations(9)) == (3, [])


async def test_a_row_is_completed_by_who_holds_it(bench: Bench) -> None:
    await bench.accept()
    outbox = bench.database.outbox
    (row,) = await outbox.claim_across_organizations(9)
    assert await outbox.complete_across_organizations([replace(row, claim_token=row.claim_token + 1)]) == 0
    assert await outbox.complete_across_organizations([row]) == 1
    assert await outbox.complete_across_organizations([row]) == 0


async def test_a_row_given_back_untried_is_as_if_never_claimed(bench: Bench) -> None:
    await bench.accept()
    outbox = bench.database.outbox
    (row,) = await outbox.claim_across_organizations(9)
    assert await outbox.release_across_organizations([row], [None]) == []
    (again,) = await outbox.claim_across_organizations(9)
    assert (again.attempts, again.claim_token) == (1, row.claim_token + 1)


async def test_a_row_given_back_waits_and_holds_up_those_after_it(bench: Bench) -> None:
    await bench.accept()
    outbox = bench.database.outbox
    rows = await outbox.claim_across_organizations(9)
    await outbox.release_across_organizations(rows, [3600.0])
    await bench.accept()
    assert await outbox.claim_across_organizations(9) == []


async def test_a_row_that_used_up_its_tries_is_failed_for_good(bench: Bench) -> None:
    await bench.accept()
    outbox = bench.database.outbox
    failed = []
    for _ in range(ATTEMPTS_MAX):
        rows = await outbox.claim_across_organizations(9)
        failed.append(await outbox.release_across_organizations(rows, [0.0]))
    assert [len(some) for some in failed] == [0] * (ATTEMPTS_MAX - 1) + [1]
    assert await outbox.claim_across_organizations(9) == []


async def test_a_waiting_row_is_completed_unclaimed_only_after_its_action_was_taken_up(bench: Bench) -> None:
    outbox = bench.database.outbox
    sent = await bench.accept()
    assert await outbox.complete_taken_up_across_organizations(9) == 0
    await bench.bring(sent, ActionState.DISPATCHING)
    queued = await bench.accept()
    assert await outbox.complete_taken_up_across_organizations(9) == 1
    assert await outbox.complete_taken_up_across_organizations(9) == 0
    assert len(await outbox.claim_across_organizations(9)) == 1
    await bench.bring(queued, ActionState.DISPATCHING)
    # A relay has claimed it, and completes it itself.
    assert await outbox.complete_taken_up_across_organizations(9) == 0


# ---- leases


async def test_slots_are_held_by_one_and_taken_when_released(bench: Bench) -> None:
    leases, first, second = bench.database.leases, uuid4(), uuid4()
    await leases.join(first)
    await leases.join(second)
    assert await leases.take(first, 60, SLOTS) == {*ALL_SLOTS}
    assert await leases.take(second, 60, SLOTS) == set()
    await leases.release(first, [3, 4])
    assert await leases.take(second, 60, SLOTS) == {3, 4}
    assert await leases.renew(first, 60) == ({*ALL_SLOTS} - {3, 4}, 2)


async def test_nobody_releases_the_slots_of_another(bench: Bench) -> None:
    leases, first, second = bench.database.leases, uuid4(), uuid4()
    await leases.join(first)
    await leases.take(first, 60, SLOTS)
    await leases.release(second, ALL_SLOTS)
    assert await leases.renew(first, 60) == ({*ALL_SLOTS}, 1)


async def test_a_lease_that_ran_out_is_anybodys(bench: Bench) -> None:
    leases, first, second = bench.database.leases, uuid4(), uuid4()
    await leases.join(first)
    await leases.take(first, 0, SLOTS)
    await leases.join(second)
    assert await leases.take(second, 60, 5) == {0, 1, 2, 3, 4}


async def test_a_successor_of_the_same_name_takes_over_and_the_predecessor_has_nothing(bench: Bench) -> None:
    leases = bench.database.leases
    old, new = run_id("one", uuid4()), run_id("one", uuid4())
    await leases.join(old)
    await leases.take(old, 60, SLOTS)
    await leases.join(new)
    assert await leases.take(new, 60, SLOTS) == {*ALL_SLOTS}
    assert await leases.renew(old, 60) == (set(), 0)


async def test_who_left_is_not_counted(bench: Bench) -> None:
    leases, first, second = bench.database.leases, uuid4(), uuid4()
    await leases.join(first)
    await leases.join(second)
    await leases.leave(second)
    assert (await leases.renew(first, 60))[1] == 1

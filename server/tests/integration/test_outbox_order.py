"""Rows of one account or user are told in order, whatever fails and whoever races; one row's trouble is no other's."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from openbell_server.adapters.postgres.connection import Role, transaction
from openbell_server.adapters.postgres.events.outbox import LOOK_AT_ROWS
from openbell_server.application.events.relay_outbox import Published, RelayBatch, RelayOutbox
from openbell_server.domain.events.outbox import ATTEMPTS_MAX, ClaimedRow
from support.brokers.execution_harness import Clock
from support.tenancy.outbox_queues import LONG_SECONDS, Outbox, ScriptedTeller
from support.tenancy.statements import run, statements


async def test_all_rows_of_a_busy_account_are_claimed_at_once_and_in_order(outbox: Outbox) -> None:
    await outbox.fill(40)
    await outbox.fill(1)
    assert [row.outbox_id for row in await outbox.claim(30)] == [*(await outbox.ids())[:29], (await outbox.ids())[40]]
    assert await outbox.claim() == []


async def test_nothing_behind_a_row_that_waits_is_claimed_but_others_go_on(outbox: Outbox) -> None:
    await outbox.fill(3)
    held = await outbox.claim()
    await outbox.store.release_across_organizations(held, [LONG_SECONDS, 0.0, 0.0])
    other = await outbox.fill(2)
    assert [row.in_order_of for row in await outbox.claim()] == [other] * 2
    await outbox.make_due()
    assert [row.outbox_id for row in await outbox.claim()] == [row.outbox_id for row in held]


async def test_rows_that_wait_hide_no_other_however_many_they_are(outbox: Outbox) -> None:
    near = await outbox.fill(1)
    await outbox.fill(LOOK_AT_ROWS + 5)
    far = await outbox.fill(1)
    held = await outbox.claim(2)
    await outbox.store.release_across_organizations(held, [0.0, LONG_SECONDS])
    assert [row.in_order_of for row in await outbox.claim()] == [near, far]


async def test_nothing_behind_a_row_in_other_hands_is_claimed(outbox: Outbox) -> None:
    await outbox.fill(2)
    (first,) = await outbox.claim(1)
    assert await outbox.claim() == []
    assert await outbox.store.complete_across_organizations([first]) == 1
    assert len(await outbox.claim()) == 1


@pytest.mark.parametrize(("locked", "claimed"), [(0, []), (2, [0, 1]), (4, [0, 1, 2, 3])])
async def test_a_row_that_another_locks_holds_back_those_after_it(
    outbox: Outbox, locked: int, claimed: list[int]
) -> None:
    await outbox.fill(5)
    ids = await outbox.ids()
    async with outbox.pool.acquire() as other, other.transaction():
        await other.execute(f"select 1 from {outbox.table} where outbox_id = $1 for update", ids[locked])
        assert [row.outbox_id for row in await outbox.claim()] == [ids[place] for place in claimed]


async def test_a_row_that_failed_for_good_holds_nobody_back(outbox: Outbox) -> None:
    await outbox.fill(3)
    ids = await outbox.ids()
    teller = ScriptedTeller(broken={ids[0]})
    for _ in range(ATTEMPTS_MAX):
        assert await outbox.statuses() == ["pending"] * 3
        batch = await outbox.relay(teller)()
        await outbox.make_due()
    assert batch == RelayBatch(3, 0, 3, (ids[0],))
    assert await outbox.relay(teller)() == RelayBatch(2, 2, 0)
    assert await outbox.statuses() == ["failed", "completed", "completed"]
    # Those behind it were not tried, so no try was counted.
    assert [row["attempts"] for row in await outbox.rows()] == [ATTEMPTS_MAX, 1, 1]


async def test_a_row_given_up_by_a_claim_holds_nobody_back_in_the_same_claim(outbox: Outbox) -> None:
    await outbox.fill(2)
    for _ in range(ATTEMPTS_MAX):
        await outbox.claim(1)
        await outbox.age(5)
    assert [row.outbox_id for row in await outbox.claim()] == (await outbox.ids())[1:]
    assert await outbox.statuses() == ["failed", "processing"]


async def test_every_tenth_row_is_poison_and_all_others_are_completed(outbox: Outbox) -> None:
    for _ in range(10):
        await outbox.fill(20)
    poison = {number for number in await outbox.ids() if number % 10 == 0}
    teller = ScriptedTeller(broken=set(poison))
    async with asyncio.timeout(60):
        while "pending" in await outbox.statuses():
            await outbox.relay(teller)()
            await outbox.make_due()
    rows = await outbox.rows()
    assert {row["outbox_id"] for row in rows if row["status"] == "failed"} == poison
    assert {row["status"] for row in rows if row["outbox_id"] not in poison} == {"completed"}
    assert sorted(row.outbox_id for row in teller.told) == sorted(set(await outbox.ids()) - poison)


@dataclass(slots=True)
class ShakyTeller(ScriptedTeller):
    """Misses some, at random, and lets others run meanwhile."""

    random: Random = field(default_factory=Random)
    heard: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    async def publish(self, rows: Sequence[ClaimedRow], is_late: Callable[[], bool]) -> Published:
        self.broken = {row.outbox_id for row in rows if self.random.random() < 0.1}
        await asyncio.sleep(self.random.random() / 200)
        before = len(self.told)
        answer = await ScriptedTeller.publish(self, rows, is_late)
        for row in self.told[before:]:
            self.heard[row.in_order_of].append(row.outbox_id)
        return answer


async def test_relays_that_race_tell_every_account_in_order_and_every_row_once(outbox: Outbox) -> None:
    owners = [await outbox.fill(40) for _ in range(5)]
    heard: dict[str, list[int]] = defaultdict(list)

    async def relay_all(seed: int) -> None:
        teller = ShakyTeller(random=Random(seed), heard=heard)
        relay = RelayOutbox(outbox.store, teller, lambda: 0.0, Clock())
        while await outbox.pool.fetchval(f"select exists (select 1 from {outbox.table} where resolved_at is null)"):
            await relay()

    async with asyncio.timeout(60):
        await asyncio.gather(*(relay_all(seed) for seed in range(4)))
    assert sorted(heard) == sorted(owners)
    assert all(numbers == sorted(set(numbers)) for numbers in heard.values())
    assert await outbox.statuses() == ["completed"] * 200


async def test_claiming_touches_no_index(outbox: Outbox) -> None:
    await outbox.fill(50)
    claim = next(each for each in statements("outbox") if each.name.startswith(f"{outbox.queue}_outbox.claim"))
    async with transaction(outbox.pool, Role.RELAY) as connection:
        await run(
            connection,
            claim,
            {"row_limit": 100, "look_at": 100, "attempts_max": ATTEMPTS_MAX, "head_start_seconds": 0.0},
        )
        counted = await connection.fetchrow(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relname = $1", outbox.table
        )
    assert counted is not None
    assert tuple(counted) == (50, 50)


async def test_what_cannot_be_finished_is_tried_again_and_holds_back_only_its_own(outbox: Outbox) -> None:
    first, second = [await outbox.fill(2) for _ in range(2)]
    broken = {(await outbox.ids())[1]}

    async def finish(rows: Sequence[ClaimedRow]) -> None:
        if broken & {row.outbox_id for row in rows}:
            raise ValueError

    teller = ScriptedTeller()
    relay = RelayOutbox(outbox.store, teller, lambda: 0.0, Clock(), finish)
    assert await relay() == RelayBatch(4, 3, 1)
    assert await outbox.statuses() == ["completed", "pending", "completed", "completed"]
    assert [row["attempts"] for row in await outbox.rows()] == [1] * 4
    broken.clear()
    assert await relay() == RelayBatch(1, 1, 0)
    assert [row.in_order_of for row in teller.told] == [first, first, second, second, first]

"""Claims on a queue: one holder at a time, a bounded number of tries, and a relay that knows when it is late."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain

import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.events.outbox import PostgresOutboxStore
from openbell_server.application.events.relay_outbox import RelayBatch, RelayOutbox
from openbell_server.domain.events.outbox import ATTEMPTS_MAX, HOLD_SECONDS, ClaimedRow, backoff_seconds
from support.brokers.execution_harness import Clock
from support.builders.tenant import a_tenant
from support.tenancy.outbox_queues import LONG_SECONDS, Outbox, ScriptedTeller
from support.tenancy.statements import run, statements


@dataclass(frozen=True, slots=True)
class SlowStore(PostgresOutboxStore):
    """A store on whose claims the relay's clock goes on."""

    clock: Clock = field(default_factory=Clock)
    claim_seconds: float = 0.0

    async def claim_across_organizations(self, limit: int) -> list[ClaimedRow]:
        rows = await PostgresOutboxStore(self.pool, self.queue).claim_across_organizations(limit)
        self.clock.seconds += self.claim_seconds
        return rows


async def test_a_claimed_row_is_not_handed_out_again_within_five_seconds(outbox: Outbox) -> None:
    await outbox.fill(3)
    assert len(await outbox.claim()) == 3
    in_time = False
    async with asyncio.timeout(60):
        while not in_time:
            await outbox.age(4)
            aged = min(row["claimed_at"] for row in await outbox.rows())
            again = await outbox.claim()
            # On a machine that stood still meanwhile the claims did run out, and the try says nothing.
            in_time = await outbox.now() - aged < timedelta(seconds=5)
    assert again == []


async def test_a_claim_older_than_five_seconds_is_taken_back_with_a_new_token(outbox: Outbox) -> None:
    await outbox.fill(2)
    first = await outbox.claim()
    await outbox.age(5)
    second = await outbox.claim()
    assert [row.outbox_id for row in second] == [row.outbox_id for row in first]
    assert [row.claim_token for row in second] == [row.claim_token + 1 for row in first]


async def test_a_stale_token_resolves_nothing_and_releases_nothing(outbox: Outbox) -> None:
    await outbox.fill(1)
    stale = await outbox.claim()
    await outbox.age(5)
    fresh = await outbox.claim()
    before = await outbox.rows()
    assert await outbox.store.complete_across_organizations(stale) == 0
    await outbox.store.release_across_organizations(stale, [0.0])
    assert await outbox.rows() == before
    assert await outbox.store.complete_across_organizations(fresh) == 1
    assert await outbox.statuses() == ["completed"]


async def test_a_resolved_row_is_neither_resolved_again_nor_released(outbox: Outbox) -> None:
    await outbox.fill(1)
    held = await outbox.claim()
    assert await outbox.store.complete_across_organizations(held) == 1
    before = await outbox.rows()
    assert await outbox.store.complete_across_organizations(held) == 0
    await outbox.store.release_across_organizations(held, [0.0])
    assert await outbox.rows() == before
    assert await outbox.claim() == []


async def test_tries_are_counted_at_the_claim(outbox: Outbox) -> None:
    await outbox.fill(1)
    counted = []
    for _ in range(3):
        (held,) = await outbox.claim()
        (stored,) = await outbox.rows()
        assert held.attempts == stored["attempts"]
        counted.append(held.attempts)
        await outbox.age(5)
    assert counted == [1, 2, 3]


async def test_a_row_handed_out_ten_times_is_failed_by_the_next_claim_and_never_handed_out_again(
    outbox: Outbox,
) -> None:
    await outbox.fill(1)
    for _ in range(ATTEMPTS_MAX):
        (held,) = await outbox.claim()
        await outbox.age(5)
    other = await outbox.fill(1)
    others = await outbox.claim()
    assert (held.attempts, [row.in_order_of for row in others]) == (ATTEMPTS_MAX, [other])
    assert await outbox.store.complete_across_organizations([held, *others]) == 1
    for _ in range(2):
        await outbox.make_due()
        assert await outbox.claim() == []
        assert await outbox.statuses() == ["failed", "completed"]
    assert (await outbox.rows())[0]["attempts"] == ATTEMPTS_MAX


async def test_a_row_handed_out_ten_times_is_failed_by_its_release_and_never_handed_out_again(outbox: Outbox) -> None:
    await outbox.fill(1)
    for tries in range(1, ATTEMPTS_MAX + 1):
        held = await outbox.claim()
        assert [row.attempts for row in held] == [tries]
        await outbox.store.release_across_organizations(held, [0.0])
        assert await outbox.statuses() == ["pending" if tries < ATTEMPTS_MAX else "failed"]
    for _ in range(2):
        await outbox.make_due()
        assert await outbox.claim() == []
    assert await outbox.statuses() == ["failed"]


async def test_a_relay_takes_what_another_is_not_just_claiming_and_does_not_wait_for_it(outbox: Outbox) -> None:
    for _ in range(6):
        await outbox.fill(1)
    async with transaction(outbox.pool, Role.RELAY) as claiming:
        claim = next(each for each in statements("outbox") if each.name.startswith(f"{outbox.queue}_outbox.claim"))
        first, _ = await run(
            claiming, claim, {"row_limit": 4, "look_at": 100, "attempts_max": ATTEMPTS_MAX, "head_start_seconds": 0.0}
        )
        second = await outbox.claim()
    assert (len(first), len(second)) == (4, 2)
    assert {row["outbox_id"] for row in first}.isdisjoint(row.outbox_id for row in second)


async def test_a_claim_reads_as_many_rows_as_it_looks_at_however_many_wait_uncounted(pool: Pool) -> None:
    waiting, looked_at, taken = 20_000, 500, 100
    organization = (await a_tenant(pool)).account.organization_id
    await pool.execute(
        "insert into intent_outbox (organization_id, account_id, slot, action_id, available_at, created_at)"
        " select $1, gen_random_uuid(), 0, gen_random_uuid(), now(), now() from generate_series(1, $2::integer)",
        *(organization, waiting),
    )
    claim = next(each for each in statements("outbox") if each.name.startswith("intents_outbox.claim"))
    async with transaction(pool, Role.RELAY) as connection:
        rows, _ = await run(
            connection,
            claim,
            {"row_limit": taken, "look_at": looked_at, "attempts_max": ATTEMPTS_MAX, "head_start_seconds": 0.0},
        )
        read = await connection.fetchval(
            "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'intent_outbox'"
        )
    assert len(rows) == taken
    # Among those it looks at, then by its id each that it locks, and twice each that it takes.
    assert read <= looked_at + 4 * taken


async def test_rounds_at_the_same_time_tell_of_every_row_once(outbox: Outbox) -> None:
    for _ in range(20):
        await outbox.fill(2)
    teller = ScriptedTeller()
    relay = outbox.relay(teller)
    done = await relay.together(3)
    while done.completed < 40:
        done += await relay.together(3)
    assert done == RelayBatch(40, 40, 0)
    assert sorted(row.outbox_id for row in teller.told) == await outbox.ids()


async def test_relays_that_race_never_share_a_row(outbox: Outbox) -> None:
    for _ in range(100):
        await outbox.fill(1)

    async def claim_until_empty() -> list[int]:
        claimed: list[int] = []
        while rows := await outbox.claim(7):
            claimed += [row.outbox_id for row in rows]
        return claimed

    in_time = False
    async with asyncio.timeout(60):
        while not in_time:
            await outbox.age(5)
            begun = await outbox.now()
            taken = await asyncio.gather(*(claim_until_empty() for _ in range(6)))
            # As above: a race that outlasts its own claims hands rows out twice, rightly.
            in_time = await outbox.now() - begun < timedelta(seconds=5)
    # What a claim skipped was being claimed by another, so nothing is left either.
    assert sorted(chain.from_iterable(taken)) == await outbox.ids()


async def test_a_released_row_waits_its_back_off(outbox: Outbox) -> None:
    for _ in range(2):
        await outbox.fill(1)
    held = await outbox.claim()
    before = await outbox.now()
    await outbox.store.release_across_organizations(held, [LONG_SECONDS, 0.0])
    after = await outbox.now()
    waiting, due = await outbox.rows()
    assert before <= due["available_at"] <= after
    assert before <= waiting["available_at"] - timedelta(seconds=LONG_SECONDS) <= after
    again = await outbox.claim()
    assert [row.outbox_id for row in again] == [due["outbox_id"]]
    assert await outbox.store.complete_across_organizations(again) == 1
    await outbox.make_due()
    assert [row.outbox_id for row in await outbox.claim()] == [waiting["outbox_id"]]


async def test_a_failed_publish_is_released_for_later_and_leaves_others_completed(outbox: Outbox) -> None:
    owners = [await outbox.fill(1) for _ in range(3)]
    teller = ScriptedTeller(broken={owners[1]})
    for attempt in (1, 2):
        before = await outbox.now()
        batch = await outbox.relay(teller, jitter=LONG_SECONDS)()
        after = await outbox.now()
        assert batch == (RelayBatch(3, 2, 1) if attempt == 1 else RelayBatch(1, 0, 1))
        assert await outbox.statuses() == ["completed", "pending", "completed"]
        wait = timedelta(seconds=backoff_seconds(attempt) * LONG_SECONDS)
        assert before + wait <= (await outbox.rows())[1]["available_at"] <= after + wait
        await outbox.make_due()
    teller.broken.clear()
    assert await outbox.relay(teller)() == RelayBatch(1, 1, 0)
    assert [row.in_order_of for row in teller.told] == [owners[0], owners[2], owners[1]]


async def test_nothing_is_claimed_while_nobody_can_be_told(outbox: Outbox) -> None:
    await outbox.fill(1)
    before = await outbox.rows()
    teller = ScriptedTeller(ready=False)
    assert await outbox.relay(teller)() == RelayBatch(0, 0, 0)
    assert (await outbox.rows(), teller.told) == (before, [])
    teller.ready = True
    assert await outbox.relay(teller)() == RelayBatch(1, 1, 0)


@pytest.mark.parametrize(("claim_seconds", "told"), [(4.4, 2), (4.5, 0)])
async def test_a_relay_paused_after_its_claim_tells_nobody(outbox: Outbox, claim_seconds: float, told: int) -> None:
    await outbox.fill(2)
    teller, clock = ScriptedTeller(), Clock()
    store = SlowStore(outbox.pool, outbox.queue, clock=clock, claim_seconds=claim_seconds)
    assert await RelayOutbox(store, teller, lambda: 1.0, clock)() == RelayBatch(2, told, 0)
    assert len(teller.told) == told
    assert await outbox.statuses() == (["completed"] * 2 if told else ["processing"] * 2)


async def test_a_relay_paused_while_it_publishes_resolves_and_releases_nothing(outbox: Outbox) -> None:
    owners = [await outbox.fill(1) for _ in range(2)]
    clock = Clock()

    def pause() -> None:
        clock.seconds += HOLD_SECONDS

    teller = ScriptedTeller(broken={owners[0]}, before_answer=pause)
    assert await outbox.relay(teller, clock)() == RelayBatch(2, 0, 0)
    assert await outbox.statuses() == ["processing"] * 2
    await outbox.age(5)
    assert await outbox.relay(ScriptedTeller())() == RelayBatch(2, 2, 0)

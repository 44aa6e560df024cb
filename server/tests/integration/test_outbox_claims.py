"""Claims on the outbox: one holder at a time, a bounded number of tries, and a relay that knows when it is late."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import cast

import asyncpg
import pytest

from builders import Tenant, a_tenant, accept
from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.outbox import PostgresOutboxStore
from openbell_server.application.relay_outbox import RelayBatch, RelayOutbox, WorkNotices
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.outbox import ATTEMPTS_MAX, HOLD_SECONDS, ClaimedRow, backoff_seconds
from scripted_broker import Clock

# Long enough that no test waits for it by chance.
LONG_SECONDS = 3600.0


@dataclass(slots=True)
class ScriptedQueue:
    """Implements WorkQueue: remembers who was told, and fails for the accounts it is told to fail for."""

    reachable: bool = True
    broken: set[AccountId] = field(default_factory=set)
    told: list[AccountId] = field(default_factory=list)
    before_answer: Callable[[], None] = lambda: None

    def is_reachable(self) -> bool:
        return self.reachable

    async def publish_work(self, slot: int, account_id: AccountId, message_id: str) -> None:
        del slot, message_id
        self.told.append(account_id)
        self.before_answer()
        if account_id in self.broken:
            raise TimeoutError


@dataclass(frozen=True, slots=True)
class SlowStore(PostgresOutboxStore):
    """A store on whose claims the relay's clock goes on."""

    clock: Clock = field(default_factory=Clock)
    claim_seconds: float = 0.0

    async def claim_across_organizations(self, limit: int) -> list[ClaimedRow]:
        rows = await PostgresOutboxStore(self.pool).claim_across_organizations(limit)
        self.clock.seconds += self.claim_seconds
        return rows


@dataclass(frozen=True, slots=True)
class Outbox:
    """The outbox under test, with what tests do to it."""

    pool: Pool

    @property
    def store(self) -> PostgresOutboxStore:
        return PostgresOutboxStore(self.pool)

    async def fill(self, rows: int) -> Tenant:
        tenant = await a_tenant(self.pool)
        await accept(self.pool, *(tenant.submission() for _ in range(rows)))
        return tenant

    async def claim(self, limit: int = 100) -> list[ClaimedRow]:
        return sorted(await self.store.claim_across_organizations(limit), key=lambda row: row.outbox_id)

    async def age(self, seconds: float) -> None:
        """As if every claim had been made so long ago."""
        await self.pool.execute(
            "update intent_outbox set claimed_at = clock_timestamp() - make_interval(secs => $1)"
            " where status = 'processing'",
            seconds,
        )

    async def make_due(self) -> None:
        """As if every wait were over."""
        await self.pool.execute("update intent_outbox set available_at = created_at")

    async def now(self) -> datetime:
        """By the database's clock."""
        return cast("datetime", await self.pool.fetchval("select clock_timestamp()"))

    async def rows(self) -> list[asyncpg.Record]:
        return await self.pool.fetch("select * from intent_outbox order by outbox_id")

    async def statuses(self) -> list[str]:
        return [row["status"] for row in await self.rows()]

    def relay(self, queue: ScriptedQueue, clock: Clock | None = None, jitter: float = 1.0) -> RelayOutbox[ClaimedRow]:
        return RelayOutbox(self.store, WorkNotices(queue), lambda: jitter, clock or Clock())


@pytest.fixture
def outbox(pool: Pool) -> Outbox:
    return Outbox(pool)


async def test_a_claimed_row_is_not_handed_out_again_within_five_seconds(outbox: Outbox) -> None:
    await outbox.fill(3)
    assert len(await outbox.claim()) == 3
    in_time = False
    async with asyncio.timeout(30):
        while not in_time:
            await outbox.age(4)
            aged = await outbox.pool.fetchval("select min(claimed_at) from intent_outbox")
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
    tenant = await outbox.fill(1)
    others = await outbox.claim()
    assert (held.attempts, [row.account_id for row in others]) == (ATTEMPTS_MAX, [tenant.account.id])
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
    await outbox.fill(6)
    async with transaction(outbox.pool, Role.RELAY) as claiming:
        claim = named_queries.load("outbox").claim_across_organizations
        first = [row async for row in claim(claiming, row_limit=4, attempts_max=ATTEMPTS_MAX)]
        second = await outbox.claim()
    assert (len(first), len(second)) == (4, 2)
    assert {row["outbox_id"] for row in first}.isdisjoint(row.outbox_id for row in second)


async def test_relays_that_race_never_share_a_row(outbox: Outbox) -> None:
    for _ in range(4):
        await outbox.fill(50)

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
    assert sorted(chain.from_iterable(taken)) == [row["outbox_id"] for row in await outbox.rows()]


async def test_a_released_row_waits_its_back_off(outbox: Outbox) -> None:
    await outbox.fill(2)
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


async def test_a_failed_publish_is_released_for_later_and_leaves_other_accounts_completed(outbox: Outbox) -> None:
    tenants = [await outbox.fill(2) for _ in range(3)]
    broken = tenants[1].account.id
    queue = ScriptedQueue(broken={broken})
    for attempt in (1, 2):
        before = await outbox.now()
        batch = await outbox.relay(queue, jitter=LONG_SECONDS)()
        after = await outbox.now()
        assert batch == (RelayBatch(6, 4, 2) if attempt == 1 else RelayBatch(2, 0, 2))
        missed = [row for row in await outbox.rows() if row["account_id"] == broken]
        assert {row["status"] for row in missed} == {"pending"}
        wait = timedelta(seconds=backoff_seconds(attempt) * LONG_SECONDS)
        assert all(before + wait <= row["available_at"] <= after + wait for row in missed)
        await outbox.make_due()
    assert [row["status"] for row in await outbox.rows() if row["account_id"] != broken] == ["completed"] * 4
    assert sorted(queue.told) == sorted([tenant.account.id for tenant in tenants] + [broken])
    queue.broken.clear()
    assert await outbox.relay(queue)() == RelayBatch(2, 2, 0)


async def test_nothing_is_claimed_while_the_queue_is_not_reachable(outbox: Outbox) -> None:
    await outbox.fill(1)
    before = await outbox.rows()
    queue = ScriptedQueue(reachable=False)
    assert await outbox.relay(queue)() == RelayBatch(0, 0, 0)
    assert (await outbox.rows(), queue.told) == (before, [])
    queue.reachable = True
    assert await outbox.relay(queue)() == RelayBatch(1, 1, 0)


@pytest.mark.parametrize(("claim_seconds", "told"), [(4.4, 1), (4.5, 0)])
async def test_a_relay_paused_after_its_claim_tells_nobody(outbox: Outbox, claim_seconds: float, told: int) -> None:
    await outbox.fill(2)
    queue, clock = ScriptedQueue(), Clock()
    relay = RelayOutbox(SlowStore(outbox.pool, clock, claim_seconds), WorkNotices(queue), lambda: 1.0, clock)
    assert await relay() == RelayBatch(2, 2 * told, 0)
    assert len(queue.told) == told
    assert await outbox.statuses() == (["completed"] * 2 if told else ["processing"] * 2)


async def test_a_relay_paused_while_it_publishes_resolves_and_releases_nothing(outbox: Outbox) -> None:
    tenants = [await outbox.fill(1) for _ in range(2)]
    clock = Clock()

    def pause() -> None:
        clock.seconds += HOLD_SECONDS

    queue = ScriptedQueue(broken={tenants[0].account.id}, before_answer=pause)
    assert await outbox.relay(queue, clock)() == RelayBatch(2, 0, 0)
    assert await outbox.statuses() == ["processing"] * 2
    await outbox.age(5)
    assert await outbox.relay(ScriptedQueue())() == RelayBatch(2, 2, 0)

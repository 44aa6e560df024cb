"""Three relays drain a queue while they are killed and paused; an audit in the database and the stream judge them."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

import nats
from nats.errors import Error as NatsError

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.streams import MESSAGE_BYTES_MAX
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.child_processes import ChildFailed
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import Stack
from proof.figures import Figures
from proof.waiting import until_none_left
from support.builders.tenant import Tenant, a_tenant
from support.environment.logins import allow_every_login

RELAYS = ("relay", "relay-2", "relay-3")
PAUSE_SECONDS = (5.5, 8.0)
# One relay is always left alone, so that somebody can take over.
IN_TROUBLE_MAX = 2
BITS = 6
READY_SECONDS = 180
LONG_SECONDS = 6.5
POLL_SECONDS = 0.05
LOGS = Path("build/proof/outbox-logs")
AUDIT = """
create table openbell.proof_audit (
    audit_no bigint generated always as identity primary key, outbox_id bigint, account_id uuid, was text, became text,
    claimed_before timestamptz, claimed_after timestamptz, together xid8 default pg_current_xact_id()
);
create function openbell.proof_note() returns trigger language plpgsql security definer as $$
begin
    insert into openbell.proof_audit (outbox_id, account_id, was, became, claimed_before, claimed_after)
    values (new.outbox_id, new.account_id, old.status, new.status, old.claimed_at, new.claimed_at);
    return null;
end $$;
create trigger proof_note after update on openbell.account_outbox for each row execute function openbell.proof_note();
"""
FILL = """
insert into openbell.account_outbox (organization_id, account_id, event_type, payload, available_at, created_at)
select t.organization_id, t.account_id, 'account.updated', t.payload, clock_timestamp(), clock_timestamp()
from unnest($1::uuid[], $2::uuid[], $3::text[]) with ordinality t (organization_id, account_id, payload, place)
order by t.place
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many rows, and how much trouble."""

    accounts: int
    # Beside these, as many rows with one in ten that JetStream will never take, in accounts of their own.
    rows: int
    poisoned_rows: int
    kills: int
    pauses: int
    # JetStream falls silent for a while, and is then killed for as long.
    silent_seconds: float
    attempts_max: int
    end_seconds: float

    @property
    def burst(self) -> int:
        """The rows that come with each trouble."""
        return self.rows // (self.kills + self.pauses + 2)


SIZES = {
    "full": Size(
        accounts=100,
        rows=17_800,
        poisoned_rows=2_200,
        kills=60,
        pauses=40,
        silent_seconds=30,
        attempts_max=10,
        end_seconds=330,
    ),
    "gate": Size(
        accounts=20, rows=600, poisoned_rows=60, kills=3, pauses=2, silent_seconds=2, attempts_max=3, end_seconds=120
    ),
}


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    shutil.rmtree(LOGS, ignore_errors=True)
    settings = {"OPENBELL_OUTBOX_ATTEMPTS_MAX": str(size.attempts_max)}
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        with Stack(services, settings, LOGS) as stack:
            asyncio.run(_prove(figures, services, stack, size))


async def _prove(figures: Figures, services: LocalServices, stack: Stack, size: Size) -> None:
    async with await open_pool(services.postgres.url("openbell")) as pool:
        await pool.execute(AUDIT)
        load = Load(pool, services, size, await _tenants(pool, size.accounts))
        trouble = Trouble(stack, load, size)
        await asyncio.gather(*(trouble.bring_up(relay) for relay in RELAYS))
        await load.add_poisoned(await _tenants(pool, size.poisoned_rows // 10))
        await trouble.all()
        await _outage(figures, services, load, size)
        left = await load.until_none("resolved_at is null", size.end_seconds)
        await _judge(figures, pool, services, load, left)
        figures.at_least("relays killed", trouble.killed, size.kills)
        figures.at_least("relays paused for 5.5 s or longer", trouble.paused, size.pauses)
        figures.exactly("relays that ended by themselves", len(stack.watch()), 0)
        await _judge_takeovers(figures, pool, load.tenants)


async def _tenants(pool: Pool, count: int) -> list[Tenant]:
    return [await a_tenant(pool) for _ in range(count)]


@dataclass
class Load:
    """Puts rows into the accounts' queue, numbered per account, and wakes the relays as the api would."""

    pool: Pool
    services: LocalServices
    size: Size
    tenants: Sequence[Tenant]
    added: Counter[UUID] = field(default_factory=Counter)
    poison: set[tuple[str, int]] = field(default_factory=set)
    random: Random = field(default_factory=lambda: Random(1))
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def add(self, tenants: Sequence[Tenant], *, poison: Sequence[int] = ()) -> None:
        """One row for each of these; those at the places of poison are too large for the stream."""
        rows = []
        # Numbers of an account are given under its lock; here one lock is for all.
        async with self._alone:
            for place, tenant in enumerate(tenants):
                account = tenant.account
                number = self.added[account.id]
                self.added[account.id] += 1
                said: dict[str, object] = {"account_id": str(account.id), "number": number}
                if place in poison:
                    self.poison.add((str(account.id), number))
                    said["padding"] = "x" * MESSAGE_BYTES_MAX
                rows.append((account.organization_id, account.id, json.dumps(said)))
            await self.pool.execute(FILL, *(list(column) for column in zip(*rows, strict=True)))

    async def add_poisoned(self, tenants: Sequence[Tenant]) -> None:
        """Ten rows for each account, one of them poison, at any place."""
        for tenant in tenants:
            await self.add([tenant] * 10, poison=[self.random.randrange(10)])

    async def add_burst(self, *, wake: bool = True) -> None:
        """A share of the rows, in a few bits, one quickly after the other."""
        for _ in range(BITS):
            await self.add(self.random.choices(self.tenants, k=self.size.burst // BITS + 1))
            if wake:
                await self._wake()

    async def _wake(self) -> None:
        with contextlib.suppress(NatsError, OSError, TimeoutError):
            async with asyncio.timeout(1):
                client = await nats.connect(self.services.nats.url, error_cb=_ignore, allow_reconnect=False)
                await client.publish(subjects.OUTBOX_WAKE)
                await client.close()

    async def until_none(self, condition: str, seconds: float) -> int:
        """Wait; how many such rows are left after so many seconds without progress."""

        async def count() -> int:
            return int(await self.pool.fetchval(f"select count(*) from account_outbox where {condition}"))

        return await until_none_left(count, seconds)


async def _ignore(_: Exception) -> None:
    pass


@dataclass
class Trouble:
    """Kills and pauses relays just when there is work for them."""

    stack: Stack
    load: Load
    size: Size
    killed: int = 0
    paused: int = 0
    random: Random = field(default_factory=lambda: Random(2))
    _hands: dict[str, asyncio.Lock] = field(default_factory=lambda: {relay: asyncio.Lock() for relay in RELAYS})
    _few: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IN_TROUBLE_MAX))

    async def all(self) -> None:
        """The kills one after the other, and the pauses beside them in two hands."""
        half = self.size.pauses // 2
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kill_some(self.size.kills))
            tasks.create_task(self._pause_some(half))
            tasks.create_task(self._pause_some(self.size.pauses - half))

    async def _kill_some(self, times: int) -> None:
        for _ in range(times):
            async with self._one() as relay:
                self.stack.kill(relay)
                self.killed += 1
                await self.bring_up(relay)

    async def _pause_some(self, times: int) -> None:
        for _ in range(times):
            async with self._one() as relay:
                self.stack.kill(relay, signal.SIGSTOP)
                await asyncio.sleep(self.random.uniform(*PAUSE_SECONDS))
                self.stack.kill(relay, signal.SIGCONT)
                self.paused += 1

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[str]:
        """A relay that nobody else troubles, at a moment within its work."""
        async with self._few:
            relay = self.random.choice([each for each, hand in self._hands.items() if not hand.locked()])
            async with self._hands[relay]:
                working = asyncio.ensure_future(self.load.add_burst())
                await asyncio.sleep(self.random.uniform(0.005, 0.08))
                yield relay
                await working

    async def bring_up(self, relay: str) -> None:
        """Start a relay and wait until it serves."""
        self.stack.start(relay)
        async with asyncio.timeout(READY_SECONDS):
            while True:
                try:
                    self.stack.wait_ready(relay, 0)
                except ChildFailed:
                    if not self.stack.is_running(relay):
                        raise
                    await asyncio.sleep(POLL_SECONDS)
                else:
                    return


async def _outage(figures: Figures, services: LocalServices, load: Load, size: Size) -> None:
    """JetStream answers nothing, then is gone, then is back; rows go on coming."""
    # What the troubled relays held is in other hands by then.
    await load.until_none("status = 'processing'", 60)
    failed = "select count(*) from account_outbox where status = 'failed' and length(payload) < 1000"
    before = await load.pool.fetchval(failed)
    tries = await _tries(load)
    assert services.nats.pid is not None
    os.kill(services.nats.pid, signal.SIGSTOP)
    await load.add_burst(wake=False)
    await asyncio.sleep(size.silent_seconds)
    services.nats.kill()
    await load.add_burst(wake=False)
    await asyncio.sleep(size.silent_seconds)
    during = await _tries(load)
    services.nats.start()
    figures.shown("seconds JetStream was silent or gone", 2 * size.silent_seconds)
    figures.shown("rows that came meanwhile", 2 * size.burst)
    figures.at_most("tries that any row used up meanwhile, at most", max(during - tries, 0), 2)
    figures.exactly("rows failed meanwhile", await load.pool.fetchval(failed) - before, 0)


async def _tries(load: Load) -> int:
    asked = "select coalesce(max(attempts), 0) from account_outbox where resolved_at is null and length(payload) < 1000"
    return int(await load.pool.fetchval(asked))


async def _judge(figures: Figures, pool: Pool, services: LocalServices, load: Load, left: int) -> None:
    told = await _read_stream(services)
    heard: dict[str, list[int]] = defaultdict(list)
    for account_id, number in told:
        heard[account_id].append(number)
    wanted = {(str(account), number) for account, rows in load.added.items() for number in range(rows)}
    good = wanted - load.poison
    missing = good - {(account, number) for account, numbers in heard.items() for number in numbers}
    statuses = {row["status"]: row["count"] for row in await pool.fetch(STATUSES)}
    figures.at_least("rows", len(wanted), load.size.rows + load.size.poisoned_rows)
    figures.exactly("rows neither completed nor failed in the end", left, 0)
    figures.exactly("lost: good rows that are in no message", len(missing), 0)
    figures.exactly("good rows not completed", len(good) - statuses.get("completed", 0), 0)
    figures.exactly("poison rows, all failed", statuses.get("failed", 0), len(load.poison))
    late = sum(number < most for numbers in heard.values() for number, most in _with_most_before(numbers))
    figures.exactly("messages out of order within their account", late, 0)
    figures.shown("messages that are copies", len(told) - len(good) + len(missing))
    figures.exactly("rows completed twice", await pool.fetchval(TWICE), 0)
    figures.exactly("failed or completed rows changed again", await pool.fetchval(AGAIN), 0)
    figures.exactly("rows completed before an earlier one of their account was resolved", await pool.fetchval(EARLY), 0)
    counted = await pool.fetchval(COUNTED)
    figures.exactly("completed rows that the counts lack", statuses.get("completed", 0) - counted, 0)


def _with_most_before(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Each first appearance, with the greatest number that was heard before it."""
    most, seen, pairs = -1, set(), []
    for number in numbers:
        if number not in seen:
            pairs.append((number, most))
            seen.add(number)
            most = max(most, number)
    return pairs


STATUSES = "select status, count(*) from account_outbox where event_type = 'account.updated' group by status"
TWICE = """
select count(*) from (
    select outbox_id from openbell.proof_audit where became = 'completed' group by outbox_id having count(*) > 1
) twice
"""
AGAIN = "select count(*) from openbell.proof_audit where was in ('failed', 'completed')"
EARLY = """
select count(*) from (
    select outbox_id, max(outbox_id) over (
        partition by account_id order by first_no groups between unbounded preceding and 1 preceding
    ) as most_before
    from (
        select *, min(audit_no) over (partition by together) as first_no from openbell.proof_audit
        where became in ('completed', 'failed')
    ) resolved
) resolved where outbox_id < most_before
"""
COUNTED = """
select coalesce(sum(count), 0)::bigint from openbell.outbox_roll_ups
where queue = 'accounts' and event_type = 'account.updated'
"""
TAKEOVERS = """
select extract(epoch from claimed_after - claimed_before)::float8 as seconds, claimed_before, outbox_id
from openbell.proof_audit
where was = 'processing' and became = 'processing' and account_id = any ($1::uuid[])
order by 1
"""


async def _judge_takeovers(figures: Figures, pool: Pool, tenants: Sequence[Tenant]) -> None:
    """In accounts without poison: behind a poison row others wait for it, whoever held them."""
    taken = await pool.fetch(TAKEOVERS, [tenant.account.id for tenant in tenants])
    waits = [row["seconds"] for row in taken]
    for row in taken:
        if row["seconds"] > LONG_SECONDS:
            print(f"row {row['outbox_id']} was claimed at {row['claimed_before']}, again {row['seconds']:.3f} s later")
    shortest, longest = (round(min(waits), 3), round(max(waits), 3)) if waits else (0.0, 0.0)
    if figures.size == "full":
        figures.at_least("rows taken over from killed and paused relays", len(waits), 1)
        figures.at_least("seconds until they were taken over, at least", shortest, 5.0)
        figures.at_most("seconds until they were taken over, at most", longest, LONG_SECONDS)
    else:
        # So few troubles may all have found their relay with empty hands.
        figures.shown("rows taken over from killed and paused relays", len(waits))
        figures.exactly("rows taken over in less than 5 s", sum(wait < 5 for wait in waits), 0)
        figures.shown("seconds until they were taken over, at most", longest)


async def _read_stream(services: LocalServices) -> list[tuple[str, int]]:
    """Account and number of every message on the stream, in its order."""
    client = await nats.connect(services.nats.url, connect_timeout=60)
    try:
        jetstream = client.jetstream(timeout=60)
        count = (await jetstream.stream_info(subjects.ACCOUNT_STREAM)).state.messages
        ours = subjects.account_event("account.updated")
        reading = await jetstream.pull_subscribe(ours, stream=subjects.ACCOUNT_STREAM)
        told: list[tuple[str, int]] = []
        while len(told) < count:
            try:
                messages = await reading.fetch(500, timeout=60)
            except TimeoutError:
                break
            for message in messages:
                said = json.loads(message.data)
                told.append((said["account_id"], said["number"]))
                await message.ack()
        return told
    finally:
        await client.close()

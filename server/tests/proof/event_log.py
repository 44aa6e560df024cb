"""The log itself: what its readers see while many write to it, and while its oldest events go."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import asyncpg

from openbell import AsyncClient, EventMissed
from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool, open_pool
from openbell_server.adapters.postgres.events.event_pruning import PruneEvents
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.application.ports.accept_step import AcceptStatus, Submission
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.identifiers import AccountId
from proof.figures import Figures
from support.brokers.scripted_broker import until_so
from support.builders.tenant import Tenant, a_tenant, accept, new_id
from support.environment.logins import TEST_LOGIN, allow_every_login
from support.history.pruning import prune_at_any_age
from support.rest.event_streams import event_stream

SIZES = {"full": {"events": 30_000, "logs": 4}, "gate": {"events": 480, "logs": 3}}
WRITERS = 16
# Accepted at once by one writer: from one to so many.
BATCH_MAX = 12
READ_MAX = 500
# Readers leave the writers room.
PAUSE_SECONDS = 0.01
ACCEPT_SECONDS = 120
TURNS_LOST_MAX = 100
# Old enough to go, while it is followed, and how long a follower stays away that leaves after so many events.
KEEP_SECONDS = 0.1
AWAY_SECONDS = 0.3
LEAVES_AFTER = 20
FOLLOW_SECONDS = 120
_SEEN = """
select c.event_floor, c.event_no, count(e.event_no) as there, min(e.event_no) as first, max(e.event_no) as last
from openbell.account_counters c left join openbell.account_events e using (organization_id, account_id)
where c.account_id = $1 group by c.event_floor, c.event_no
"""


def prove_log(figures: Figures) -> None:
    size = SIZES[figures.size]
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        asyncio.run(_prove(figures, size, owner_url, services.postgres.url("openbell", TEST_LOGIN)))


async def _prove(figures: Figures, size: dict[str, int], owner_url: str, login_url: str) -> None:
    async with await open_pool(owner_url) as owner:
        await prune_at_any_age(owner)
    async with await open_pool(login_url, connections_max=30) as pool:
        tenants = [await a_tenant(pool) for _ in range(size["logs"])]
        one = await _watched(pool, owner_url, tenants[:1], size["events"])
        _show(figures, "one log", one, size["events"])
        several = await _watched(pool, owner_url, tenants[1:], size["events"] // 4)
        _show(figures, "several logs", several, size["events"] // 4)
        # What was written before goes first, so that it takes no turn from what is read.
        others = PruneEvents(pool, 0.0)
        while await others.across_organizations() is not None:
            pass
        await _pruned(figures, pool, await a_tenant(pool), size["events"] // 4)


@dataclass
class Seen:
    """What all readers together saw."""

    polls: int = 0
    turns_lost: int = 0
    events: int = 0
    # Of a reader that goes on where it was: an event that is not the next.
    holes: int = 0
    # Of a look at all that is there: not exactly from the first to the head.
    not_whole: int = 0
    # In the logs when all was written, and those that a reader was not given.
    in_logs: int = 0
    unread: int = 0


def _show(figures: Figures, which: str, seen: Seen, events: int) -> None:
    figures.exactly(f"{which}: events written by {WRITERS} writers", seen.in_logs, events)
    figures.shown(f"{which}: polls of readers", seen.polls)
    figures.shown(f"{which}: events read", seen.events)
    figures.exactly(f"{which}: looks that saw no gapless stretch up to the head", seen.not_whole, 0)
    figures.exactly(f"{which}: gaps between polls", seen.holes, 0)
    figures.exactly(f"{which}: events that a reader did not get", seen.unread, 0)


async def _watched(pool: Pool, owner_url: str, tenants: list[Tenant], events: int) -> Seen:
    """Readers and a looker beside the writers, until all is written and read."""
    seen, written = Seen(), asyncio.Event()
    others = [asyncio.ensure_future(_look(owner_url, tenants, seen, written))]
    others += [asyncio.ensure_future(_read(pool, tenant, seen, written)) for tenant in tenants for _ in range(2)]
    await _write(pool, tenants, events)
    written.set()
    await asyncio.gather(*others)
    store = PostgresEventStore(pool)
    for tenant in tenants:
        seen.in_logs += (await store.bounds(tenant.account.organization_id, tenant.account.id))[1]
    return seen


async def _write(pool: Pool, tenants: list[Tenant], events: int) -> None:
    """So many events from all writers together, each of them once."""
    left = events

    async def write_some(number: int) -> None:
        nonlocal left
        while left > 0:
            count = min(1 + number % BATCH_MAX, left)
            left -= count
            tenant = tenants[number % len(tenants)]
            await _accept(pool, [tenant.submission(key=str(new_id())) for _ in range(count)])

    await asyncio.gather(*(write_some(number) for number in range(WRITERS)))


async def _accept(pool: Pool, submissions: list[Submission]) -> None:
    """On a busy machine a writer may lose its turn, and not know whether it wrote: under its keys it repeats itself."""
    deadline = asyncio.get_running_loop().time() + ACCEPT_SECONDS
    while True:
        with contextlib.suppress(*UNAVAILABLE):
            statuses = {each.status for each in await accept(pool, *submissions)}
            if statuses <= {AcceptStatus.ACCEPTED, AcceptStatus.REPLAYED}:
                return
            assert statuses <= {AcceptStatus.ACCEPTED, AcceptStatus.REPLAYED, AcceptStatus.DEFERRED}
        assert asyncio.get_running_loop().time() < deadline, "nothing is accepted any more"
        await asyncio.sleep(PAUSE_SECONDS)


async def _read(pool: Pool, tenant: Tenant, seen: Seen, written: asyncio.Event) -> None:
    store, position, given = PostgresEventStore(pool), 0, 0
    where = (tenant.account.organization_id, tenant.account.id)
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        is_last = written.is_set()
        try:
            numbers = [event.number for event in await store.read_after(*where, position, READ_MAX)]
            _, head = await store.bounds(*where)
        except UNAVAILABLE:
            # On a busy machine a reader may lose its turn too, and asks again from where it is.
            seen.turns_lost += 1
            assert seen.turns_lost < TURNS_LOST_MAX, "nothing is read any more"
            continue
        seen.polls += 1
        seen.events += len(numbers)
        seen.holes += numbers != list(range(position + 1, position + 1 + len(numbers)))
        given += len(numbers)
        position = numbers[-1] if numbers else position
        if is_last and position >= head:
            seen.unread += head - given
            return


async def _look(owner_url: str, tenants: list[Tenant], seen: Seen, written: asyncio.Event) -> None:
    """All of a log in one statement, again and again."""
    connection = await asyncpg.connect(owner_url, timeout=60)
    try:
        while not written.is_set():
            for tenant in tenants:
                seen.not_whole += not await _is_whole(connection, tenant.account.id)
                seen.polls += 1
                await asyncio.sleep(PAUSE_SECONDS)
    finally:
        await connection.close()


async def _is_whole(connection: "asyncpg.Connection[asyncpg.Record]", account_id: AccountId) -> bool:
    row = await connection.fetchrow(_SEEN, account_id)
    assert row is not None
    floor, head = row["event_floor"], row["event_no"]
    edges = (row["first"], row["last"]) if row["there"] else (floor + 1, head)
    return bool(row["there"] == head - floor and edges == (floor + 1, head))


@dataclass
class Follower:
    """What the SDK gave out of a log, or said was gone."""

    given: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    gaps: int = 0
    # Missing, and not because it is no longer kept.
    holes: int = 0
    token: str | None = None

    @property
    def reached(self) -> int:
        return max(self.given[-1:] + self.gone[-1:], default=0)

    async def follow(self, client: AsyncClient, account_id: str, count: int) -> None:
        """As many events as that, or up to what is gone."""
        events = client.events(self.token, account_id=account_id, start="LIVE" if self.token else "BEGINNING")
        try:
            async with contextlib.aclosing(events):  # type: ignore[type-var]
                async for event in events:
                    self.given.append(event.account_seq)
                    self.token = event.resume_token
                    count -= 1
                    if not count:
                        return
        except EventMissed as missed:
            self.token = missed.resume_token
            self.gone += range(missed.position + 1, missed.prev_seq + 1)
            self.gaps += 1
            self.holes += missed.reason != "RETENTION"


async def _pruned(figures: Figures, pool: Pool, tenant: Tenant, events: int) -> None:
    """Follow a log whose oldest events go: all along, with absences, and after a long one."""
    account_id, written = str(tenant.account.id), asyncio.Event()
    steady, often_away, long_away = followers = [Follower() for _ in range(3)]
    async with (
        event_stream(pool) as address,
        AsyncClient(api_key=tenant.key, url="http://127.0.0.1:9", stream_address=address) as client,
    ):

        async def follow(follower: Follower, count: int, away_seconds: float) -> None:
            while True:
                await follower.follow(client, account_id, count)
                await asyncio.sleep(0 if written.is_set() else away_seconds)

        await _write(pool, [tenant], 1)
        following = [
            asyncio.ensure_future(follow(steady, events, 0)),
            asyncio.ensure_future(follow(often_away, LEAVES_AFTER, AWAY_SECONDS)),
        ]
        await long_away.follow(client, account_id, 1)
        await until_so(lambda: all(each.given for each in followers), FOLLOW_SECONDS)
        removed: list[int] = []
        removing = asyncio.ensure_future(_prune(pool, written, removed))
        await _write(pool, [tenant], events // 2)
        # However fast they were written.
        await until_so(lambda: sum(removed) > 0, FOLLOW_SECONDS)
        await _write(pool, [tenant], events - 2 - events // 2)
        written.set()
        await removing
        # Who waits is told what is gone with the event after it.
        await _write(pool, [tenant], 1)
        following.append(asyncio.ensure_future(follow(long_away, events, 0)))
        await until_so(lambda: all(each.reached == events for each in followers), FOLLOW_SECONDS)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    told = [sorted(each.given + each.gone) == list(range(1, events + 1)) for each in followers]
    figures.at_least("pruned: events given by the SDK", sum(len(each.given) for each in followers), len(followers))
    figures.at_least("pruned: events removed while they were followed", sum(removed), 1)
    figures.at_least("pruned: gaps reported to followers", sum(each.gaps for each in followers), 2)
    figures.exactly("pruned: gaps that retention does not explain", sum(each.holes for each in followers), 0)
    figures.exactly(
        "pruned: events given out of order", sum(each.given != sorted(set(each.given)) for each in followers), 0
    )
    figures.exactly("pruned: followers with an event neither sent nor reported as gone, or both", told.count(False), 0)


async def _prune(pool: Pool, written: asyncio.Event, removed: list[int]) -> None:
    """Remove old events until all are written, and add how many at each turn; then remove the rest."""
    turns = PruneEvents(pool, KEEP_SECONDS)
    while not written.is_set():
        with contextlib.suppress(*UNAVAILABLE):
            removed.append(await turns.across_organizations() or 0)
        await asyncio.sleep(PAUSE_SECONDS)
    turns = PruneEvents(pool, 0.0)
    while await turns.across_organizations() is not None:
        pass

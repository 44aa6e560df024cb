"""Everything is killed, paused and wiped, again and again, under load; then every book is held against every other."""

import asyncio
import contextlib
import itertools
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from history import Call, History, Kind, Operation, Result
from history_checker import check
from history_recorder import RecordingTransport, read_history
from openbell import Action, AsyncClient, Conflict, Invalid, Market, OpenbellError, OutcomeUnknown, Unreachable
from openbell_server.application.crash_points import POINTS
from openbell_server.demo.ledgers import Finding, compare
from openbell_server.processes.local_platform import LocalPlatform
from proof.books import event_heads, until_settled
from proof.figures import Figures
from proof.load import Follower, clients, followers, submit_mixed, until_followed
from proof.nemesis import Kill, Nemesis

PROCESSES = ("executor", "api", "paper", "relay", "stream")
# Every point, in the order in which it is died at. The doubts follow a death past the door, which leaves one behind.
DEATHS: dict[str, tuple[tuple[str, ...], ...]] = {
    "api": (("api.after_accept",), ("api.before_accept",)),
    "relay": (("relay.after_claim",), ("relay.after_publish",), ("relay.after_complete",)),
    "stream": (("stream.before_event",), ("stream.after_event",)),
    "paper": (),
    "executor": (
        ("executor.after_door", "executor.inside_doubt", "executor.after_probe", "executor.inside_evidence"),
        ("executor.before_door",),
        ("executor.inside_door",),
        ("executor.after_answer",),
        ("executor.inside_outcome",),
        ("executor.after_outcome",),
        ("executor.inside_report",),
        ("executor.after_report",),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much load, and how much trouble; pauses are seconds between one and the next of a sort."""

    intents: int
    accounts: int
    clients: int
    # Intents a second while there is trouble; what is left is asked for as fast as it goes.
    rate: float
    kills: int
    points: frozenset[str]
    kill_pause: float
    stops: tuple[str, ...]
    stop_pause: float
    services: tuple[str, ...]
    service_pause: float


SIZES = {
    "full": Size(
        intents=5000,
        accounts=40,
        clients=32,
        rate=20,
        kills=10,
        points=POINTS,
        kill_pause=4,
        stops=PROCESSES * 2,
        stop_pause=14,
        services=("postgres", "nats", "wipe", "postgres", "nats", "postgres", "nats"),
        service_pause=28,
    ),
    "gate": Size(
        intents=120,
        accounts=8,
        clients=8,
        rate=8,
        kills=1,
        points=frozenset({"executor.after_door", "api.after_accept"}),
        kill_pause=0,
        stops=("relay",),
        stop_pause=0,
        services=("nats", "postgres", "wipe"),
        service_pause=0.5,
    ),
}
SERVICES = {"postgres": "PostgreSQL killed", "nats": "NATS killed", "wipe": "JetStream wiped"}
KILLERS = 2
READERS = 2
READ_SECONDS = 0.1
# Shorter than a pause of the api: some callers give up on an answer that is still being made.
CALL_SECONDS = 3.0
TRIES_MAX = 60
BACKOFF_SECONDS_MAX = 1.0
TROUBLE_SECONDS = 480
SETTLE_SECONDS = 15
CANCEL_ROUNDS_MAX = 6
# What is asked of orders that were meant to rest: where it never reached the broker, they still do.
RESTING = (Operation.CANCEL, Operation.REPLACE)
FOLLOW_SECONDS = 30
CUT_EVERY = 53
SENTENCES_MAX = 30
LOGS = Path("build/proof/restart-logs")


def prove(figures: Figures) -> None:
    prove_size(figures, SIZES[figures.size])


def prove_size(figures: Figures, size: Size) -> None:
    """With so much load and trouble."""
    # Kept after the run, so that a finding can be traced.
    shutil.rmtree(LOGS, ignore_errors=True)
    with LocalPlatform(LOGS, accounts=size.accounts) as platform:
        asyncio.run(_prove(figures, platform, size))


async def _prove(figures: Figures, platform: LocalPlatform, size: Size) -> None:
    nemesis = Nemesis(platform)
    async with followers(platform, CUT_EVERY) as following:
        calls: list[Call] = []
        await _run(platform, nemesis, size, calls)
        left = await _end_what_rests(platform, calls)
        await until_followed(following, await event_heads(platform), FOLLOW_SECONDS)
        async with clients(platform, 1) as (client,):
            history = await read_history(platform, client, calls, following)
    _show_trouble(figures, nemesis, size)
    _show_load(figures, history, following, size)
    figures.exactly("orders and actions unsettled in the end", left, 0)
    findings = check(history)
    counts = Counter(finding.kind for finding in findings)
    for kind in Kind:
        figures.exactly(kind, counts[kind], 0)
    for finding in findings[:SENTENCES_MAX]:
        print(f"{finding.kind}: {finding.sentence}", flush=True)


@dataclass
class Load:
    """Clients that ask with keys of their own, and again with the same key until the answer is definite."""

    accounts: Sequence[str]
    size: Size
    # Set when there is no more trouble.
    over: asyncio.Event
    accepted: list[tuple[str, str]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _begun: float = field(default_factory=time.monotonic)
    _random: Random = field(default_factory=lambda: Random(1))

    async def work(self, client: AsyncClient, other: AsyncClient) -> None:
        """Ask for intents at the pace of all clients together, for as long as there is trouble, then for the rest."""
        for number in self._numbers:
            if number >= self.size.intents and self.over.is_set():
                return
            wait = self._begun + number / self.size.rate - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), max(0.0, wait))
            if number % 50 == 31:
                await self._ask_for_nonsense(client, number)
            # Some are asked for twice at once, by two who do not know of each other.
            both = (client, other) if number % 8 == 0 else (client,)
            await asyncio.gather(*(self._submit(each, number) for each in both))

    async def read(self, client: AsyncClient) -> None:
        """Until cancelled: look at what was accepted lately; whatever comes of it is in the history."""
        while True:
            if self.accepted:
                account, intent_id = self._random.choice(self.accepted[-300:])
                with contextlib.suppress(OpenbellError):
                    await client.intent(intent_id, account_id=account)
            await asyncio.sleep(READ_SECONDS)

    async def _submit(self, client: AsyncClient, number: int) -> None:
        account = self.accounts[number % len(self.accounts)]
        # A cancel that comes after the order's end is refused: that is definite too.
        with contextlib.suppress(Conflict):
            action = await _until_definite(lambda: submit_mixed(client, account, number, f"restart-{number}"))
            self.accepted.append((account, action.intent_id))

    async def _ask_for_nonsense(self, client: AsyncClient, number: int) -> None:
        account = self.accounts[number % len(self.accounts)]
        key = f"restart-{number}-nonsense"
        with contextlib.suppress(Invalid):
            await _until_definite(
                lambda: client.buy(
                    "no symbol", Market(1), account_id=account, idempotency_key=key, client_reference_id=key
                )
            )


async def _until_definite(ask: Callable[[], Awaitable[Action]]) -> Action:
    for tries in range(TRIES_MAX):
        try:
            return await ask()
        except (OutcomeUnknown, Unreachable):
            await asyncio.sleep(min(BACKOFF_SECONDS_MAX, 0.1 * 2**tries))
        except Conflict as refusal:
            if refusal.code != "concurrent_change":
                raise
    raise AssertionError(f"no definite answer in {TRIES_MAX} tries")


def _plan(size: Size) -> list[Kill]:
    """Every process in turn, the first times with deaths of its successors."""
    deaths = {process: iter(groups) for process, groups in DEATHS.items()}
    return [
        Kill(process, tuple(point for point in next(deaths[process], ()) if point in size.points))
        for _ in range(size.kills)
        for process in PROCESSES
    ]


async def _run(platform: LocalPlatform, nemesis: Nemesis, size: Size, calls: list[Call]) -> None:
    """Load and trouble, until both are over."""
    load = Load([str(account_id) for account_id in platform.seeded.account_ids], size, asyncio.Event())
    kills = _plan(size)
    async with _recorded_clients(platform, calls, size.clients + READERS) as opened, asyncio.TaskGroup() as tasks:
        readers, workers = opened[:READERS], opened[READERS:]
        aside = [tasks.create_task(load.read(client)) for client in readers]
        aside.append(tasks.create_task(nemesis.watch()))
        working = [
            tasks.create_task(load.work(client, workers[(place + 1) % len(workers)]))
            for place, client in enumerate(workers)
        ]
        async with asyncio.timeout(TROUBLE_SECONDS), asyncio.TaskGroup() as trouble:
            for _ in range(KILLERS):
                trouble.create_task(nemesis.kill_all(kills, size.kill_pause))
            trouble.create_task(nemesis.stop_all(size.stops, size.stop_pause))
            trouble.create_task(nemesis.trouble_all(size.services, size.service_pause))
        load.over.set()
        await asyncio.wait(working)
        for task in aside:
            task.cancel()


@asynccontextmanager
async def _recorded_clients(platform: LocalPlatform, calls: list[Call], count: int) -> AsyncIterator[list[AsyncClient]]:
    def transport(number: int) -> RecordingTransport:
        return RecordingTransport(f"client-{number}", calls)

    async with clients(platform, count, timeout=CALL_SECONDS, transport_of=transport) as opened:
        yield opened


async def _end_what_rests(platform: LocalPlatform, calls: list[Call]) -> int:
    """Wait until all is settled, and cancel what a failed cancel or replace left working; how much is left."""
    left = await until_settled(platform, SETTLE_SECONDS)
    async with _recorded_clients(platform, calls, 1) as (client,):
        for turn in range(CANCEL_ROUNDS_MAX):
            if not left:
                break
            resting = {(c.account_id, c.intent_id) for c in calls if c.operation in RESTING and c.intent_id}
            for account, intent_id in sorted(resting):
                latest = await client.intent(intent_id, account_id=account)
                if latest.execution is not None and not latest.execution.is_final:
                    key = f"again-{turn}-{intent_id}"
                    with contextlib.suppress(Conflict):
                        await client.cancel_intent(
                            intent_id, account_id=account, idempotency_key=key, client_reference_id=key
                        )
            left = await until_settled(platform, SETTLE_SECONDS)
    return left


def _show_trouble(figures: Figures, nemesis: Nemesis, size: Size) -> None:
    for process in PROCESSES:
        figures.at_least(f"{process} killed", nemesis.kills[process], size.kills)
    figures.at_least("processes paused for 5.5 s or longer", sum(nemesis.stops.values()), len(size.stops))
    for service, times in Counter(size.services).items():
        figures.at_least(SERVICES[service], nemesis.services[service], times)
    figures.shown("crash points", len(size.points))
    figures.exactly("crash points never killed at", len(size.points - nemesis.points), 0)
    figures.exactly("processes that ended by themselves", len(nemesis.ended), 0)


def _show_load(figures: Figures, history: History, following: list[Follower], size: Size) -> None:
    commands = [call for call in history.calls if call.operation is not Operation.READ]
    accepted = {c.intent_id for c in commands if c.operation is Operation.CREATE and c.result is Result.OK}
    figures.at_least("intents accepted", len(accepted), size.intents)
    doubted = {(call.account_id, call.key) for call in commands if call.result is Result.UNKNOWN}
    refused = {(call.account_id, call.key) for call in commands if call.result is Result.FAIL}
    answered = {(call.account_id, call.key) for call in commands if call.result is Result.OK}
    figures.shown("commands sent, retries included", len(commands))
    figures.shown("commands whose answer was lost", len(doubted))
    figures.exactly("commands without a definite answer", len(doubted - answered - refused), 0)
    figures.shown("commands refused", len(refused - answered))
    figures.shown("reads", len(history.calls) - len(commands))
    findings = compare(history.books).findings
    figures.shown("orders proven absent", len(findings[Finding.PROVEN_ABSENT]))
    figures.shown("orders refused by the broker", len(findings[Finding.REFUSED]))
    figures.shown("events", sum(history.heads.values()))
    figures.shown("streams broken and resumed", sum(follower.breaks for follower in following))
    figures.exactly("followers with a fault", sum(bool(follower.faults) for follower in following), 0)

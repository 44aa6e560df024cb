"""Load that goes on through any trouble: every command is asked for until its answer is definite, and written down."""

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from openbell import Action, AsyncClient, Conflict, Invalid, Market, OpenbellError, OutcomeUnknown, Unreachable
from openbell_server.devtools.demo import ledgers
from openbell_server.devtools.local_platform import LocalPlatform
from proof.books import resting_orders, until_at_rest, until_settled
from proof.figures import Figures
from proof.load import Follower, clients, submit_mixed
from proof.nemesis import Nemesis
from support.history.history import Call, Finding, History, Kind, Operation, Result
from support.history.recorder import RecordingTransport

READERS = 2
READ_SECONDS = 0.1
# Shorter than a pause of the api: some callers give up on an answer that is still being made.
CALL_SECONDS = 3.0
TRIES_MAX = 60
BACKOFF_SECONDS_MAX = 1.0
TROUBLE_SECONDS = 480
# How long an order may take to end whose commands are all settled: what has not ended by then rests at the broker.
SETTLE_SECONDS = 5
CANCEL_ROUNDS_MAX = 20
SENTENCES_MAX = 30


@dataclass
class Load:
    """Clients that ask with keys of their own, and again with the same key until the answer is definite."""

    name: str
    accounts: Sequence[str]
    intents: int
    # Intents a second while there is trouble; what is left is asked for as fast as it goes.
    rate: float
    # How long an order rests before it is cancelled or replaced.
    rest_seconds: float = 0
    # Whether to ask for more than that while there is still trouble.
    goes_on: bool = True
    # Set when there is no more trouble.
    over: asyncio.Event = field(default_factory=asyncio.Event)
    accepted: list[tuple[str, str]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _begun: float = field(default_factory=time.monotonic)
    _random: Random = field(default_factory=lambda: Random(1))

    async def work(self, client: AsyncClient, other: AsyncClient) -> None:
        """Ask for intents at the pace of all clients together while there is trouble, then for the rest at once."""
        for number in self._numbers:
            if number >= self.intents and (self.over.is_set() or not self.goes_on):
                return
            wait = self._begun + number / self.rate - time.monotonic()
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
            action = await _until_definite(
                lambda: submit_mixed(client, account, number, f"{self.name}-{number}", self.rest_seconds)
            )
            self.accepted.append((account, action.intent_id))

    async def _ask_for_nonsense(self, client: AsyncClient, number: int) -> None:
        account = self.accounts[number % len(self.accounts)]
        key = f"{self.name}-{number}-nonsense"
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


async def load_through(
    platform: LocalPlatform,
    nemesis: Nemesis,
    load: Load,
    client_count: int,
    calls: list[Call],
    trouble: Sequence[Coroutine[None, None, None]],
) -> None:
    """Load and trouble, until both are over."""
    async with _recorded_clients(platform, calls, client_count + READERS) as opened, asyncio.TaskGroup() as tasks:
        readers, workers = opened[:READERS], opened[READERS:]
        aside = [tasks.create_task(load.read(client)) for client in readers]
        aside.append(tasks.create_task(nemesis.watch()))
        working = [
            tasks.create_task(load.work(client, workers[(place + 1) % len(workers)]))
            for place, client in enumerate(workers)
        ]
        async with asyncio.timeout(TROUBLE_SECONDS), asyncio.TaskGroup() as troubling:
            for each in trouble:
                troubling.create_task(each)
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


async def end_what_rests(platform: LocalPlatform, calls: list[Call], *, but_flagged: bool = False) -> int:
    """Wait until all is settled, and cancel what a failed cancel or replace left working; how much is left."""
    await until_at_rest(platform)
    left = await until_settled(platform, SETTLE_SECONDS, but_flagged=but_flagged)
    async with _recorded_clients(platform, calls, 1) as (client,):
        for turn in range(CANCEL_ROUNDS_MAX):
            if not left:
                break
            for account, intent_id in await resting_orders(platform):
                key = f"again-{turn}-{intent_id}"
                # It may have ended by now.
                with contextlib.suppress(Conflict):
                    await client.cancel_intent(
                        intent_id, account_id=account, idempotency_key=key, client_reference_id=key
                    )
            await until_at_rest(platform)
            left = await until_settled(platform, SETTLE_SECONDS, but_flagged=but_flagged)
    return left


def show_load(figures: Figures, history: History, following: Sequence[Follower], intents: int) -> None:
    """What was asked, and what its callers heard."""
    commands = [call for call in history.calls if call.operation is not Operation.READ]
    accepted = {c.intent_id for c in commands if c.operation is Operation.CREATE and c.result is Result.OK}
    figures.at_least("intents accepted", len(accepted), intents)
    doubted = {(call.account_id, call.key) for call in commands if call.result is Result.UNKNOWN}
    refused = {(call.account_id, call.key) for call in commands if call.result is Result.FAIL}
    answered = {(call.account_id, call.key) for call in commands if call.result is Result.OK}
    figures.shown("commands sent, retries included", len(commands))
    figures.shown("commands whose answer was lost", len(doubted))
    figures.exactly("commands without a definite answer", len(doubted - answered - refused), 0)
    figures.shown("commands refused", len(refused - answered))
    figures.shown("reads", len(history.calls) - len(commands))
    findings = ledgers.compare(history.books).findings
    figures.shown("orders proven absent", len(findings[ledgers.Finding.PROVEN_ABSENT]))
    figures.shown("orders refused by the broker", len(findings[ledgers.Finding.REFUSED]))
    figures.shown("events", sum(history.heads.values()))
    figures.shown("streams broken and resumed", sum(follower.breaks for follower in following))
    figures.exactly("followers with a fault", sum(bool(follower.faults) for follower in following), 0)


def show_findings(figures: Figures, findings: Sequence[Finding]) -> None:
    """How much is wrong of every kind, and some of it in words."""
    counts = Counter(finding.kind for finding in findings)
    for kind in Kind:
        figures.exactly(kind, counts[kind], 0)
    for finding in findings[:SENTENCES_MAX]:
        print(f"{finding.kind}: {finding.sentence}", flush=True)

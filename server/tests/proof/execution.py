"""Executors, their broker and all around them are killed and paused under load, and every byte they write is counted.

Then every book is held against every other, and what left for the broker against what was asked for.
"""

import asyncio
import itertools
import shutil
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from openbell_server.brokers.paper.profiles import PROFILES
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.demo.ledgers import Books
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.orders.intents import ActionType
from proof.books import rows
from proof.figures import Figures
from proof.load import accounts_of, clients, followers
from proof.nemesis import Kill, Nemesis
from proof.persistent_load import SENTENCES_MAX, Load, end_what_rests, load_through, show_findings, show_load
from support.brokers.broker_writes import Write, excess_writes
from support.brokers.recording_proxy import BrokerSocket
from support.history.checker import check
from support.history.history import Call
from support.history.recorder import read_history

EXECUTORS = ("executor", "executor-2", "executor-3")
# As often as they matter here: whoever passes doors and whoever is behind them.
TURNS = ("executor", "paper", "executor-2", "api", "executor-3", "relay", "executor", "stream")
PROCESSES = tuple(dict.fromkeys(TURNS))
FAULTS = (
    "seed=7,slow_ms=60,"
    "hang=0.01,accept_then_hang=0.01,accept_then_reset=0.015,error_500_after_accept=0.015,refuse=0.01,"
    "refused_but_placed=0.01,accept_late=0.01,fill_before_ack=0.01,too_many_requests=0.01,"
    "duplicate_fills=0.05,reorder_fills=0.05,"
    "replace_hang=0.03,replace_then_hang=0.03,replace_then_reset=0.03,error_500_after_replace=0.03,replace_refuse=0.03,"
    "cancel_hang=0.03,cancel_then_hang=0.03,cancel_then_reset=0.03,error_500_after_cancel=0.03,cancel_refuse=0.03"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much load, and how much trouble; pauses are seconds between one and the next of a sort."""

    intents: int
    accounts: int
    clients: int
    rate: float
    executors: int
    kills: int
    killers: int
    kill_pause: float
    stops: int
    stoppers: int
    stop_seconds: tuple[float, float]


SIZES = {
    "full": Size(
        intents=10_000,
        accounts=48,
        clients=48,
        rate=25,
        executors=3,
        kills=150,
        killers=3,
        kill_pause=1,
        stops=50,
        stoppers=2,
        stop_seconds=(1, 30),
    ),
    "gate": Size(
        intents=100,
        accounts=8,
        clients=12,
        rate=25,
        executors=2,
        kills=3,
        killers=1,
        kill_pause=0.5,
        stops=1,
        stoppers=1,
        stop_seconds=(1, 1),
    ),
}
STOP_PAUSE_SECONDS = 0.5
REST_SECONDS = 2.0
CUT_EVERY = 97
LOGS = Path("build/proof/execution-logs")


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    # Kept after the run, so that a finding can be traced.
    shutil.rmtree(LOGS, ignore_errors=True)
    at_broker = BrokerSocket()
    with LocalPlatform(
        LOGS, {"OPENBELL_PAPER_FAULTS": FAULTS}, accounts=size.accounts, brokers=list(PROFILES)
    ) as platform:
        asyncio.run(_prove(figures, platform, at_broker, size))


async def _prove(figures: Figures, platform: LocalPlatform, at_broker: BrokerSocket, size: Size) -> None:
    nemesis = Nemesis(platform, stop_seconds=size.stop_seconds, lone_executor=False)
    calls: list[Call] = []
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(at_broker.before(platform.paper_url))
        platform.stack.executor_environment["OPENBELL_PAPER_PORT"] = str(at_broker.port)
        for name in EXECUTORS[: size.executors]:
            platform.stack.restart(name)
        following = await stack.enter_async_context(followers(platform, CUT_EVERY))
        load = Load("execution", accounts_of(platform), size.intents, size.rate, REST_SECONDS, goes_on=False)
        await load_through(platform, nemesis, load, size.clients, calls, _trouble(nemesis, size))
        _end_faults(platform)
        left = await end_what_rests(platform, calls, but_flagged=True)
        (client,) = await stack.enter_async_context(clients(platform, 1))
        # What is flagged may still be settled.
        history = await read_history(platform, client, calls, following)
    _show_trouble(figures, nemesis, size)
    show_load(figures, history, following, size.intents)
    figures.exactly("orders and actions unsettled in the end", left, 0)
    await _show_doubts(figures, platform)
    await _show_writes(figures, platform, at_broker.writes, history.books)
    show_findings(figures, check(history))


def _processes(turns: Sequence[str], size: Size) -> list[str]:
    return [process for process in turns if process not in EXECUTORS[size.executors :]]


def _trouble(nemesis: Nemesis, size: Size) -> list[Coroutine[None, None, None]]:
    kills = [Kill(process) for process in itertools.islice(itertools.cycle(_processes(TURNS, size)), size.kills)]
    stops = list(itertools.islice(itertools.cycle(_processes(PROCESSES, size)), size.stops))
    # The longest pauses come last, and not always to the same ones.
    Random(1).shuffle(stops)
    return [
        *(nemesis.kill_all(kills, size.kill_pause) for _ in range(size.killers)),
        *(nemesis.stop_all(stops[hand :: size.stoppers], STOP_PAUSE_SECONDS) for hand in range(size.stoppers)),
    ]


def _end_faults(platform: LocalPlatform) -> None:
    """A command that meets a fault meets it each time: what is repeated would never end."""
    platform.stack.environment["OPENBELL_PAPER_FAULTS"] = ""
    platform.stack.restart("paper")


def _show_trouble(figures: Figures, nemesis: Nemesis, size: Size) -> None:
    for process in _processes(PROCESSES, size):
        figures.shown(f"{process} killed, paused", f"{nemesis.kills[process]}, {nemesis.stops[process]}")
    shortest, longest = size.stop_seconds
    figures.at_least("processes killed", nemesis.kills.total(), size.kills)
    figures.at_least(f"processes paused for {shortest} to {longest} s", nemesis.stops.total(), size.stops)
    figures.exactly("processes that ended by themselves", len(nemesis.ended), 0)


async def _show_doubts(figures: Figures, platform: LocalPlatform) -> None:
    ((doubted, flagged, unflagged),) = await rows(
        platform.owner_url,
        "select count(*) filter (where unknown_since is not null or probes <> '[]'),"
        " count(*) filter (where flagged_at is not null),"
        " count(*) filter (where state = 'UNKNOWN' and flagged_at is null) from openbell.action_states",
    )
    figures.shown("actions whose outcome was unknown for a while", doubted)
    figures.shown("actions flagged", flagged)
    figures.exactly("actions UNKNOWN in the end and not flagged", unflagged, 0)


async def _show_writes(figures: Figures, platform: LocalPlatform, writes: Sequence[Write], books: Books) -> None:
    for action_type in ActionType:
        figures.shown(f"{action_type} written", sum(w.whole and w.action_type is action_type for w in writes))
    figures.shown("writes torn", sum(not write.whole for write in writes))
    figures.exactly("commands in the broker's ledger that its socket did not see", await _unseen(platform, writes), 0)
    found = await rows(platform.owner_url, "select action_id, resends from openbell.action_states where resends > 0")
    resends = {str(row["action_id"]): row["resends"] for row in found}
    figures.shown("repeats recorded", sum(resends.values()))
    found = await rows(platform.owner_url, "select account_id, broker from openbell.accounts")
    brokers = {str(row["account_id"]): BROKERS[row["broker"]].capabilities for row in found}
    excess = list(excess_writes(writes, books, resends, brokers))
    figures.exactly("commands written more often than allowed", len(excess), 0)
    for sentence in excess[:SENTENCES_MAX]:
        print(sentence, flush=True)


async def _unseen(platform: LocalPlatform, writes: Sequence[Write]) -> int:
    """How many more commands the broker recorded than came through its socket: none, or we counted elsewhere."""
    found = await rows(
        platform.stack.environment["OPENBELL_PAPER_DATABASE_URL"],
        "select kind, account_id, count(*) from requests where kind <> 'SIGN_IN' group by kind, account_id",
    )
    kinds = {ActionType.CREATE: "SUBMIT", ActionType.REPLACE: "REPLACE", ActionType.CANCEL: "CANCEL"}
    seen = Counter((kinds[write.action_type], write.account_id) for write in writes if write.whole)
    recorded = Counter({(row["kind"], str(row["account_id"])): row["count"] for row in found})
    return (recorded - seen).total()

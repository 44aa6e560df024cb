"""Everything is killed, paused and wiped, again and again, under load; then every book is held against every other."""

import asyncio
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from openbell_server.application.crash_points import POINTS
from openbell_server.devtools.local_platform import LocalPlatform
from proof.figures import Figures
from proof.load import accounts_of, clients, followers
from proof.nemesis import Kill, Nemesis
from proof.persistent_load import Load, end_what_rests, load_through, show_findings, show_load
from support.history.checker import check
from support.history.history import Call
from support.history.recorder import read_history

PROCESSES = ("executor", "api", "paper", "relay", "stream")
# Every point, in the order in which it is died at. The doubts follow a death past the door, which leaves one behind.
DEATHS: dict[str, tuple[tuple[str, ...], ...]] = {
    "api": (("api.after_accept",), ("api.before_accept",)),
    "relay": (("relay.after_claim",), ("relay.after_publish",), ("relay.after_complete",)),
    "stream": (("stream.before_event",), ("stream.after_event",)),
    "paper": (),
    "executor": (
        ("executor.after_door", "executor.inside_doubt", "executor.after_probe", "executor.inside_evidence"),
        ("executor.after_door", "executor.inside_resend", "executor.after_resend"),
        ("executor.before_tick", "executor.after_tick"),
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
CUT_EVERY = 53
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
        left = await end_what_rests(platform, calls)
        async with clients(platform, 1) as (client,):
            history = await read_history(platform, client, calls, following)
    _show_trouble(figures, nemesis, size)
    show_load(figures, history, following, size.intents)
    figures.exactly("orders and actions unsettled in the end", left, 0)
    show_findings(figures, check(history))


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
    kills = _plan(size)
    trouble = [
        *(nemesis.kill_all(kills, size.kill_pause) for _ in range(KILLERS)),
        nemesis.stop_all(size.stops, size.stop_pause),
        nemesis.trouble_all(size.services, size.service_pause),
    ]
    load = Load("restart", accounts_of(platform), size.intents, size.rate)
    await load_through(platform, nemesis, load, size.clients, calls, trouble)


def _show_trouble(figures: Figures, nemesis: Nemesis, size: Size) -> None:
    for process in PROCESSES:
        figures.at_least(f"{process} killed", nemesis.kills[process], size.kills)
    figures.at_least("processes paused for 5.5 s or longer", sum(nemesis.stops.values()), len(size.stops))
    for service, times in Counter(size.services).items():
        figures.at_least(SERVICES[service], nemesis.services[service], times)
    figures.shown("crash points", len(size.points))
    figures.exactly("crash points never killed at", len(size.points - nemesis.points), 0)
    figures.exactly("processes that ended by themselves", len(nemesis.ended), 0)

"""How fast the platform is beside the bare engines, measured in pairs on the same server in the same run."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from time import monotonic, perf_counter

import structlog
import uvloop

from openbell_server.application.intents.group_commit import GroupCommit
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.access.accounts import TradingAccount
from proof import accept_races, accept_to_wire, overload
from proof.engines import require_programs
from proof.figures import Figures
from proof.long_history import compare_histories
from proof.posting import Posted, post
from proof.relay_speed import relay_rate
from proof.speed_bench import ACCOUNTS, OPTIONS, SpeedBench, accepting, account_id, speed_bench

PAIRS = 5
SECONDS = 3.0


def prove(figures: Figures) -> None:
    if figures.size == "full":
        require_programs()
        with speed_bench() as bench:
            _warm(bench)
            _post(figures, bench)
            _accept(figures, bench)
            _relay(figures, bench)
            overload.measure(figures, bench)
        accept_to_wire.measure(figures)
        _history(figures)
    # A circle must be seen before a wait for a lock is given up.
    with speed_bench({"deadlock_timeout": "50ms"}) as bench:
        accept_races.measure(figures, bench)


def _history(figures: Figures) -> None:
    # The application runs in this process; a line per request would hide the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with LocalServices(OPTIONS) as services:
        asyncio.run(compare_histories(figures, services, 10_000, 1_000_000, PAIRS))


def _warm(bench: SpeedBench) -> None:
    bench.engines.floor(2)
    bench.same(1)


def _post(figures: Figures, bench: SpeedBench) -> None:
    marks = itertools.count(1)

    def posting(urls: Sequence[str], connections: int) -> Callable[[], float]:
        def once(start: int = 0) -> Posted:
            mark = f"{connections}-{next(marks)}"
            return post(bench.folder, urls, bench.tenant.key, bench.accounts, connections, SECONDS, mark, start)

        def run() -> float:
            posted = once()
            refused.append(posted.refused + posted.broken)
            latencies.append((posted.p50, posted.p99))
            return posted.rate

        # Until every server has seen every account.
        warmed = 0
        while warmed < ACCOUNTS:
            warmed += once(warmed).requests
        return run

    for connections, processes, bar in ((64, 1, 0.5), (256, 2, 0.65)):
        refused: list[int] = []
        latencies: list[tuple[float, float]] = []
        name = f"POST, {connections} connections, {processes} process{'es' * (processes > 1)}"
        with bench.serving(processes) as urls:
            run = posting(urls, connections)
            floors, rates, sames = [], [], []
            for _ in range(PAIRS):
                floors.append(bench.engines.floor(SECONDS))
                rates.append(run())
                if processes == 1:
                    sames.append(bench.same(SECONDS))
        figures.shown(f"{name}, commands/s, median", round(median(rates)))
        figures.shown(f"{name}, p50 ms, median", round(median(p50 for p50, _ in latencies), 1))
        figures.shown(f"{name}, p99 ms, median", round(median(p99 for _, p99 in latencies), 1))
        figures.shown("floor beside it, actions/s, median", round(median(floors)))
        figures.exactly(f"{name}: commands that were not accepted", sum(refused), 0)
        figures.at_least(f"{name} / floor", _ratio(rates, floors), bar)
        if sames:
            figures.shown("same beside it, calls/s, median", round(median(sames)))
            figures.at_least(f"{name} / same", _ratio(rates, sames), 1.0)


def _relay(figures: Figures, bench: SpeedBench) -> None:
    rates, bare = [], []
    for _ in range(PAIRS):
        bare.append(bench.engines.claim_and_complete(1))
        rates.append(relay_rate(bench))
    figures.shown("claim and complete, bare, rows/s, median", round(median(bare)))
    figures.shown("durable relay, rows/s, median", round(median(rates)))
    figures.at_least("durable relay / bare claim and complete", _ratio(rates, bare), 0.3)


def _ratio(ours: Sequence[float], bare: Sequence[float]) -> float:
    return round(median(mine / theirs for mine, theirs in zip(ours, bare, strict=True)), 3)


def _accept(figures: Figures, bench: SpeedBench) -> None:
    for accounts, bar in ((ACCOUNTS, 0.9), (1, 0.8)):
        rates, floors, cpu = [], [], []
        for _ in range(PAIRS):
            floors.append(bench.engines.floor(SECONDS))
            before = bench.postgres_cpu_seconds()
            rate, done, _ = uvloop.run(_accept_rate(bench, accounts, 128, SECONDS))
            rates.append(rate)
            cpu.append(1e6 * (bench.postgres_cpu_seconds() - before) / done)
        name = f"accept step alone, 128 at a time, {accounts} account{'s' * (accounts > 1)}"
        figures.shown(f"{name}, commands/s, median", round(median(rates)))
        figures.shown(f"{name}, PostgreSQL's CPU for a command, µs, median", round(median(cpu)))
        figures.at_least(f"{name} / floor", _ratio(rates, floors), bar)
    ours, bare = [], []
    for _ in range(PAIRS):
        bare.append(1000 / bench.engines.floor(SECONDS, clients=1))
        ours.append(uvloop.run(_accept_rate(bench, ACCOUNTS, 1, SECONDS))[2])
    figures.shown("accept step alone, one at a time, p50 ms", round(median(ours), 3))
    figures.shown("floor, one at a time, mean ms", round(median(bare), 3))
    figures.at_most("accept step alone, one at a time, p50 / floor", _ratio(ours, bare), 4)


async def _accept_rate(bench: SpeedBench, accounts: int, callers: int, seconds: float) -> tuple[float, int, float]:
    """Commands a second, how many that were, and the median of their times in milliseconds."""
    opened = [_numbered(bench, number) for number in range(1, accounts + 1)]
    took: list[float] = []
    async with accepting(bench.url) as (accept, _):
        await _accept_for(bench, accept, opened, callers, 0.3, [])
        begun = monotonic()
        await _accept_for(bench, accept, opened, callers, seconds, took)
        elapsed = monotonic() - begun
    return len(took) / elapsed, len(took), 1000 * median(took)


async def _accept_for(
    bench: SpeedBench,
    accept: GroupCommit,
    accounts: Sequence[TradingAccount],
    callers: int,
    seconds: float,
    took: list[float],
) -> None:
    end, numbers = monotonic() + seconds, itertools.count()
    receipt = bench.tenant.submission().receipt

    async def call() -> None:
        while monotonic() < end:
            number = next(numbers)
            submission = replace(
                bench.tenant.submission(receipt=receipt),
                account=accounts[number * 7919 % len(accounts)],
                idempotency_key=f"{begun}-{number}",
            )
            asked = perf_counter()
            answer = await accept(submission)
            assert answer.status == "ACCEPTED", answer
            took.append(perf_counter() - asked)

    begun = f"{monotonic():.6f}"
    await asyncio.gather(*(call() for _ in range(callers)))


def _numbered(bench: SpeedBench, number: int) -> TradingAccount:
    return replace(bench.tenant.account, id=account_id(number))

"""A whole platform whose CPU, statements and messages are counted while market orders go through it."""

import asyncio
import contextlib
import json
import re
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg

from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import PROCESSES, Stack
from proof import cost_statements
from proof.bursts import offer, plan_of
from proof.cost_cpu import CpuMeter, Snapshot, seconds_between, with_children
from proof.cost_load import Sent
from proof.cost_statements import Statement

# Vacuum or a checkpoint in the midst of a measurement would be measured.
OPTIONS: Final = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "autovacuum": "off",
    "checkpoint_timeout": "30min",
}
# Work that follows a fill, such as the relay's, belongs to the intent.
TAIL_SECONDS: Final = 1.0
# PostgreSQL adds the transactions of a connection to its statistics when that has been idle for ten seconds.
STATISTICS_SECONDS: Final = 11.0
POLL_SECONDS: Final = 0.05
STALLED_SECONDS: Final = 120.0
LONG_WAY: Final = "openbell_executor_long_way_total"
_LEFT: Final = """
select $1 - (select count(*) from openbell.orders where standing = 'CLOSED')
    + (select count(*) from openbell.action_states where settled_at is null)
"""
_LEDGERS: Final = """
select count(*) as orders, (select count(*) from openbell.executions) as executions,
    (select extract(epoch from max(recorded_at))::float8 from openbell.executions) as last_fill
from openbell.orders where close_reason = 'FILLED'
"""
_UNFILLED: Final = """
select concat_ws(' ', 'order', o.standing, o.close_reason, o.certainty, 'action', s.state, 'flagged ' || s.flagged_at)
    as told, count(*) as orders
from openbell.orders o join openbell.action_states s on s.account_id = o.account_id and s.intent_id = o.order_id
where o.close_reason is distinct from 'FILLED' group by 1 order by 2 desc limit 5
"""
_POSITION: Final = """
select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as wal,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint as transactions
"""
_COMMITS: Final = """
select datname, xact_commit from pg_stat_database where datname in ('openbell', 'openbell_paper')
"""

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters at one moment."""

    cpu: Snapshot
    wal_bytes: int
    writing_transactions: int
    nats_in: int
    nats_out: int


@dataclass(frozen=True, slots=True)
class Idle:
    """What the platform does in a second without intents."""

    seconds: float
    cpu_millis: dict[str, float]
    wal_bytes: float
    writing_transactions: float
    nats_in: float
    nats_out: float

    @property
    def total_millis(self) -> float:
        return sum(self.cpu_millis.values())


@dataclass(frozen=True, slots=True)
class Run:
    """What intents cost, each figure for one intent and without what the platform does when idle."""

    accounts: int
    intents: int
    accepted: int
    # In the platform's ledger and in the broker's; as many as intents, if each was filled exactly once.
    filled: int
    executions: int
    broker_orders: int
    seconds: float
    fills_per_second: float
    p50_millis: float
    p99_millis: float
    # Milliseconds, by process.
    cpu_millis: dict[str, float]
    load_millis: float
    wal_bytes: float
    writing_transactions: float
    nats_in: float
    nats_out: float
    # None if the executor has no such metric.
    long_way: float | None
    # Why intents were not filled, if any were not.
    unfilled: list[str]

    @property
    def platform_millis(self) -> float:
        return sum(self.cpu_millis.values())

    @property
    def all_millis(self) -> float:
        return self.platform_millis + self.load_millis

    @property
    def is_exact(self) -> bool:
        """Whether each intent was accepted and filled exactly once, by both ledgers."""
        return {self.accepted, self.filled, self.executions, self.broker_orders} == {self.intents}


@dataclass(frozen=True, slots=True)
class Counted:
    """Statements and transactions for one intent, by database; empty where PostgreSQL cannot count them."""

    statements: dict[str, float]
    # Also those that only read; empty if there was no time for PostgreSQL's statistics.
    transactions: dict[str, float]
    by_statement: list[Statement]
    # Its CPU includes that of counting.
    run: Run


@dataclass(frozen=True, slots=True)
class _Ledgers:
    orders: int
    executions: int
    broker_orders: int
    last_fill: float


@dataclass
class CostPlatform:
    """Intents for a started platform, and the counters around them."""

    platform: LocalPlatform
    _meter: CpuMeter
    _database: asyncpg.Connection
    _paper: asyncpg.Connection
    # For statistics; not in a database whose transactions are counted.
    _aside: asyncpg.Connection
    _submitted: int = 0
    _polls: int = 0
    _marks: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    async def idle(self, seconds: float) -> Idle:
        first = await self._read()
        await asyncio.sleep(seconds)
        last = await self._read()
        elapsed = last.cpu.taken_at - first.cpu.taken_at
        cpu = seconds_between(first.cpu, last.cpu)
        return Idle(
            seconds=elapsed,
            cpu_millis={label: 1000 * spent / elapsed for label, spent in cpu.items()},
            wal_bytes=(last.wal_bytes - first.wal_bytes) / elapsed,
            writing_transactions=(last.writing_transactions - first.writing_transactions) / elapsed,
            nats_in=(last.nats_in - first.nats_in) / elapsed,
            nats_out=(last.nats_out - first.nats_out) / elapsed,
        )

    async def run(self, intents: int, idle: Idle, rate: float = 0) -> Run:
        """So many intents, at a rate or as fast as they are accepted, until all are filled."""
        ledgers, long_way = await self._ledgers(), await self._long_way()
        first = await self._read()
        sent = await self._submit(intents, rate)
        await self._until_filled()
        await asyncio.sleep(TAIL_SECONDS)
        last = await self._read()
        after, long_way_after = await self._ledgers(), await self._long_way()
        elapsed = last.cpu.taken_at - first.cpu.taken_at

        def each(total: float, idle_rate: float) -> float:
            return (total - idle_rate * elapsed) / intents

        cpu = seconds_between(first.cpu, last.cpu)
        return Run(
            accounts=len(self.platform.seeded.account_ids),
            intents=intents,
            accepted=sent.accepted,
            filled=after.orders - ledgers.orders,
            executions=after.executions - ledgers.executions,
            broker_orders=after.broker_orders - ledgers.broker_orders,
            seconds=elapsed,
            fills_per_second=intents / (after.last_fill - sent.began_at),
            p50_millis=sent.p50_millis,
            p99_millis=sent.p99_millis,
            cpu_millis={label: each(1000 * spent, idle.cpu_millis.get(label, 0)) for label, spent in cpu.items()},
            load_millis=1000 * sent.cpu_seconds / intents,
            wal_bytes=each(last.wal_bytes - first.wal_bytes, idle.wal_bytes),
            writing_transactions=each(
                last.writing_transactions - first.writing_transactions, idle.writing_transactions
            ),
            nats_in=each(last.nats_in - first.nats_in, idle.nats_in),
            nats_out=each(last.nats_out - first.nats_out, idle.nats_out),
            long_way=None if long_way_after is None else (long_way_after - (long_way or 0)) / intents,
            unfilled=[*sent.refusals, *await self._unfilled()],
        )

    async def warm(self, intents: int) -> None:
        """Intents that are not measured: caches are filled and plans are made."""
        await self._submit(intents, 0)
        await self._until_filled()
        await asyncio.sleep(TAIL_SECONDS)

    async def counted(self, intents: int, idle_seconds: float, *, with_transactions: bool) -> Counted:
        """Statements, and transactions if there is time for them, of so many intents as fast as they are accepted."""
        pause = STATISTICS_SECONDS if with_transactions else TAIL_SECONDS
        await self.count_statements("top")
        nothing, idle = await self._counts(self.idle(idle_seconds), pause)
        run, busy = await self._counts(self.run(intents, nothing), pause)
        await self.count_statements("none")

        def net(key: tuple[str, str]) -> float:
            return (busy.calls.get(key, 0) - idle.calls.get(key, 0) * busy.seconds / idle.seconds) / intents

        by_statement = cost_statements.merged(
            Statement(database, cost_statements.name_of(query), net((database, query)), millis / intents)
            for (database, query), millis in busy.millis.items()
        )
        databases = {statement.database for statement in by_statement}
        transactions = {
            name: (commits - idle.commits[name] * busy.seconds / idle.seconds) / intents
            for name, commits in busy.commits.items()
        }
        return Counted(
            {name: sum(each.calls for each in by_statement if each.database == name) for name in sorted(databases)},
            transactions if with_transactions else {},
            by_statement,
            run,
        )

    async def count_statements(self, which: str) -> None:
        """Which statements PostgreSQL counts: none, or those at top level."""
        if cost_statements.is_countable():
            await self._aside.execute("create extension if not exists pg_stat_statements")
            await self._aside.execute(f"alter system set {cost_statements.LIBRARY}.track = '{which}'")
            await self._aside.execute("select pg_reload_conf()")
            await asyncio.sleep(0.2)

    async def _counts(self, doing: Awaitable[Done], pause: float) -> tuple[Done, "_Counts"]:
        """What the databases count while something is done, and then until their statistics are complete."""
        countable = cost_statements.is_countable()
        if countable:
            await self._aside.execute("select pg_stat_statements_reset()")
        begun, polls, commits = time.monotonic(), self._polls, await self._commits()
        done = await doing
        await asyncio.sleep(pause)
        counts = _Counts(time.monotonic() - begun)
        for row in await self._aside.fetch(cost_statements.READ) if countable else ():
            key = (row["database"], row["query"])
            counts.calls[key] = counts.calls.get(key, 0) + row["calls"]
            counts.millis[key] = counts.millis.get(key, 0) + row["millis"]
        counts.commits.update({name: number - commits[name] for name, number in (await self._commits()).items()})
        counts.commits["openbell"] -= self._polls - polls
        return done, counts

    async def _commits(self) -> dict[str, int]:
        return {row["datname"]: row["xact_commit"] for row in await self._aside.fetch(_COMMITS)}

    async def _read(self) -> Reading:
        (position,) = await self._aside.fetch(_POSITION)
        nats = await asyncio.to_thread(_fetch, f"{self.platform.services.nats.monitor_url}/varz")
        told = json.loads(nats)
        return Reading(
            self._meter.read(),
            int(position["wal"]),
            position["transactions"],
            told["in_msgs"],
            told["out_msgs"],
        )

    async def _ledgers(self) -> _Ledgers:
        self._polls += 1
        (row,) = await self._database.fetch(_LEDGERS)
        broker_orders = await self._paper.fetchval("select count(*) from orders")
        return _Ledgers(row["orders"], row["executions"], broker_orders, row["last_fill"] or 0.0)

    async def _unfilled(self) -> list[str]:
        self._polls += 1
        return [f"{row['orders']} × {row['told']}" for row in await self._database.fetch(_UNFILLED)]

    async def _long_way(self) -> float | None:
        reasons = await long_way(self.platform)
        return None if reasons is None else sum(reasons.values())

    async def _submit(self, intents: int, rate: float) -> Sent:
        sent = await offer(replace(plan_of(self.platform, f"cost-{next(self._marks)}", intents), rate=rate))
        self._submitted += sent.accepted
        return sent

    async def _until_filled(self) -> None:
        """Return when every accepted intent has ended, filled or not; raises TimeoutError if nothing changes."""
        lowest, deadline = sys.maxsize, 0.0
        while True:
            self._polls += 1
            left = await self._database.fetchval(_LEFT, self._submitted)
            if left <= 0:
                return
            if left < lowest:
                lowest, deadline = left, time.monotonic() + STALLED_SECONDS
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} intents have not ended: {await self._unfilled()}")
            await asyncio.sleep(POLL_SECONDS)


@dataclass
class _Counts:
    seconds: float
    calls: dict[tuple[str, str], float] = field(default_factory=dict)
    millis: dict[tuple[str, str], float] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)


def processes_of(stack: Stack) -> Sequence[str]:
    """The code before has no choice of processes."""
    return getattr(stack, "processes", PROCESSES)


@contextlib.contextmanager
def started(
    logs: Path,
    accounts: int,
    settings: Mapping[str, str] | None = None,
    *,
    counts_statements: bool = True,
    processes: Sequence[str] = PROCESSES,
) -> Iterator[LocalPlatform]:
    """A platform with a new database."""
    chosen: dict[str, Any] = {} if processes == PROCESSES else {"processes": processes}
    platform = LocalPlatform(logs, settings, accounts, **chosen)
    counting = cost_statements.OPTIONS if counts_statements and cost_statements.is_countable() else {}
    platform.services = LocalServices({**OPTIONS, **counting})
    with platform:
        yield platform


async def long_way(platform: LocalPlatform) -> dict[str, float] | None:
    """What took the long way since the executor started, by reason; None if the executor has no such metric."""
    process = "back" if "all" in processes_of(platform.stack) else "executor"
    metrics = await asyncio.to_thread(_fetch, f"{platform.stack.operations_url(process)}/metrics")
    if LONG_WAY not in metrics:
        return None
    return {labels: float(value) for labels, value in re.findall(rf"(?m)^{LONG_WAY}(?:{{(.*)}})? (\S+)", metrics)}


def meter_of(platform: LocalPlatform) -> CpuMeter:
    """The CPU of its processes as they are now, of NATS and of PostgreSQL."""
    services = platform.services
    assert services.nats.pid
    assert services.postgres.pid
    processes = with_children({name: platform.stack.pid(name) for name in processes_of(platform.stack)})
    return CpuMeter({**processes, "nats": services.nats.pid}, services.postgres.pid)


@contextlib.asynccontextmanager
async def metered(platform: LocalPlatform) -> AsyncIterator[CostPlatform]:
    """The same with its counters."""
    services, meter = platform.services, meter_of(platform)
    async with contextlib.AsyncExitStack() as cleanup:

        async def connect(database: str) -> asyncpg.Connection:
            connection = await asyncpg.connect(services.postgres.url(database), timeout=60)
            cleanup.push_async_callback(connection.close)
            return connection

        cost = CostPlatform(
            platform, meter, await connect("openbell"), await connect("openbell_paper"), await connect("postgres")
        )
        # Counting costs CPU.
        await cost.count_statements("none")
        yield cost


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        told: bytes = answer.read()
    return told.decode()

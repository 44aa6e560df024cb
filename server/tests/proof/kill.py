"""Halts are set under load with NATS and Redis away, at every scope; the broker's socket and ledger judge what is said.

Commands wait in queues and others are in flight at a broker that is slow, loses answers and refuses cancels at first.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx

from openbell import AsyncClient, HaltReport, Limit, Unavailable
from openbell_server.adapters.postgres.operators.halt_operators import PostgresHaltOperators
from openbell_server.adapters.postgres.operators.operators import operator_store
from openbell_server.application.execution.execute_action import DOOR_SECONDS
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders.intents import ActionType
from proof.figures import Figures
from proof.load import accounts_of, clients
from support.brokers.recording_proxy import BrokerSocket

EXECUTORS = ("executor", "executor-2", "executor-3")
SLOW = {"slow_ms": 1_500}
FAULTY = SLOW | {"accept_then_hang": 0.06, "accept_then_reset": 0.04, "refuse": 0.02, "hang": 0.02}
STUBBORN = FAULTY | {"cancel_refuse": 0.2, "cancel_then_hang": 0.1}
POLL_SECONDS = 0.05
LOAD_SECONDS = 120.0
LOGS = Path("build/proof/kill-logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One halt: how much waits and flies when it comes, how the broker behaves, and when it behaves again."""

    scope: str
    queued: int
    in_flight: int
    faults: Mapping[str, float]
    mend_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many accounts, executors and submitters, and the rounds."""

    accounts: int
    submitters: int
    executors: int
    rounds: tuple[Round, ...]
    seconds: float
    # Whether orders are asked for while no executor runs: nobody asks faster than they work.
    fills_first: bool = False


SIZES = {
    "full": Size(
        accounts=12,
        submitters=24,
        executors=3,
        seconds=180,
        fills_first=True,
        rounds=(
            Round(scope="ACCOUNT", queued=1_000, in_flight=50, faults=STUBBORN, mend_seconds=15),
            # Slow: executors go on while the command that halts is started, and would send all that waits.
            Round(scope="ORGANIZATION", queued=1_000, in_flight=50, faults=STUBBORN | SLOW, mend_seconds=15),
            Round(scope="PLATFORM", queued=1_000, in_flight=50, faults=STUBBORN | SLOW, mend_seconds=15),
        ),
    ),
    "gate": Size(
        accounts=1,
        submitters=8,
        executors=1,
        # Counts decide: a machine that stands still has its time.
        seconds=300,
        rounds=(
            Round(scope="ACCOUNT", queued=20, in_flight=3, faults=SLOW | {"cancel_refuse": 0.3}, mend_seconds=1),
            # More: the executor goes on while the command that halts is started.
            Round(scope="ORGANIZATION", queued=40, in_flight=3, faults=SLOW, mend_seconds=0),
            Round(scope="PLATFORM", queued=40, in_flight=3, faults=SLOW, mend_seconds=0),
        ),
    ),
}


@dataclass
class Seen:
    """What a round showed."""

    # When the halt of each account was in force, and its report in the end.
    since: dict[str, datetime] = field(default_factory=dict)
    reports: dict[str, HaltReport] = field(default_factory=dict)
    # Answers that no order works, and those of them that the ledger contradicts.
    said: int = 0
    lies: int = 0
    asked: int = 0
    # Seconds until the last account was said to have no working order.
    until_said: float = 0.0


@dataclass
class Stage:
    """A platform, its broker's socket and ledger, and callers."""

    platform: LocalPlatform
    at_broker: BrokerSocket
    callers: Sequence[AsyncClient]
    owner: "asyncpg.Connection[asyncpg.Record]"
    ledger: "asyncpg.Connection[asyncpg.Record]"

    @property
    def accounts(self) -> list[str]:
        return accounts_of(self.platform)


def prove(figures: Figures) -> None:
    # Kept after the run, so that a finding can be traced.
    shutil.rmtree(LOGS, ignore_errors=True)
    size = SIZES[figures.size]
    with LocalPlatform(LOGS, accounts=size.accounts, with_redis=True) as platform:
        asyncio.run(_prove(figures, platform, size))


async def _prove(figures: Figures, platform: LocalPlatform, size: Size) -> None:
    at_broker = BrokerSocket()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(at_broker.before(platform.paper_url))
        platform.stack.executor_environment["OPENBELL_PAPER_PORT"] = str(at_broker.port)
        for name in EXECUTORS[: size.executors]:
            platform.stack.restart(name)
        callers = await stack.enter_async_context(clients(platform, size.submitters))
        paper_url = platform.stack.environment["OPENBELL_PAPER_DATABASE_URL"]
        owner, ledger = await asyncpg.connect(platform.owner_url), await asyncpg.connect(paper_url)
        stack.push_async_callback(owner.close)
        stack.push_async_callback(ledger.close)
        stage = Stage(platform, at_broker, callers, owner, ledger)
        for one in size.rounds:
            at_broker.writes.clear()
            begun = time.monotonic()
            await _load(figures, stage, one, EXECUTORS[: size.executors] if size.fills_first else ())
            seen = await _halt_and_follow(stage, one, size.seconds)
            await _show(figures, stage, one, seen)
            figures.shown(f"{one.scope}: seconds", round(time.monotonic() - begun, 1))
            await _resume(stage, one)
    figures.exactly("processes that ended by themselves", len(platform.stack.watch()), 0)


async def _load(figures: Figures, stage: Stage, one: Round, executors: Sequence[str]) -> None:
    """Ask for orders that rest until enough wait and fly, and take NATS and Redis away."""
    await _for_all(stage, lambda caller, account: caller.set_fault_plan(one.faults, seed=7, account_id=account))
    for name in executors:
        stage.platform.stack.stop(name)
    # What flies or was taken meanwhile waits no more, so more is asked for than has to wait.
    asked, done = 0, asyncio.Event()

    async def submit(caller: AsyncClient) -> None:
        nonlocal asked
        while not done.is_set():
            asked += 1
            account = stage.accounts[asked % len(stage.accounts)]
            try:
                await caller.buy("AAPL", Limit(5, price="0.01"), account_id=account)
            except Unavailable:
                # As many wait as the api accepts.
                await asyncio.sleep(POLL_SECONDS)

    submitting = [asyncio.ensure_future(submit(caller)) for caller in stage.callers]
    try:
        async with asyncio.timeout(LOAD_SECONDS):
            if executors:
                await _until_loaded(stage, one.queued + 4 * one.in_flight, 0)
                for name in executors:
                    stage.platform.stack.start(name)
            await _until_loaded(stage, one.queued, one.in_flight)
            stage.platform.services.nats.kill()
            assert stage.platform.services.redis is not None
            stage.platform.services.redis.kill()
            await _until_loaded(stage, one.queued, one.in_flight)
    finally:
        done.set()
        await asyncio.gather(*submitting)
    figures.shown(f"{one.scope}: queued, in flight before the halt", ", ".join(map(str, await _waiting(stage))))


async def _waiting(stage: Stage) -> tuple[int, int]:
    row = await stage.owner.fetchrow(
        "select count(*) filter (where state = 'QUEUED'), count(*) filter (where state = 'DISPATCHING')"
        " from openbell.action_states where settled_at is null"
    )
    assert row is not None
    return row[0], row[1]


async def _until_loaded(stage: Stage, queued: int, in_flight: int) -> None:
    while True:
        waits, flies = await _waiting(stage)
        if waits >= queued and flies >= in_flight:
            return
        await asyncio.sleep(POLL_SECONDS)


async def _for_all(stage: Stage, act: Callable[[AsyncClient, str], Awaitable[object]]) -> None:
    pairs = [(stage.callers[place % len(stage.callers)], account) for place, account in enumerate(stage.accounts)]
    await asyncio.gather(*(act(*pair) for pair in pairs))


async def _halt_and_follow(stage: Stage, one: Round, seconds: float) -> Seen:
    seen, begun, mended = Seen(), time.monotonic(), False
    await _halt(stage, one.scope)
    while time.monotonic() - begun < seconds:
        if not mended and time.monotonic() - begun >= one.mend_seconds:
            mended = True
            await _for_all(stage, lambda caller, account: caller.set_fault_plan({}, account_id=account))
        for place, account in enumerate(stage.accounts):
            report = await stage.callers[place % len(stage.callers)].halt_report(account)
            seen.asked, seen.reports[account] = seen.asked + 1, report
            seen.since[account] = report.since
            if report.no_working_orders:
                seen.said += 1
                # Read after the answer: what works now worked then, since nothing new can begin.
                seen.lies += bool(await _working(stage, account))
        if mended and all(report.no_working_orders for report in seen.reports.values()):
            seen.until_said = time.monotonic() - begun
            break
        await asyncio.sleep(POLL_SECONDS)
    return seen


async def _working(stage: Stage, account: str) -> int:
    statement = "select count(*) from orders where account_id = $1 and status = 'WORKING'"
    return int(await stage.ledger.fetchval(statement, UUID(account)))


async def _halt(stage: Stage, scope: str) -> None:
    """An account's over REST; those of many by the operator's command, which knows the database only."""
    if scope == "ACCOUNT":
        settings = stage.platform.client_environment()
        headers = {"x-api-key": settings["OPENBELL_API_KEY"]}
        async with httpx.AsyncClient(base_url=settings["OPENBELL_URL"], headers=headers, timeout=60) as http:
            body = {"status": "HALTED", "cancel_working": True, "reason": "a proof"}
            paths = [f"/v1/controls/switches?scope=ACCOUNT&account_id={account}" for account in stage.accounts]
            answers = await asyncio.gather(*(http.put(path, json=body) for path in paths))
        assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
        return
    await _operate(stage, "halt", scope)


async def _operate(stage: Stage, command: str, scope: str) -> None:
    of = ["--organization", str(stage.platform.seeded.organization_id)] if scope == "ORGANIZATION" else []
    words = [sys.executable, "-m", "openbell_server", command, *of, "--reason", "a proof", "--yes", "--json"]
    environment = stage.platform.stack.environment_of("api") | {"OPENBELL_DATABASE_URL": stage.platform.owner_url}
    done = await asyncio.to_thread(
        subprocess.run, words, env=environment, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["scope"] == scope


async def _show(figures: Figures, stage: Stage, one: Round, seen: Seen) -> None:
    rows = await stage.owner.fetch(
        "select account_id::text, action_id, action_type, state, reason_code, send_started_at"
        " from openbell.action_states"
    )
    late = sum(
        row["action_type"] != "CANCEL"
        and row["send_started_at"] is not None
        and row["send_started_at"] > seen.since[row["account_id"]]
        for row in rows
    )
    name, halts = one.scope, [*seen.reports.values()]
    figures.exactly(f"{name}: doors opened after the halt", late, 0)
    figures.exactly(f"{name}: doors opened after it by the report", sum(h.doors_opened_after or 0 for h in halts), 0)
    listed = {client_order_id(ActionId(UUID(c.action_id))) for h in halts for c in h.in_flight_commands}
    doors = {client_order_id(row["action_id"]): row["send_started_at"] for row in rows}
    creates = [write for write in stage.at_broker.writes if write.action_type is ActionType.CREATE]
    after = [write for write in creates if write.seen_at > seen.since[write.account_id].timestamp()]
    figures.shown(f"{name}: in flight at the halt by the report", len(listed))
    _at_least(figures, f"{name}: in flight at the halt", sum(halt.in_flight for halt in halts), one.in_flight // 2)
    figures.shown(f"{name}: orders written after the halt through earlier doors", len(after))
    figures.exactly(f"{name}: of these not listed", sum(w.client_order_id not in listed for w in after), 0)
    slow = [write for write in creates if write.seen_at > doors[write.client_order_id or ""].timestamp() + DOOR_SECONDS]
    late = f"{name}: orders written later than 2 s after their door"
    # A machine that stands still for seconds decides this one.
    if figures.size == "full":
        figures.exactly(late, len(slow), 0)
    else:
        figures.shown(late, len(slow))
    _at_least(figures, f"{name}: queued commands skipped", sum(halt.skipped for halt in halts), one.queued // 2)
    figures.shown(f"{name}: cancels asked, confirmed", f"{_sum(halts, 'asked')}, {_sum(halts, 'confirmed')}")
    figures.exactly(f"{name}: cancels still waiting", _sum(halts, "waiting"), 0)
    figures.shown(f"{name}: reports requested, of them without working orders", f"{seen.asked}, {seen.said}")
    figures.exactly(f"{name}: reported without working orders while the broker had one", seen.lies, 0)
    quiet = sum(report.no_working_orders is True for report in seen.reports.values())
    figures.exactly(f"{name}: accounts reported without working orders in the end", quiet, len(stage.accounts))
    if quiet < len(stage.accounts):
        print(*{report.why for report in seen.reports.values()}, sep="\n", flush=True)
    lasts = [(h.cancels.last_confirmed_at - h.since).total_seconds() for h in halts if h.cancels.last_confirmed_at]
    figures.shown(f"{name}: seconds from the halt to the last confirmed cancel", round(max(lasts, default=0.0), 2))
    figures.shown(f"{name}: seconds from the halt to the last report of the broker", round(seen.until_said, 2))


def _at_least(figures: Figures, figure: str, value: int, bar: int) -> None:
    """How much the halt meets depends on how fast the executors are before it: no verdict of the gate."""
    if figures.size == "full":
        figures.at_least(figure, value, bar)
    else:
        figures.shown(figure, value)


def _sum(halts: Sequence[HaltReport], figure: str) -> int:
    return sum(getattr(halt.cancels, figure) for halt in halts)


async def _resume(stage: Stage, one: Round) -> None:
    """Only a person lifts a halt: no key may."""
    stage.platform.services.nats.start()
    assert stage.platform.services.redis is not None
    stage.platform.services.redis.start()
    if one.scope != "ACCOUNT":
        await _operate(stage, "resume", one.scope)
        return
    async with operator_store(stage.platform.owner_url, "proof") as store:
        for account in stage.accounts:
            operators = PostgresHaltOperators(store.pool, store.operator)
            await operators.set_switch(None, UUID(account), SwitchState.ACTIVE, "the proof goes on")

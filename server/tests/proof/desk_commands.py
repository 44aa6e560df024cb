"""Desk commands at a paper broker that loses answers and refuses cancels, while executors are killed.

`cancel_all_under_faults` takes what starts the cancelling, so that other parts can judge theirs in the same way.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import asyncpg

from openbell import AsyncClient, DeskCommand, Limit
from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.identifiers import ActionId, client_order_id
from proof.figures import Figures
from proof.load import accounts_of
from support.brokers.paper_broker import until
from support.builders.tenant import a_key

EXECUTOR = "executor"
SYMBOL, OTHER_SYMBOL = "AAPL", "MSFT"
# Cancels that are lost, refused, or done without an answer, and new orders whose answer is lost.
FAULTS = {
    "cancel_refuse": 0.2,
    "cancel_then_hang": 0.1,
    "cancel_hang": 0.1,
    "accept_then_hang": 0.1,
    "accept_then_reset": 0.1,
    "slow_ms": 50,
}
AT_ONCE = 16
# What the broker's ledger shows for an order with this outcome; nothing where it never had it.
IN_LEDGER = {"CANCELED": "CANCELED", "FILLED": "FILLED", "SKIPPED": None, "FAILED": None, "REJECTED": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many orders are cancelled, how many of them rest before the faults begin, and how often executors die."""

    orders: int
    resting: int
    kills: int
    # The broker misbehaves for so long after the last of them.
    fault_seconds: float
    # Counts decide: a machine that stands still has its time.
    seconds: float = 300.0


SIZES = {
    "full": Size(orders=600, resting=500, kills=5, fault_seconds=30.0),
    "gate": Size(orders=60, resting=45, kills=1, fault_seconds=1.5),
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A platform with its databases, a caller whose orders are cancelled, and one with a key of its own."""

    platform: LocalPlatform
    caller: AsyncClient
    other: AsyncClient
    owner: "asyncpg.Connection[asyncpg.Record]"
    ledger: "asyncpg.Connection[asyncpg.Record]"

    @property
    def account_id(self) -> str:
        return accounts_of(self.platform)[0]


@dataclass(frozen=True, slots=True)
class Orders:
    """Intents by what a cancelling of one symbol of one key concerns."""

    resting: frozenset[str]
    fresh: frozenset[str]
    outside: frozenset[str]


Start = Callable[[], Awaitable[DeskCommand]]


@asynccontextmanager
async def at_stage(platform: LocalPlatform) -> AsyncIterator[Stage]:
    settings, paper_url = platform.client_environment(), platform.stack.environment["OPENBELL_PAPER_DATABASE_URL"]
    url = settings["OPENBELL_URL"]
    async with AsyncExitStack() as stack:
        async with await open_pool(platform.owner_url) as pool:
            _, key = await a_key(pool, platform.seeded.organization_id)
        caller, other = [
            await stack.enter_async_context(AsyncClient(each, url, account_id=settings["OPENBELL_ACCOUNT"]))
            for each in (settings["OPENBELL_API_KEY"], key)
        ]
        owner, ledger = await asyncpg.connect(platform.owner_url), await asyncpg.connect(paper_url)
        stack.push_async_callback(owner.close)
        stack.push_async_callback(ledger.close)
        yield Stage(platform, caller, other, owner, ledger)


async def place_orders(stage: Stage, size: Size) -> Orders:
    """Orders that rest at the broker; then, while it misbehaves, some that are queued, in flight, unknown or filled."""
    beside = accounts_of(stage.platform)[1]
    few = max(4, size.orders // 20)
    resting = await _buy(stage.caller, size.resting)
    outside = [
        *await _buy(stage.caller, few, symbol=OTHER_SYMBOL),
        *await _buy(stage.other, few),
        *await _buy(stage.caller, few, account_id=beside),
    ]
    await _until_resting(stage, [*resting, *outside])
    await stage.caller.set_fault_plan(FAULTS, seed=7)
    # Every third is filled at once.
    fresh = await _buy(stage.caller, size.orders - size.resting, fills=3)
    return Orders(frozenset(resting), frozenset(fresh), frozenset(outside))


async def _buy(
    client: AsyncClient, count: int, *, symbol: str = SYMBOL, account_id: str | None = None, fills: int = 0
) -> list[str]:
    places = asyncio.Semaphore(AT_ONCE)

    async def buy(number: int) -> str:
        order = 1 if fills and number % fills == 0 else Limit(1, price="0.01")
        async with places:
            return (await client.buy(symbol, order, account_id=account_id, allow_duplicate=True)).intent_id

    return list(await asyncio.gather(*map(buy, range(count))))


async def cancel_all_under_faults(figures: Figures, stage: Stage, size: Size, start: Start | None = None) -> None:
    """Cancel the caller's orders of one symbol, by a desk command or by what `start` does, and compare every outcome.

    `start` returns the command that resulted.
    """
    orders = await place_orders(stage, size)
    begun = time.monotonic()
    command = await (start or _twice(stage))()
    await _kill_executors(stage, size.kills)
    await asyncio.sleep(size.fault_seconds)
    await stage.caller.remove_fault_plan()
    await _wait(figures, stage, command, size, "cancel all")
    figures.shown("cancel all: seconds from the command to its end", round(time.monotonic() - begun, 1))
    await compare_with_ledger(figures, stage, command, orders)


def _twice(stage: Stage) -> Start:
    """The same command under the same key, which is one command."""

    async def start() -> DeskCommand:
        key = await stage.owner.fetchval(
            "select principal_id from openbell.intent_actions where account_id = $1 and seq = 1"
            " order by action_no limit 1",
            UUID(stage.account_id),
        )
        asked = [stage.caller.cancel_all(symbol=SYMBOL, api_key_id=key, idempotency_key="cancel-all") for _ in range(2)]
        first, second = await asyncio.gather(*asked)
        assert first.id == second.id, "one key recorded two commands"
        return first

    return start


async def _kill_executors(stage: Stage, kills: int) -> None:
    """Each while it cancels: after the number of recorded cancels grew."""
    for _ in range(kills):
        before = await _cancels(stage)

        async def is_cancelling(before: int = before) -> bool:
            return await _cancels(stage) > before or await _waits_for_broker(stage)

        await until(is_cancelling, 120)
        stage.platform.stack.kill(EXECUTOR)
        stage.platform.stack.start(EXECUTOR)
        await asyncio.to_thread(stage.platform.stack.wait_ready, EXECUTOR)


async def _cancels(stage: Stage) -> int:
    counting = "select count(*) from openbell.intent_actions where action_type = 'CANCEL'"
    return int(await stage.owner.fetchval(counting))


async def _waits_for_broker(stage: Stage) -> bool:
    """Whether no further cancel may follow: no command is open, or the broker answers none about an order."""
    return bool(
        await stage.owner.fetchval(
            "select not exists (select from openbell.desk_commands where ended_at is null) or exists"
            " (select from openbell.action_states where action_type = 'CANCEL' and state = 'UNKNOWN')"
        )
    )


async def _wait(figures: Figures, stage: Stage, command: DeskCommand, size: Size, name: str) -> DeskCommand:
    ended = await stage.caller.wait_for_desk_command(command.id, size.seconds)
    figures.exactly(f"{name}: ended as done", int(ended.status == "DONE"), 1)
    if ended.status != "DONE":
        print(ended.to_json(), flush=True)
    return ended


async def compare_with_ledger(figures: Figures, stage: Stage, command: DeskCommand, orders: Orders) -> None:
    """Every order in scope is listed with the outcome that the broker's ledger has; none outside was cancelled."""
    rows = [row async for row in stage.caller.desk_orders(command.id)]
    listed = {row.intent_id: row.outcome for row in rows}
    unlisted = (orders.resting | orders.fresh) - listed.keys()
    ledger = await _in_ledger(stage, [*listed, *unlisted, *orders.outside])
    name = "cancel all"
    figures.exactly(f"{name}: orders listed twice", len(rows) - len(listed), 0)
    figures.exactly(f"{name}: resting orders missing", len(orders.resting - listed.keys()), 0)
    # An order may have ended before the command was accepted.
    late = [each for each in unlisted if not await _ended_before(stage, each, command.created_at)]
    figures.exactly(f"{name}: other orders missing", len(late), 0)
    foreign = listed.keys() - orders.resting - orders.fresh
    figures.exactly(f"{name}: orders listed that are not in its scope", len(foreign), 0)
    wrong = [each for each, outcome in listed.items() if IN_LEDGER.get(outcome, "?") != ledger.get(each)]
    figures.exactly(f"{name}: outcomes that differ from the broker's ledger", len(wrong), 0)
    for each in wrong[:5]:
        print(each, listed[each], ledger.get(each), flush=True)
    shown = await stage.caller.desk_command(command.id)
    figures.exactly(f"{name}: totals that differ from the list", int(shown.outcomes != Counter(listed.values())), 0)
    touched = [each for each in orders.outside if ledger.get(each) != "WORKING"]
    figures.exactly(f"{name}: orders outside its scope that were cancelled", len(touched), 0)
    asked = await stage.owner.fetchval(
        "select count(*) from openbell.intent_actions where action_type = 'CANCEL' and intent_id = any($1::uuid[])",
        [*map(UUID, orders.outside)],
    )
    figures.exactly(f"{name}: cancels recorded for orders outside its scope", int(asked), 0)
    figures.at_least(f"{name}: orders in its scope", len(listed), len(orders.resting))
    for outcome, count in sorted(Counter(listed.values()).items()):
        figures.shown(f"{name}: {outcome}", count)
    figures.shown(f"{name}: cancels recorded", sum(row.cancels for row in rows))


async def _names(stage: Stage, intent_ids: Iterable[str]) -> dict[str, str]:
    """The client order id of each intent's order."""
    rows = await stage.owner.fetch(
        "select intent_id::text, action_id from openbell.intent_actions where seq = 1 and intent_id = any($1::uuid[])",
        [*map(UUID, intent_ids)],
    )
    return {row["intent_id"]: client_order_id(ActionId(row["action_id"])) for row in rows}


async def _in_ledger(stage: Stage, intent_ids: Sequence[str]) -> dict[str, str]:
    """The status that the broker's ledger has of each order; without those that it never had."""
    names = await _names(stage, intent_ids)
    rows = await stage.ledger.fetch(
        "select client_order_id, status from orders where client_order_id = any($1::text[])", [*names.values()]
    )
    statuses = {row["client_order_id"]: str(row["status"]) for row in rows}
    return {intent: statuses[name] for intent, name in names.items() if name in statuses}


async def _ended_before(stage: Stage, intent_id: str, moment: datetime) -> bool:
    closed = await stage.owner.fetchval(
        "select updated_at <= $2 from openbell.orders where order_id = $1 and standing = 'CLOSED'",
        UUID(intent_id),
        moment,
    )
    return bool(closed)


async def _until_resting(stage: Stage, intent_ids: Sequence[str]) -> None:
    names = list((await _names(stage, intent_ids)).values())
    counting = "select count(*) from orders where status = 'WORKING' and client_order_id = any($1::text[])"

    async def is_resting() -> bool:
        return bool(await stage.ledger.fetchval(counting, names) == len(names))

    await until(is_resting, 120)


async def close_under_faults(figures: Figures, stage: Stage, size: Size) -> None:
    """Close a position with open orders; the broker then holds nothing of the symbol, by one order."""
    symbol, name = "NVDA", "close position"
    bought = await stage.caller.buy(symbol, 7, allow_duplicate=True)
    await stage.caller.wait(bought.intent_id, 120)
    resting = await _buy(stage.caller, 3, symbol=symbol)
    await _until_resting(stage, resting)
    await stage.caller.set_fault_plan(FAULTS, seed=11)
    command = await stage.caller.close_position(symbol, idempotency_key="close")
    await _kill_executors(stage, size.kills)
    await asyncio.sleep(size.fault_seconds)
    await stage.caller.remove_fault_plan()
    ended = await _wait(figures, stage, command, size, name)
    rows = await stage.ledger.fetch(
        "select order_side, order_type, status, filled_quantity from orders where account_id = $1 and symbol = $2",
        UUID(stage.account_id),
        symbol,
    )
    held = sum((row["filled_quantity"] * (1 if row["order_side"] == "BUY" else -1) for row in rows), Decimal(0))
    closing = [row for row in rows if row["order_side"] != "BUY"]
    figures.exactly(f"{name}: closing orders at the broker", len(closing), 1)
    figures.exactly(f"{name}: units left at the broker", int(held), 0)
    figures.exactly(f"{name}: orders of the symbol still open", sum(row["status"] == "WORKING" for row in rows), 0)
    again = await stage.caller.close_position(symbol)
    again = await _wait(figures, stage, again, size, "close nothing")
    figures.exactly("close nothing: closing orders", int(again.closing_intent_id is not None), 0)
    figures.shown(f"{name}: closing intent", ended.closing_intent_id or "none")

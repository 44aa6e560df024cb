"""One account at one broker, with the application around it and the broker's engine in reach."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import asyncpg
import httpx

from conformance.executor import Executor, Hurried, a_session, executing
from loopbacks import Loopback
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.ports.broker import BrokerCapabilities, BrokerDefinition, BrokerSession
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import OrderName
from openbell_server.domain.orders.intents import ActionType, CancelIntent, CreateIntent, ReplaceIntent
from openbell_server.domain.orders.order_reports import SIGHTED_LATE
from openbell_server.domain.orders.order_terms import (
    OrderSide,
    OrderSpec,
    OrderType,
    ReplacementSpec,
    RouteStrategy,
    TimeInForce,
)
from support.brokers.broker_writes import Write, allowed_repeats
from support.brokers.execution_harness import ExecutionHarness
from support.builders.tenant import a_tenant

WAIT_SECONDS = 120.0
LOOK_SECONDS = 0.05
# What a broker's declaration says of itself, made shorter: a scenario takes seconds. A command hangs for three of them.
SETTLE_SECONDS = 4.5
ECHO_SECONDS = 2.0
VALUE_PLACES = 12
# Of orders that somebody else places, and of no others.
FOREIGN_QUANTITY = Decimal(777)
# What an execution came to after all that was said of it.
_ENGINE_ORDERS = """
select o.number, o.client_order_id, o.symbol, o.quantity, o.limit_price, o.stop_price, o.status, o.filled_quantity,
    coalesce((
        select sum(coalesce(c.quantity, e.quantity) * coalesce(c.price, e.price))
        from executions as e left join lateral (
            select quantity, price from execution_changes
            where order_number = e.order_number and ordinal = e.ordinal order by revision desc limit 1
        ) as c on true
        where e.order_number = o.number
    ), 0) as filled_value
from orders as o where o.account_id = $1 order by o.number
"""


def hurried(definition: BrokerDefinition) -> BrokerDefinition:
    """The definition with waits that suit loopbacks; it waits no longer than it says itself."""
    able = definition.capabilities
    settle, echo = min(able.settle_seconds, SETTLE_SECONDS), min(able.echo_seconds, ECHO_SECONDS)
    return Hurried(definition, replace(able, settle_seconds=settle, echo_seconds=echo))


@dataclass(slots=True)
class Stage:
    """What a scenario acts on and looks at."""

    loopback: Loopback
    definition: BrokerDefinition
    harness: ExecutionHarness
    symbol: Symbol
    ledger: Pool
    # Who may move the engine's prices and ask for faults.
    operator: httpx.AsyncClient
    executor: Executor = field(init=False)
    # Commands that a scenario sent itself, beside the application.
    others: Counter[ActionType] = field(default_factory=Counter)
    _running: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def account_id(self) -> AccountId:
        return self.harness.account.account_id

    @property
    def able(self) -> BrokerCapabilities:
        return self.definition.capabilities

    @property
    def session(self) -> BrokerSession:
        return self.executor.session

    @property
    def writes(self) -> list[Write]:
        """The commands of this account that reached the broker."""
        return [write for write in self.loopback.writes if write.account_id == str(self.account_id) and write.whole]

    async def order(
        self,
        quantity: str = "10",
        *,
        limit: str | None = None,
        stop: str | None = None,
        time_in_force: TimeInForce | None = None,
        side: OrderSide = OrderSide.BUY,
    ) -> IntentId:
        """Ask for an order: its prices say of which kind; without any it is good for a day, else until cancelled."""
        kinds = {
            (False, False): OrderType.MARKET,
            (True, False): OrderType.LIMIT,
            (False, True): OrderType.STOP,
            (True, True): OrderType.STOP_LIMIT,
        }
        kind = kinds[limit is not None, stop is not None]
        usual = TimeInForce.DAY if kind is OrderType.MARKET else TimeInForce.GOOD_TILL_CANCEL
        spec = OrderSpec(
            order_type=kind,
            quantity=Decimal(quantity),
            limit_price=None if limit is None else Decimal(limit),
            stop_price=None if stop is None else Decimal(stop),
            time_in_force=time_in_force or usual,
        )
        return await self._accept(
            CreateIntent(symbol=self.symbol, order_side=side, route_strategy=RouteStrategy.SMART, spec=spec)
        )

    async def replace(self, intent_id: IntentId, quantity: str, limit: str) -> None:
        """Ask that a limit order be changed."""
        spec = ReplacementSpec(order_type=OrderType.LIMIT, quantity=Decimal(quantity), limit_price=Decimal(limit))
        await self._accept(ReplaceIntent(ref_intent_id=intent_id, spec=spec))

    async def cancel(self, intent_id: IntentId) -> None:
        """Ask for the end of an order."""
        await self._accept(CancelIntent(ref_intent_id=intent_id))

    async def price(self, price: str, size: str | None = None) -> None:
        """Hold the symbol at a price, at which each order may take so much."""
        body = {"price": price, **({} if size is None else {"size": size})}
        await self._operate("PUT", f"/prices/{self.symbol}", body)

    async def faults(self, **plan: float) -> None:
        """Let the broker misbehave to this account from now on; without a plan it behaves."""
        await self._operate("PUT", f"/accounts/{self.account_id}/faults", {"seed": 0, "faults": plan})

    async def cash(self, amount: str) -> None:
        """Give the account so much."""
        await self._operate("PUT", f"/accounts/{self.account_id}/cash", {"cash": amount})

    async def end_of_day(self) -> None:
        """Ring the bell for the orders of this account only."""
        await self.ledger.execute(
            "update orders set due_at = now() where account_id = $1 and due_at is not null", self.account_id
        )

    async def restart(self) -> None:
        """Another executor in the place of this one, with a session of its own."""
        await self.stop()
        await self.start()

    async def stop(self) -> None:
        """Let the executor finish what it began."""
        await self._running.aclose()

    async def start(self) -> None:
        """Run the executor until it may send commands of the account."""
        self.executor = await self._running.enter_async_context(executing(self.harness, self.definition, self.loopback))
        await self.until(self.is_ready)

    async def is_ready(self) -> bool:
        """Whether commands of the account may be sent."""
        return self.executor.follow.ready(self.harness.account)

    def beside(self, account_id: AccountId | None = None) -> AbstractAsyncContextManager[BrokerSession]:
        """A session beside the executor's, of this account or of one that the application does not know."""
        return a_session(self.loopback, account_id or self.account_id)

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = WAIT_SECONDS) -> None:
        """Wait for it; says what the account looks like where it never comes."""
        try:
            async with asyncio.timeout(seconds):
                while not await condition():  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            failures = [*self.executor.follow.failures, *self.executor.work.failures][-3:]
            raise AssertionError(
                f"{condition.__qualname__} not within {seconds:g} s: {await self.actions()},"
                f" {await self.ours()}, the broker has {await self.theirs()}; failures: {failures}"
            ) from None

    async def resting(self, limit: str = "40.00") -> IntentId:
        """An order that waits for a lower price."""
        await self.price("50.00")
        intent_id = await self.order(limit=limit)
        await self.until_standing(intent_id, "WORKING", filled="0")
        return intent_id

    async def until_standing(self, intent_id: IntentId, *standings: str, filled: str | None = None) -> asyncpg.Record:
        """Wait until the order stands so and so much of it has filled, with nothing pending or in doubt."""

        async def stands() -> bool:
            row = await self.harness.order(intent_id)
            shown = row["close_reason"] or row["standing"]
            is_still = (row["pending"], row["certainty"]) == ("NONE", "CONFIRMED")
            return shown in standings and is_still and (filled is None or row["filled_quantity"] == Decimal(filled))

        await self.until(stands)
        return await self.harness.order(intent_id)

    async def until_action(self, *states: str, seconds: float = WAIT_SECONDS) -> asyncpg.Record:
        """Wait until the last action is in one of these states."""

        async def is_there() -> bool:
            return bool((await self.actions())[-1]["state"] in states)

        await self.until(is_there, seconds)
        return (await self.actions())[-1]

    async def until_taken(self) -> None:
        """Wait until the last action is acknowledged; nobody may have called it refused or failed before."""
        action = await self.until_action("ACKED")
        assert action["reason_code"] != SIGHTED_LATE, action

    async def for_seconds(self, seconds: float) -> None:
        """Let time pass in which nothing may happen: whoever waits for nothing can only wait."""
        await asyncio.sleep(seconds)

    async def name_of(self, intent_id: IntentId) -> OrderName:
        """All that the broker may know the order by."""
        row = await self.harness.order(intent_id)
        first = next(action for action in await self.actions() if action["intent_id"] == intent_id)
        own_id = client_order_id(ActionId(first["action_id"]))
        return OrderName(client_order_id=own_id, broker_order_ids=tuple(row["broker_order_ids"]))

    async def rows(self, query: str) -> list[asyncpg.Record]:
        """What our database has of the account, which is the query's parameter."""
        return await self.harness.pool.fetch(query, self.account_id)

    async def actions(self) -> list[asyncpg.Record]:
        """All actions in commit order."""
        return await self.rows(
            "select action_type, state, reason_code, broker_code, broker_text, resends, action_id, intent_id"
            " from action_states where account_id = $1 order by action_no"
        )

    async def ours(self) -> list[tuple[Any, ...]]:
        """Every order of ours that we believe the broker took."""
        rows = await self.rows(
            "select symbol, quantity, limit_price, stop_price, coalesce(close_reason, standing) as status,"
            " filled_quantity, filled_value from orders"
            " where account_id = $1 and (standing = 'WORKING' or close_reason in ('FILLED', 'CANCELED', 'EXPIRED'))"
        )
        return sorted(_comparable(row) for row in rows)

    async def theirs(self) -> list[tuple[Any, ...]]:
        """Every order of the account that the engine has, except those that others placed."""
        return sorted(_comparable(row) for row in await self.engine_orders() if row["quantity"] != FOREIGN_QUANTITY)

    async def engine_orders(self) -> list[asyncpg.Record]:
        """The account's orders as the engine has them."""
        return await self.ledger.fetch(_ENGINE_ORDERS, self.account_id)

    async def agree(self) -> None:
        """Wait until what we believe is what the engine's ledger says; no order is doubled then."""

        async def is_same() -> bool:
            return await self.ours() == await self.theirs()

        await self.until(is_same)

    async def excess_writes(self) -> list[str]:
        """A sentence for each kind of command that was written more often than its actions allow."""
        allowed = Counter(self.others)
        for action in await self.actions():
            if action["state"] not in {"QUEUED", "SKIPPED"}:
                kind = ActionType(action["action_type"])
                allowed[kind] += 1 + allowed_repeats(kind, action["resends"], self.able)
        counted = Counter(write.action_type for write in self.writes)
        return [
            f"{kind} was written {times} times, and may be {allowed[kind]} times"
            for kind, times in counted.items()
            if times > allowed[kind]
        ]

    async def _accept(self, command: CreateIntent | ReplaceIntent | CancelIntent) -> IntentId:
        intent_id = await self.harness.accept(command)
        self.executor.work.notify(self.account_id)
        return intent_id

    async def _operate(self, method: str, path: str, body: object) -> None:
        response = await self.operator.request(method, path, json=body)
        assert response.status_code == 200, response.text


def value_of(row: asyncpg.Record) -> Decimal:
    """What an order's fills come to; a price that is derived from totals is rounded, and so is what it is worth."""
    return round(Decimal(row["filled_value"]), VALUE_PLACES)


def _comparable(row: asyncpg.Record) -> tuple[Any, ...]:
    names = ("symbol", "quantity", "limit_price", "stop_price", "status", "filled_quantity")
    return tuple(
        f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)
        for value in (*map(row.get, names), value_of(row))
    )


@dataclass(frozen=True, slots=True)
class House:
    """A loopback that runs, what is behind it, and the database that the scenarios at it share."""

    loopback: Loopback
    pool: Pool
    ledger: Pool
    operator: httpx.AsyncClient
    # Of the accounts that are on stage now.
    _slots: set[int] = field(default_factory=set)

    @asynccontextmanager
    async def stage(self, symbol: Symbol) -> AsyncIterator[Stage]:
        """An account of its own in a slot of its own, ready to trade, until the block ends."""
        definition = hurried(self.loopback.definition)
        tenant = await a_tenant(self.pool, broker=definition.name)
        while tenant.account.slot in self._slots:
            tenant = await a_tenant(self.pool, broker=definition.name)
        self._slots.add(tenant.account.slot)
        harness = ExecutionHarness(self.pool, tenant, clock=time.monotonic)
        stage = Stage(self.loopback, definition, harness, symbol, self.ledger, self.operator)
        try:
            await stage.start()
            yield stage
        finally:
            await stage.stop()
            self._slots.discard(tenant.account.slot)

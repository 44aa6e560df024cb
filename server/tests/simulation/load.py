"""What callers ask for: a seeded mixture of creates, replaces and cancels."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.identifiers import ActionId, IntentId, Symbol
from openbell_server.domain.orders.intents import CancelIntent, Command, CreateIntent, ReplaceIntent
from openbell_server.domain.orders.order_terms import (
    OrderSide,
    OrderSpec,
    OrderType,
    ReplacementSpec,
    RouteStrategy,
    TimeInForce,
)
from simulation.memory_accept import accept
from simulation.memory_database import DatabaseAway
from simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """How many intents, over what time, and how many of them are changed or cancelled."""

    intents: int = 50
    seconds: float = 20.0
    market: float = 0.5
    replaced: float = 0.4
    cancelled: float = 0.4
    # Seconds that pass at least before an intent is changed.
    patience: float = 0.0


@dataclass(slots=True)
class Load:
    """Asks until everything was asked for."""

    world: World
    mixture: Mixture
    accounts: list[BrokerAccount]
    # What was accepted, in order.
    accepted: list[ActionId] = field(default_factory=list)

    async def run(self) -> None:
        """Ask for all intents, each at its own time."""
        chance = self.world.chance("load")
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.mixture.intents):
                at = chance.random() * self.mixture.seconds
                tasks.create_task(self._one(number, at, random.Random(f"{self.world.seed}/intent {number}")))

    async def _one(self, number: int, at: float, chance: random.Random) -> None:
        await asyncio.sleep(at)
        account = self.accounts[number % len(self.accounts)]
        is_market = chance.random() < self.mixture.market
        intent_id = IntentId(self.world.new_id())
        await self._ask(account, intent_id, a_create(chance, lambda: chance.randint(1, 20), is_market=is_market))
        if not is_market and chance.random() < self.mixture.replaced:
            await asyncio.sleep(self.mixture.patience + chance.random() * chance.choice([0.1, 1.0, 10.0]))
            await self._ask(account, intent_id, a_replace(chance, intent_id, 30))
        if chance.random() < self.mixture.cancelled:
            await asyncio.sleep(self.mixture.patience + chance.random() * chance.choice([0.1, 2.0, 10.0]))
            await self._ask(account, intent_id, CancelIntent(ref_intent_id=intent_id))

    async def _ask(self, account: BrokerAccount, intent_id: IntentId, command: Command) -> None:
        """Ask, again while the database is away: whatever was recorded unnoticed is not recorded twice."""
        action_id = ActionId(self.world.new_id())
        while True:
            try:
                if await accept(self.world.database, self.world.outbox, account, action_id, intent_id, command):
                    self.accepted.append(action_id)
                return
            except DatabaseAway:
                await asyncio.sleep(0.1)


def a_create(chance: random.Random, quantity: Callable[[], int], *, is_market: bool) -> CreateIntent:
    """A new order; the quantity is drawn between the side and the price, so that a seed gives the same order."""
    return CreateIntent(
        symbol=Symbol("AAPL"),
        order_side=chance.choice([OrderSide.BUY, OrderSide.SELL]),
        route_strategy=RouteStrategy.SMART,
        spec=OrderSpec(
            order_type=OrderType.MARKET if is_market else OrderType.LIMIT,
            quantity=Decimal(quantity()),
            limit_price=None if is_market else Decimal(chance.randint(1, 9)),
            time_in_force=TimeInForce.DAY,
        ),
        client_reference_id=None,
    )


def a_replace(chance: random.Random, intent_id: IntentId, quantity_max: int) -> ReplaceIntent:
    """New terms for an order."""
    spec = ReplacementSpec(
        order_type=OrderType.LIMIT,
        quantity=Decimal(chance.randint(1, quantity_max)),
        limit_price=Decimal(chance.randint(1, 9)),
        time_in_force=None,
    )
    return ReplaceIntent(ref_intent_id=intent_id, spec=spec)

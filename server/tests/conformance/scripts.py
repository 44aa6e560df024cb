"""The same random script at two brokers: what is asked for and what the market does must make the same orders of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from conformance.run import Databases, a_house
from conformance.stage import House, Stage
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.action_outcomes import NOT_SENT
from openbell_server.domain.orders.order_terms import OrderSide, TimeInForce

# Scripts run beside each other, each on accounts and a symbol of its own.
LANES: Final = 6
TRIES_MAX: Final = 3
STEPS: Final = 7
_FIRST_PRICE: Final = 5_000
_TIMES: Final = (TimeInForce.DAY, TimeInForce.GOOD_TILL_CANCEL, TimeInForce.IMMEDIATE_OR_CANCEL)

Step = Callable[[Stage, list[IntentId]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Script:
    """Steps that depend on a seed, and on nothing that a broker does."""

    seed: int

    @property
    def symbol(self) -> Symbol:
        """One that no other script trades: prices are everybody's."""
        letters = [chr(ord("A") + self.seed // 26**place % 26) for place in (2, 1, 0)]
        return Symbol("S" + "".join(letters))

    def steps(self) -> list[Step]:
        """Something to begin with, then whatever comes."""
        chance = random.Random(self.seed)
        kinds = [_order, _order, _order, _price, _price, _replace, _replace, _cancel]
        return [_price(chance), _order(chance), *(chance.choice(kinds)(chance) for _ in range(STEPS))]


def _cents(price: int) -> str:
    return f"{price // 100}.{price % 100:02}"


def _price(chance: random.Random) -> Step:
    """The market moves, and may be thin there: an order takes no more than so much at once."""
    price, size = _FIRST_PRICE + chance.randint(-200, 200), chance.choice([None, "3", "7"])
    return lambda stage, _: stage.price(_cents(price), size)


def _order(chance: random.Random) -> Step:
    price, kind = _FIRST_PRICE + chance.randint(-200, 200), chance.randrange(4)
    side, quantity = chance.choice([OrderSide.BUY, OrderSide.SELL]), str(chance.randint(1, 20))
    # A stop beyond the market waits; one on this side of it is hit at once. Both are to be tried.
    limit = _cents(price) if kind in {1, 3} else None
    stop = _cents(price + chance.randint(-100, 100)) if kind in {2, 3} else None
    time_in_force = chance.choice(_TIMES) if stop is None and limit is not None else None

    async def act(stage: Stage, orders: list[IntentId]) -> None:
        orders.append(await stage.order(quantity, limit=limit, stop=stop, time_in_force=time_in_force, side=side))

    return act


def _replace(chance: random.Random) -> Step:
    """Another limit, which no order has had, and another quantity, which is more than has filled."""
    more, limit = chance.randint(1, 9), _cents(_FIRST_PRICE + 1_000 + chance.randrange(100_000))
    if chance.random() < 0.5:
        limit = _cents(chance.randint(1_000, _FIRST_PRICE - 1_000))

    async def act(stage: Stage, orders: list[IntentId]) -> None:
        for intent_id in orders:
            order = await stage.harness.order(intent_id)
            if order["standing"] == "WORKING" and order["order_type"] == "LIMIT":
                return await stage.replace(intent_id, f"{order['filled_quantity'] + more:f}", limit)
        return None

    return act


def _cancel(chance: random.Random) -> Step:
    place = chance.randrange(4)

    async def act(stage: Stage, orders: list[IntentId]) -> None:
        working = [each for each in orders if (await stage.harness.order(each))["standing"] == "WORKING"]
        if working:
            await stage.cancel(working[place % len(working)])

    return act


async def play(script: Script, stage: Stage) -> list[tuple[Any, ...]] | None:
    """What the account's orders look like after each step, once it and the broker agree.

    None where the machine stood still for so long that a command was not written any more: there is nothing to compare.
    """
    orders: list[IntentId] = []
    looks: list[tuple[Any, ...]] = []

    async def is_still() -> bool:
        states = {row["state"] for row in await stage.actions() if row["intent_id"] in orders}
        return not states & {"QUEUED", "DISPATCHING", "UNKNOWN"}

    for step in script.steps():
        await step(stage, orders)
        await stage.until(is_still)
        await stage.agree()
        rows = [await stage.harness.order(intent_id) for intent_id in orders]
        looks.append(tuple(_look(row) for row in rows))
    ends = {row["reason_code"] for row in await stage.actions() if row["intent_id"] in orders}
    return None if NOT_SENT in ends else looks


def _look(row: asyncpg.Record) -> tuple[Any, ...]:
    """The aggregate, but for what names it."""
    numbers = ("quantity", "limit_price", "stop_price", "filled_quantity", "filled_value")
    words = ("standing", "close_reason", "pending", "certainty", "time_in_force")
    # Not every broker tells that a stop was hit before something fills.
    is_hit = row["triggered"] and row["filled_quantity"] > 0
    values = (None if row[name] is None else f"{row[name].normalize():f}" for name in numbers)
    return (*(row[word] for word in words), is_hit, *values)


async def differences(brokers: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """A sentence for every script that one of the brokers made something else of than the first did."""
    with LocalServices() as services:
        databases = Databases(services)
        await databases.prepare()
        return await _differences(brokers, seeds, databases)


async def _looks(script: Script, stages: Sequence[Stage]) -> list[list[tuple[Any, ...]]]:
    """What each broker made of it."""
    for _ in range(TRIES_MAX):
        looks = []
        for stage in stages:
            stage.symbol = script.symbol
            looks.append(await play(script, stage))
        compared = [look for look in looks if look is not None]
        if len(compared) == len(stages):
            return compared
    raise AssertionError(f"script {script.seed} was never written in time")


async def _differences(brokers: Sequence[str], seeds: Sequence[int], databases: Databases) -> list[str]:
    waiting, told = list(reversed(seeds)), list[str]()

    async def lane(houses: Sequence[House]) -> None:
        async with AsyncExitStack() as lasting:
            stages = [await lasting.enter_async_context(house.stage(Symbol("SAAA"))) for house in houses]
            while waiting:
                script = Script(waiting.pop())
                looks = await _looks(script, stages)
                told.extend(
                    f"script {script.seed} at {broker}: {other} instead of {looks[0]}"
                    for broker, other in zip(brokers[1:], looks[1:], strict=True)
                    if other != looks[0]
                )

    async with AsyncExitStack() as open_until_done:
        houses = [await open_until_done.enter_async_context(a_house(broker, databases)) for broker in brokers]
        await asyncio.gather(*(lane(houses) for _ in range(min(LANES, len(seeds)))))
    return told

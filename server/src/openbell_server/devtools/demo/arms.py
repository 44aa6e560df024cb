"""Counts how the orders of a plain client and those of Openbell ended, both from the broker's own book."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import uuid4

import httpx

from openbell import Limit
from openbell_server.brokers.paper.wire import LedgerOrderBody
from openbell_server.devtools.demo.ledgers import Books, Terms, is_placed, terms, terms_at_broker
from openbell_server.devtools.demo.plain_client import place
from openbell_server.devtools.demo.read_ledgers import read_orders
from openbell_server.devtools.demo.scenario import ACCOUNTS, PACE_SECONDS, Ask, plan


@dataclass(frozen=True, slots=True)
class Arm:
    """One client: how many of its orders the broker has more than once, and of how many it has the wrong idea."""

    name: str
    asked: int
    at_broker: int
    doubled: int
    lost: int

    def __str__(self) -> str:
        numbers = f"asked {self.asked}, at the broker {self.at_broker}, doubled {self.doubled}"
        return f"{self.name}: {numbers}, lost track of {self.lost}"


def count(name: str, asks: Sequence[Ask], placed: Collection[Terms], orders: Sequence[LedgerOrderBody]) -> Arm:
    """Compare what was asked, and what the client takes for placed, with the book; every ask has terms of its own."""
    book = Counter(map(terms_at_broker, orders))
    concerned = {*map(_terms, asks), *placed, *book}
    doubled = sum(copies > 1 for copies in book.values())
    return Arm(name, len(asks), len(orders), doubled, sum((each in book) != (each in placed) for each in concerned))


def count_ours(asks: Sequence[Ask], books: Books) -> Arm:
    creates = [action for action in books.actions if action.action_type == "CREATE"]
    placed = {terms(create) for create in creates if is_placed(books.intents.get(create.intent_id))}
    return count("Openbell", asks, placed, books.orders)


async def run_plain_client(paper_url: str, intents: int) -> Arm:
    """Place the demo's orders for accounts of its own at the broker, and read its book."""
    accounts = [str(uuid4()) for _ in range(ACCOUNTS)]
    asks = list(plan(accounts, intents))
    async with httpx.AsyncClient(base_url=paper_url, trust_env=False) as broker, asyncio.TaskGroup() as tasks:
        calls = []
        for ask in asks:
            calls.append(tasks.create_task(place(broker, ask.account_id, _order(ask))))
            await asyncio.sleep(PACE_SECONDS / 2)
    placed = {_terms(ask) for ask, call in zip(asks, calls, strict=True) if call.result() is not None}
    return count("plain client", asks, placed, await read_orders(paper_url, accounts))


def _order(ask: Ask) -> dict[str, str]:
    order = {"symbol": ask.symbol, "side": ask.side, "quantity": str(ask.spec.quantity), "time_in_force": "DAY"}
    if isinstance(ask.spec, Limit):
        return {**order, "type": "LIMIT", "limit_price": str(ask.spec.price)}
    return {**order, "type": "MARKET"}


def _terms(ask: Ask) -> Terms:
    limit_price = Decimal(str(ask.spec.price)) if isinstance(ask.spec, Limit) else None
    return ask.account_id, ask.symbol, ask.side, Decimal(str(ask.spec.quantity)), limit_price

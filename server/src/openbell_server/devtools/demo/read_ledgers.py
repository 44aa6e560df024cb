"""Reads both ledgers over HTTP: ours with the client library, the broker's from the broker."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import httpx
import msgspec

from openbell import Action, AsyncClient
from openbell_server.brokers.paper.profiles import PROFILES
from openbell_server.brokers.paper.wire import LedgerOrderBody, LedgerSummary, OrderPage
from openbell_server.devtools.demo.board import DOUBTS_SHOWN, Board, Sight
from openbell_server.devtools.demo.ledgers import Books

_AT_ONCE: Final = 8
_BEFORE_AN_ANSWER: Final = frozenset({"QUEUED", "DISPATCHING", "SENT", "UNKNOWN"})
_PAGES_MAX: Final = 100
_TIMEOUT_SECONDS: Final = 10


async def look(client: AsyncClient, accounts: Sequence[str], board: Board) -> None:
    """Update the board: actions from the lists, and each open intent for its order."""
    actions = await read_actions(client, accounts)
    creates = {action.intent_id: action for action in actions if action.action_type == "CREATE"}
    final = {intent_id for intent_id, sight in board.sights.items() if sight.is_final}
    still_open = [create for create in creates.values() if create.intent_id not in final]
    # An unsent order has no execution, and only some doubts fit on the screen.
    sent = [create for create in still_open if create.status not in _BEFORE_AN_ANSWER]
    doubts = [create for create in still_open if create.status == "UNKNOWN"]
    latest = await read_intents(client, sent + doubts[:DOUBTS_SHOWN])
    board.see(Sight(create, latest.get(intent_id)) for intent_id, create in creates.items() if intent_id not in final)


async def read_books(client: AsyncClient, paper_url: str, accounts: Sequence[str], accepted: Iterable[str]) -> Books:
    """Read all actions, intents and orders."""
    # Ours first, because a doubt may settle meanwhile, and then the broker already has the order.
    actions = await read_actions(client, accounts)
    intents = await read_intents(client, [action for action in actions if action.action_type == "CREATE"])
    orders = await read_orders(paper_url, accounts)
    async with _broker(paper_url) as broker:
        summary = (await broker.get("/ledger/summary")).raise_for_status()
    return Books(
        accepted=frozenset(accepted),
        actions=actions,
        intents=intents,
        orders=orders,
        repeated_submits=msgspec.json.decode(summary.content, type=LedgerSummary).repeated_submits,
    )


async def read_actions(client: AsyncClient, accounts: Sequence[str]) -> list[Action]:
    return [action for account in accounts async for action in client.intents(account_id=account)]


async def read_intents(client: AsyncClient, creates: Sequence[Action]) -> dict[str, Action]:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(create: Action) -> Action:
        async with places:
            return await client.intent(create.intent_id, account_id=create.account_id)

    latest = await asyncio.gather(*(one(create) for create in creates))
    return {action.intent_id: action for action in latest}


async def read_orders(paper_url: str, accounts: Sequence[str]) -> list[LedgerOrderBody]:
    """The broker's book of these accounts."""
    async with _broker(paper_url) as broker:
        return [o for account in accounts for kind in PROFILES for o in await _read_orders_of(broker, kind, account)]


def _broker(paper_url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=paper_url, timeout=_TIMEOUT_SECONDS, trust_env=False)


async def _read_orders_of(broker: httpx.AsyncClient, kind: str, account: str) -> list[LedgerOrderBody]:
    """An account's orders at one profile of the paper broker."""
    path = f"/accounts/{account}/orders" if kind == "paper" else f"/{kind}/accounts/{account}/orders"
    orders: list[LedgerOrderBody] = []
    after: int | None = 0
    for _ in range(_PAGES_MAX):
        response = await broker.get(path, params={"after": after})
        page = msgspec.json.decode(response.raise_for_status().content, type=OrderPage)
        orders += page.orders
        after = page.next
        if after is None:
            return orders
    raise AssertionError(f"the broker's ledger of {account} has more than {_PAGES_MAX} pages")

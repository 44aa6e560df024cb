"""The paper broker as the engine of Alpaca's simulator: commands over HTTP, with its faults, and its ledger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
import msgspec

from loopbacks.alpaca_books import Books
from openbell_exchange.decisions import Refusal
from openbell_exchange.history import History
from openbell_exchange.memory import OrderUpdate
from openbell_exchange.terms import Symbol, Terms
from openbell_server.brokers.http_client import decimal_text, optional_text
from openbell_server.brokers.paper.keys import Key, signature
from openbell_server.brokers.paper.ledger import number_of
from openbell_server.brokers.paper.wire import AccountBody, FeedLine, OrderPage, QuotedBody
from openbell_torture.alpaca.engine import AccountState, Broken, Cut, HeldPosition, NewOrder, RequestKind
from openbell_torture.alpaca.wire import Caller

# Alpaca has no time after which a command is void.
_FOR_GOOD: Final = timedelta(days=1)
_SILENCE_SECONDS: Final = 20
_Body = TypeVar("_Body")


class PaperEngine:
    """Implements Engine."""

    def __init__(self, client: httpx.AsyncClient, books: Books) -> None:
        self._client = client
        self._books = books

    async def admit(self, kind: RequestKind) -> None:
        """The paper broker has the faults."""

    async def submit(self, who: Caller, order: NewOrder) -> None:
        spec = order.spec
        if await self._books.named(who.account_id, order.client_order_id) is None:
            await self._books.remember(who.account_id, order.client_order_id, spec)
        names = {"client_order_id": order.client_order_id, "symbol": order.symbol, "side": order.side}
        await self._send(who, "POST", "orders", {**names, "type": spec.order_type, **_terms(spec.terms)})

    async def replace(self, who: Caller, history: History, client_order_id: str, terms: Terms) -> None:
        await self._send(who, "PATCH", _path(history), {"client_order_id": client_order_id, **_terms(terms)})

    async def cancel(self, who: Caller, history: History) -> None:
        params = {"valid_until": _for_good()}
        await self._ask(who, "DELETE", f"/accounts/{who.account_id}/{_path(history)}", params=params)

    async def named(self, account_id: UUID, client_order_id: str) -> tuple[int, int] | None:
        return await self._books.named(account_id, client_order_id)

    async def history(self, number: int) -> History | None:
        return await self._books.history(number)

    async def find(self, who: Caller, number: int) -> History | None:
        await self._ask(who, "GET", f"/accounts/{who.account_id}/broker-orders/P{number}")
        return await self._books.history(number)

    async def list_orders(self, who: Caller) -> list[History]:
        numbers: list[int] = []
        after: int | None = 0
        while after is not None:
            reply = await self._ask(who, "GET", f"/accounts/{who.account_id}/orders", params={"after": str(after)})
            page = msgspec.json.decode(reply.content, type=OrderPage)
            numbers += [order.number for order in page.orders]
            after = page.next
        return await self._books.histories(numbers)

    async def state(self, account_id: UUID) -> AccountState:
        body = await self._told(f"/accounts/{account_id}", AccountBody)
        return AccountState(
            cash=Decimal(body.cash),
            buying_power=Decimal(body.buying_power),
            fees=Decimal(body.fees_paid),
            positions=[
                HeldPosition(Symbol(each.symbol), Decimal(each.quantity), Decimal(each.price))
                for each in body.positions
            ],
        )

    async def position(self, account_id: UUID, symbol: str) -> Decimal:
        return await self._books.position(account_id, symbol)

    async def price(self, symbol: Symbol) -> Decimal:
        return Decimal((await self._told(f"/prices/{quote(symbol, safe='')}", QuotedBody)).price)

    @asynccontextmanager
    async def updates(self) -> AsyncIterator[AsyncIterator[OrderUpdate]]:
        try:
            async with self._client.stream("GET", "/updates", timeout=httpx.Timeout(_SILENCE_SECONDS)) as feed:
                lines = feed.aiter_lines()
                # The feed stands once it says so: nothing after that is missed.
                await anext(lines)
                yield _updates_in(lines)
        except httpx.HTTPError as trouble:
            raise Cut from trouble

    async def _send(self, who: Caller, method: str, path: str, body: dict[str, str | None]) -> None:
        content = body | {"valid_until": _for_good()}
        await self._ask(who, method, f"/accounts/{who.account_id}/{path}", json=content)

    async def _told(self, path: str, what: type[_Body]) -> _Body:
        return msgspec.json.decode((await self._ask(None, "GET", path)).content, type=what)

    async def _ask(self, who: Caller | None, method: str, path: str, **more: Any) -> httpx.Response:
        """Raises what the paper broker says in place of a yes; without an answer, there is none from here either."""
        signed = {} if who is None else {"authorization": signature(Key(who.key_id, who.secret))}
        try:
            reply = await self._client.request(method, path, headers=signed, **more)
        except httpx.HTTPError as trouble:
            raise Cut from trouble
        if reply.is_server_error:
            raise Broken
        if not reply.is_success:
            told, calm = reply.json(), reply.headers.get("retry-after")
            raise Refusal(str(told.get("code")), str(told.get("text")), None if calm is None else int(calm))
        return reply


async def _updates_in(lines: AsyncIterator[str]) -> AsyncIterator[OrderUpdate]:
    async for text in lines:
        line = msgspec.json.decode(text, type=FeedLine)
        if line.account_id is not None and line.report is not None and line.number is not None:
            yield OrderUpdate(line.account_id, number_of(line.report.broker_order_id) or 0, line.number)
    raise Cut


def _terms(terms: Terms) -> dict[str, str | None]:
    return {
        "quantity": decimal_text(terms.quantity),
        "limit_price": optional_text(terms.limit_price),
        "stop_price": optional_text(terms.stop_price),
        "time_in_force": terms.time_in_force,
    }


def _path(history: History) -> str:
    """By the id that it came with, so that a plan of faults means the same order as at the engine."""
    return f"orders/{quote(history.members[0].client_order_id, safe='')}"


def _for_good() -> str:
    return (datetime.now(UTC) + _FOR_GOOD).isoformat()

"""Alpaca's books as a few orders and fills that a test writes down, asked without a socket."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

import httpx
import msgspec

from openbell_server.brokers.alpaca.account import AlpacaAccount, Host
from openbell_server.brokers.alpaca.wire import AlpacaOrder
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId
from support.brokers.answered_http import AnsweredHttp

ACCOUNT: Final = AccountId(UUID(int=7))
ADDRESS: Final = "http://alpaca"
_Answer = TypeVar("_Answer")


def order_json(order_id: str, **changes: Any) -> dict[str, Any]:
    """An order of 10 at 90 that works; what Alpaca says besides is there to be read past."""
    return {
        "id": order_id,
        "client_order_id": f"our-{order_id}",
        "created_at": "2026-01-02T15:00:00.000000001Z",
        "submitted_at": "2026-01-02T15:00:00.000000001Z",
        "updated_at": "2026-01-02T15:00:01Z",
        "symbol": "AAPL",
        "asset_class": "us_equity",
        "qty": "10",
        "filled_qty": "0",
        "filled_avg_price": None,
        "order_class": "",
        "type": "limit",
        "side": "buy",
        "time_in_force": "day",
        "limit_price": "90",
        "stop_price": None,
        "status": "new",
        "replaces": None,
        "replaced_by": None,
        "legs": None,
    } | changes


def an_order(order_id: str, **changes: Any) -> AlpacaOrder:
    """The same, read."""
    return msgspec.convert(order_json(order_id, **changes), AlpacaOrder)


def replaced(order_id: str, by: str, **changes: Any) -> dict[str, Any]:
    """An order that another took the place of."""
    return order_json(order_id, status="replaced", replaced_by=by, **changes)


def fill_json(order_id: str, qty: str, cum_qty: str, number: int = 1, price: str = "90") -> dict[str, Any]:
    """A fill as the activities list it."""
    return {
        "id": f"20260102150000{number:06}::{order_id}",
        "activity_type": "FILL",
        "order_id": order_id,
        "qty": qty,
        "cum_qty": cum_qty,
        "price": price,
        "transaction_time": "2026-01-02T15:00:02Z",
        "symbol": "AAPL",
    }


@dataclass
class Books:
    """What the broker would answer; orders in the order in which they were taken."""

    orders: list[dict[str, Any]] = field(default_factory=list)
    fills: list[dict[str, Any]] = field(default_factory=list)
    # Orders as they stand when they are asked for one by one, where that is later than the list.
    later: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[httpx.Request] = field(default_factory=list)
    page: int = 1_000

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Like Alpaca, but with pages as short as a test wants them."""
        self.asked.append(request)
        path, params = request.url.path, request.url.params
        if path == "/v2/orders":
            after = datetime.fromisoformat(params["after"])
            taken = [order for order in self.orders if datetime.fromisoformat(order["submitted_at"]) > after]
            return httpx.Response(200, json=taken[: self.page])
        if path == "/v2/account/activities/FILL":
            token = params.get("page_token", "")
            return httpx.Response(200, json=[fill for fill in self.fills if fill["id"] > token][: self.page])
        by_client_id = {order["client_order_id"]: order for order in self.orders}
        by_id = {order["id"]: order for order in self.orders} | self.later
        known = by_client_id if path.endswith("by_client_order_id") else by_id
        found = known.get(params.get("client_order_id") or path.rpartition("/")[2])
        if found is None:
            return httpx.Response(404, json={"code": 40410000, "message": "order not found"})
        return httpx.Response(200, json=found)

    def run(self, account: AlpacaAccount, asking: Coroutine[None, None, _Answer]) -> _Answer:
        """What comes of asking these books."""

        async def ask() -> _Answer:
            assert isinstance(account.host.trading, AnsweredHttp)
            account.host.trading.answer = self.answer
            async with asyncio.timeout(60):
                return await asking

        return asyncio.run(ask())


def an_account() -> AlpacaAccount:
    """One that is signed in."""
    http, secrets = AnsweredHttp(Books().answer), Secrets({"key_id": "PK1", "secret": "s"})
    return AlpacaAccount(ACCOUNT, Environment.PAPER, Host(ADDRESS, http, http), secrets)

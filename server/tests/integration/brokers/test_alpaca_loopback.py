"""Alpaca's own client takes the loopback for Alpaca: it reads every answer, and means what the loopback does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from alpaca.trading.client import TradingClient
from alpaca.trading.enums import OrderSide, OrderStatus, QueryOrderStatus, TimeInForce
from alpaca.trading.models import Order, TradeUpdate
from alpaca.trading.requests import GetOrdersRequest, LimitOrderRequest, ReplaceOrderRequest
from alpaca.trading.stream import TradingStream

from loopbacks import Loopback, loopback
from openbell_server.domain.accounts import Environment
from openbell_server.domain.identifiers import AccountId
from paper_broker import ACCOUNT, ask, until

NEIGHBOUR = AccountId(UUID("00000000-0000-7000-8000-000000000002"))
SECONDS = 20


@pytest.fixture
async def alpaca(ledger_url: str) -> AsyncIterator[Loopback]:
    async with loopback("alpaca", ledger_url) as running:
        assert (await ask(running.engine, "PUT", "/prices/AAPL", {"price": "100", "size": "4"})).is_success
        yield running


def client_of(alpaca: Loopback, account_id: AccountId = ACCOUNT, **changes: Any) -> TradingClient:
    secrets = alpaca.secrets(account_id)
    assert secrets is not None
    signed = {"api_key": secrets["key_id"], "secret_key": secrets["secret"]} | changes
    return TradingClient(url_override=alpaca.addresses[Environment.PAPER], **signed)


async def ask_alpaca(call: Callable[..., Any], *arguments: object) -> Any:
    """The client blocks, so it has a thread of its own."""
    async with asyncio.timeout(SECONDS):
        return await asyncio.to_thread(call, *arguments)


def limit_order(limit_price: str = "90", qty: str = "10", **changes: Any) -> LimitOrderRequest:
    asked: dict[str, Any] = {
        "symbol": "AAPL",
        "qty": float(qty),
        "side": OrderSide.BUY,
        "time_in_force": TimeInForce.DAY,
        "limit_price": float(limit_price),
        "client_order_id": uuid4().hex,
    }
    return LimitOrderRequest(**asked | changes)


@asynccontextmanager
async def raw(
    alpaca: Loopback, account_id: AccountId = ACCOUNT, environment: Environment = Environment.PAPER
) -> AsyncIterator[httpx.AsyncClient]:
    secrets = alpaca.secrets(account_id)
    assert secrets is not None
    headers = {"APCA-API-KEY-ID": secrets["key_id"], "APCA-API-SECRET-KEY": secrets["secret"]}
    address = alpaca.addresses[environment]
    async with httpx.AsyncClient(base_url=address, headers=headers, trust_env=False, timeout=SECONDS) as client:
        yield client


async def price(alpaca: Loopback, to: str, size: str | None = None) -> None:
    body = {"price": to} if size is None else {"price": to, "size": size}
    assert (await ask(alpaca.engine, "PUT", "/prices/AAPL", body)).is_success


async def faults(alpaca: Loopback, **rates: float) -> None:
    answer = await ask(alpaca.engine, "PUT", f"/accounts/{ACCOUNT}/faults", {"seed": 1, "faults": rates})
    assert answer.is_success


@asynccontextmanager
async def listening(alpaca: Loopback, account_id: AccountId = ACCOUNT) -> AsyncIterator[list[TradeUpdate]]:
    """What the official stream hands out; it stands once a new order of the account was heard."""
    secrets = alpaca.secrets(account_id)
    assert secrets is not None
    address = alpaca.addresses[Environment.PAPER].replace("http:", "ws:") + "/stream"
    stream = TradingStream(secrets["key_id"], secrets["secret"], url_override=address)
    heard: list[TradeUpdate] = []

    async def hear(update: TradeUpdate) -> None:
        heard.append(update)

    stream.subscribe_trade_updates(hear)
    running = asyncio.ensure_future(asyncio.to_thread(stream.run))
    try:
        client = client_of(alpaca, account_id)

        async def is_heard() -> bool:
            order = await ask_alpaca(client.submit_order, limit_order("1", "1"))
            await ask_alpaca(client.cancel_order_by_id, order.id)
            return bool(heard)

        await until(is_heard, SECONDS)
        await until_heard(heard, "canceled")
        heard.clear()
        yield heard
    finally:
        await ask_alpaca(stream.stop)
        # It looks up every five seconds.
        await asyncio.wait_for(running, SECONDS)


async def until_heard(heard: list[TradeUpdate], event: str) -> TradeUpdate:
    async def is_there() -> bool:
        return any(update.event == event for update in heard)

    await until(is_there, SECONDS)
    return next(update for update in heard if update.event == event)


async def test_an_order_is_placed_found_listed_and_cancelled(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    placed: Order = await ask_alpaca(client.submit_order, limit_order(client_order_id="mine"))
    assert placed.status is OrderStatus.PENDING_NEW
    found: Order = await ask_alpaca(client.get_order_by_client_id, "mine")
    assert (found.id, found.status, found.qty, found.filled_qty) == (placed.id, OrderStatus.NEW, "10", "0")
    assert [order.id for order in await ask_alpaca(client.get_orders)] == [placed.id]
    await ask_alpaca(client.cancel_order_by_id, placed.id)
    assert (await ask_alpaca(client.get_order_by_id, placed.id)).status is OrderStatus.CANCELED
    assert await ask_alpaca(client.get_orders) == []
    closed = GetOrdersRequest(status=QueryOrderStatus.CLOSED, symbols=["AAPL"])
    assert [order.id for order in await ask_alpaca(client.get_orders, closed)] == [placed.id]


async def test_the_stream_tells_what_becomes_of_an_order(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    async with listening(alpaca) as heard:
        placed: Order = await ask_alpaca(client.submit_order, limit_order("100", "6"))
        new = await until_heard(heard, "new")
        assert (new.order.id, new.order.status, new.order.filled_qty) == (placed.id, OrderStatus.NEW, "0")
        part = await until_heard(heard, "partial_fill")
        assert (part.qty, part.price, part.order.filled_qty) == (4, 100, "4")
        assert part.order.status is OrderStatus.PARTIALLY_FILLED
        assert part.execution_id is not None
        await price(alpaca, "99.5")
        rest = await until_heard(heard, "fill")
        assert (rest.qty, rest.position_qty, rest.order.filled_qty) == (2, 6, "6")
        assert rest.order.status is OrderStatus.FILLED


async def test_a_replace_makes_a_chain_whose_orders_have_their_own_fills(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    async with listening(alpaca) as heard:
        first: Order = await ask_alpaca(client.submit_order, limit_order("100", "6"))
        await until_heard(heard, "partial_fill")
        await price(alpaca, "101", "4")
        change = ReplaceOrderRequest(qty=5, limit_price=101.5, client_order_id="second")
        second: Order = await ask_alpaca(client.replace_order_by_id, first.id, change)
        assert (second.replaces, second.qty, second.filled_qty) == (first.id, "5", "0")
        replaced = await until_heard(heard, "replaced")
        assert (replaced.order.id, replaced.order.replaced_by) == (first.id, second.id)
        assert (replaced.order.status, replaced.order.limit_price) == (OrderStatus.REPLACED, "100")
        await price(alpaca, "101.25")
        fill = await until_heard(heard, "fill")
        assert (fill.order.id, fill.order.filled_qty, fill.qty, fill.position_qty) == (second.id, "5", 1, 9)
    old = await ask_alpaca(client.get_order_by_id, first.id)
    assert (old.qty, old.filled_qty, old.status) == ("6", "4", OrderStatus.REPLACED)
    new = await ask_alpaca(client.get_order_by_client_id, "second")
    assert (new.id, new.filled_qty, new.filled_avg_price) == (second.id, "5", "101.05")

"""Alpaca's own client takes the loopback for Alpaca: it reads every answer, and means what the loopback does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from alpaca.common.enums import Sort
from alpaca.common.exceptions import APIError
from alpaca.trading.client import TradingClient
from alpaca.trading.enums import AccountStatus, OrderSide, OrderStatus, PositionSide, QueryOrderStatus, TimeInForce
from alpaca.trading.models import Asset, Order, TradeAccount, TradeActivity, TradeUpdate
from alpaca.trading.requests import GetOrdersRequest, LimitOrderRequest, ReplaceOrderRequest
from alpaca.trading.stream import TradingStream

from loopbacks import Loopback
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.intents import ActionType
from support.brokers.broker_writes import Write
from support.brokers.paper_broker import ACCOUNT, ask, until

NEIGHBOUR = AccountId(UUID("00000000-0000-7000-8000-000000000002"))
SECONDS = 60


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


async def price(alpaca: Loopback, to: str, size: str | None = None) -> None:
    body = {"price": to} if size is None else {"price": to, "size": size}
    assert (await ask(alpaca.engine, "PUT", "/prices/AAPL", body)).is_success


async def faults(alpaca: Loopback, **rates: float) -> None:
    answer = await ask(alpaca.engine, "PUT", f"/accounts/{ACCOUNT}/faults", {"seed": 1, "faults": rates})
    assert answer.is_success


async def refused(status: int, code: int, call: Callable[..., Any], *arguments: object) -> None:
    """The client is told no, in these words."""
    with pytest.raises(APIError) as answer:
        await ask_alpaca(call, *arguments)
    assert (answer.value.status_code, answer.value.code) == (status, code)


async def activities(client: TradingClient, **params: str) -> list[TradeActivity]:
    """The client for traders has no call for them, only the model, whose account id the other client fills in."""
    found = await ask_alpaca(client.get, "/account/activities/FILL", params)
    return [TradeActivity(account_id=ACCOUNT, **activity) for activity in found]


@asynccontextmanager
async def listening(alpaca: Loopback, account_id: AccountId = ACCOUNT) -> AsyncIterator[list[TradeUpdate]]:
    """What the official stream hands out; it stands once a new order of the account was heard."""
    secrets = alpaca.secrets(account_id)
    assert secrets is not None
    address = alpaca.addresses[Environment.PAPER].replace("http:", "ws:") + "/stream"
    stream = TradingStream(secrets["key_id"], secrets["secret"], url_override=address)
    heard: list[TradeUpdate] = []

    async def notify(update: TradeUpdate) -> None:
        heard.append(update)

    stream.subscribe_trade_updates(notify)
    running = asyncio.ensure_future(asyncio.to_thread(stream.run))
    client = client_of(alpaca, account_id)
    try:

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
        # It looks up at the next message only.
        await ask_alpaca(client.submit_order, limit_order("1", "1"))
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


async def test_a_fill_that_came_before_a_replace_stays_with_the_first_order_in_the_activities(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    first: Order = await ask_alpaca(client.submit_order, limit_order("100", "6"))
    second: Order = await ask_alpaca(client.replace_order_by_id, first.id, ReplaceOrderRequest(qty=3))
    pages = [await activities(client, direction="asc", page_size="1")]
    pages.append(await activities(client, direction="asc", page_size="1", page_token=pages[0][0].id))
    pages.append(await activities(client, direction="asc", page_size="1", page_token=pages[1][0].id))
    assert [(fill.order_id, fill.qty, fill.cum_qty, fill.leaves_qty) for page in pages for fill in page] == [
        (first.id, 4, 4, 2),
        (second.id, 3, 3, 0),
    ]
    assert [fill.order_id for fill in await activities(client)] == [second.id, first.id]


async def test_the_account_its_positions_and_what_is_traded_can_be_asked_for(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    await ask_alpaca(client.submit_order, limit_order("100", "2.123456789"))
    account: TradeAccount = await ask_alpaca(client.get_account)
    assert (account.account_number, account.status) == ("PA0000000001", AccountStatus.ACTIVE)
    (position,) = await ask_alpaca(client.get_all_positions)
    assert (position.symbol, position.qty, position.side) == ("AAPL", "2.123456789", PositionSide.LONG)
    asset: Asset = await ask_alpaca(client.get_asset, "AAPL")
    assert asset.id == position.asset_id
    assert asset.fractionable
    with pytest.raises(APIError) as unknown:
        await ask_alpaca(client.get_asset, "aapl!")
    assert (unknown.value.status_code, unknown.value.code) == (404, 40410000)


async def test_orders_are_listed_by_time_in_either_direction_up_to_a_limit(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    placed = [await ask_alpaca(client.submit_order, limit_order(qty=str(qty))) for qty in (1, 2, 3)]

    async def listed(**asked: Any) -> list[UUID]:
        request = GetOrdersRequest(status=QueryOrderStatus.ALL, **asked)
        return [order.id for order in await ask_alpaca(client.get_orders, request)]

    ids = [order.id for order in placed]
    assert await listed() == ids[::-1]
    assert await listed(direction=Sort.ASC, limit=2) == ids[:2]
    assert await listed(after=placed[0].submitted_at, direction=Sort.ASC) == ids[1:]
    assert await listed(until=placed[2].submitted_at) == ids[1::-1]
    with pytest.raises(APIError) as too_many:
        await listed(limit=501)
    assert too_many.value.status_code == 422


async def test_no_id_is_taken_twice_neither_by_an_order_nor_by_a_replacement(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    first: Order = await ask_alpaca(client.submit_order, limit_order(client_order_id="one"))
    await ask_alpaca(client.replace_order_by_id, first.id, ReplaceOrderRequest(qty=3, client_order_id="two"))
    other: Order = await ask_alpaca(client.submit_order, limit_order(client_order_id="three"))
    for taken in ("one", "two", "three"):
        await refused(422, 40010001, client.submit_order, limit_order(client_order_id=taken))
        change = ReplaceOrderRequest(qty=3, client_order_id=taken)
        await refused(422, 40010001, client.replace_order_by_id, other.id, change)
    neighbour = client_of(alpaca, NEIGHBOUR)
    await ask_alpaca(neighbour.submit_order, limit_order(client_order_id="one"))


async def test_an_order_that_has_ended_was_replaced_or_is_not_there_is_not_changed(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    first: Order = await ask_alpaca(client.submit_order, limit_order())
    await refused(422, 42210000, client.replace_order_by_id, first.id, ReplaceOrderRequest(qty=10, limit_price=90))
    second: Order = await ask_alpaca(client.replace_order_by_id, first.id, ReplaceOrderRequest(qty=3))
    await refused(422, 42210000, client.cancel_order_by_id, first.id)
    await ask_alpaca(client.cancel_order_by_id, second.id)
    await refused(422, 42210000, client.cancel_order_by_id, second.id)
    await refused(422, 42210000, client.replace_order_by_id, second.id, ReplaceOrderRequest(qty=4))
    await refused(404, 40410000, client.cancel_order_by_id, uuid4())
    neighbour = client_of(alpaca, NEIGHBOUR)
    await refused(404, 40410000, neighbour.cancel_order_by_id, second.id)
    await refused(404, 40410000, neighbour.get_order_by_id, second.id)


async def test_the_client_repeats_an_order_by_itself_and_the_second_is_refused(alpaca: Loopback) -> None:
    await faults(alpaca, error_500_after_accept=1)
    client = client_of(alpaca)
    client._retry_wait = 0
    await refused(422, 40010001, client.submit_order, limit_order(client_order_id="once"))
    assert [(write.action_type, write.client_order_id) for write in alpaca.writes] == [(ActionType.CREATE, "once")] * 2
    await ask_alpaca(client.get_order_by_client_id, "once")
    assert len(await ask_alpaca(client.get_orders)) == 1


async def test_a_wrong_secret_and_a_key_for_the_other_address_are_not_let_in(alpaca: Loopback) -> None:
    await refused(401, 40110000, client_of(alpaca, secret_key="wrong").get_account)
    live = client_of(alpaca, api_key="AK" + ACCOUNT.hex.upper())
    await refused(401, 40110000, live.get_account)
    await refused(401, 40110000, live.submit_order, limit_order())
    closed = client_of(alpaca, api_key=f"PK{ACCOUNT.hex.upper()}CLOSED")
    assert (await ask_alpaca(closed.get_account)).status is AccountStatus.ACCOUNT_CLOSED


async def test_every_command_is_on_record_as_it_arrived(alpaca: Loopback) -> None:
    client = client_of(alpaca)
    first: Order = await ask_alpaca(client.submit_order, limit_order(client_order_id="a"))
    change = ReplaceOrderRequest(qty=3, client_order_id="b")
    second: Order = await ask_alpaca(client.replace_order_by_id, first.id, change)
    await ask_alpaca(client.cancel_order_by_id, second.id)
    asked = {"client_order_id": "a", "symbol": "AAPL", "side": "BUY", "quantity": "10.0", "limit_price": "90.0"}
    assert alpaca.writes == [
        Write(ActionType.CREATE, str(ACCOUNT), None, asked),
        Write(ActionType.REPLACE, str(ACCOUNT), str(first.id), {"client_order_id": "b", "quantity": "3"}),
        Write(ActionType.CANCEL, str(ACCOUNT), str(second.id)),
    ]

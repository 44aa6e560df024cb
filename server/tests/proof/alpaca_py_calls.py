"""Alpaca's own client, unmodified, at the front: every call that the front supports, and those that it refuses.

The front's address, the account's id and the API key are in APCA_* variables. The last line of the output has each call
with what was wrong about it.
"""

import asyncio
import json
import os
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from alpaca.common.exceptions import APIError
from alpaca.trading.client import TradingClient
from alpaca.trading.enums import OrderSide, OrderStatus, QueryOrderStatus, TimeInForce
from alpaca.trading.models import Clock, Order, Position, TradeAccount, TradeUpdate
from alpaca.trading.requests import (
    GetAssetsRequest,
    GetOrdersRequest,
    LimitOrderRequest,
    MarketOrderRequest,
    ReplaceOrderRequest,
    StopLimitOrderRequest,
    StopOrderRequest,
)
from alpaca.trading.stream import TradingStream

URL, KEY_ID, SECRET = (os.environ[name] for name in ("APCA_API_BASE_URL", "APCA_API_KEY_ID", "APCA_API_SECRET_KEY"))
# Whether the account's broker can replace an order.
REPLACES = os.environ["BROKER_REPLACES"] == "True"
WAIT_SECONDS = 120
ENDED = {OrderStatus.FILLED, OrderStatus.CANCELED, OrderStatus.REJECTED, OrderStatus.EXPIRED}
COMMON = {"symbol": "AAPL", "side": OrderSide.BUY, "time_in_force": TimeInForce.DAY}


class Calls:
    def __init__(self) -> None:
        # Its methods are typed for answers without models too.
        self.client: Any = TradingClient(KEY_ID, SECRET, paper=True, url_override=URL)
        self.results: list[tuple[str, str]] = []
        self.updates: list[TradeUpdate] = []

    def check(self, name: str, call: Callable[[], bool]) -> None:
        """`call` tells whether what came back is as it must be."""
        try:
            wrong = "" if call() else "another result"
        except Exception as error:  # noqa: BLE001 - whatever the client raises is a finding
            wrong = f"{type(error).__name__}: {error}"
        self.results.append((name, wrong))

    def refused(self, name: str, call: Callable[[], Any], status: int) -> None:
        def is_refused() -> bool:
            try:
                call()
            except APIError as error:
                return bool(error.status_code == status and error.message and error.code)
            return False

        self.check(name, is_refused)

    def until(self, order_id: Any, statuses: set[OrderStatus]) -> Any:
        end = time.monotonic() + WAIT_SECONDS
        while (order := self.client.get_order_by_id(order_id)).status not in statuses and time.monotonic() < end:
            time.sleep(0.05)
        return order

    def follow(self) -> TradingStream:
        """Trade updates from now on."""
        stream = TradingStream(KEY_ID, SECRET, paper=True, url_override=URL.replace("http", "ws", 1) + "/stream")

        async def heard(update: TradeUpdate) -> None:
            self.updates.append(update)

        stream.subscribe_trade_updates(heard)
        threading.Thread(target=stream.run, daemon=True).start()
        end = time.monotonic() + WAIT_SECONDS
        while not stream._running and time.monotonic() < end:  # the client has no other sign of being connected
            time.sleep(0.05)
        return stream

    def heard(self, order_id: Any, event: str) -> bool:
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            if any(str(each.order.id) == str(order_id) and _name(each.event) == event for each in self.updates):
                return True
            time.sleep(0.05)
        return False


def _name(event: Any) -> str:
    """The client has a name for some events only."""
    return str(getattr(event, "value", event))


def main() -> None:
    calls = Calls()
    stream = calls.follow()
    _read(calls)
    filled = _fill(calls)
    _rest(calls)
    _find(calls, filled)
    _refuse(calls, filled)
    loop: Any = stream._loop
    asyncio.run_coroutine_threadsafe(stream.stop_ws(), loop).result(WAIT_SECONDS)
    print(json.dumps(calls.results))


def _read(calls: Calls) -> None:
    client = calls.client
    calls.check("get_account", lambda: isinstance(client.get_account(), TradeAccount))
    calls.check("get_clock", lambda: isinstance(client.get_clock(), Clock))
    calls.check("get_asset", lambda: client.get_asset("AAPL").symbol == "AAPL")


def _fill(calls: Calls) -> Any:
    client, name = calls.client, f"drop-in-{uuid.uuid4()}"
    request = MarketOrderRequest(**COMMON, qty=3, client_order_id=name)
    found: list[Order] = []

    def submit() -> bool:
        found.append(client.submit_order(request))
        return found[0].client_order_id == name

    def submit_again() -> bool:
        return bool(client.submit_order(request).id == found[0].id)

    calls.check("submit_order market", submit)
    calls.check("submit_order again with the same client_order_id is the same order", submit_again)
    order = calls.until(found[0].id, ENDED)
    calls.check("get_order_by_id", lambda: order.status is OrderStatus.FILLED and float(order.filled_qty) == 3)
    calls.check("trade_updates new", lambda: calls.heard(order.id, "new"))
    calls.check("trade_updates fill", lambda: calls.heard(order.id, "fill"))
    calls.check("get_all_positions", lambda: [each.symbol for each in client.get_all_positions()] == ["AAPL"])
    calls.check("get_open_position", lambda: _is_three(client.get_open_position("AAPL")))
    return order


def _is_three(position: Position) -> bool:
    return float(str(position.qty)) == 3


def _rest(calls: Calls) -> None:
    client = calls.client
    limit = client.submit_order(LimitOrderRequest(**COMMON, qty=5, limit_price=1.01))
    calls.check("submit_order limit", lambda: calls.until(limit.id, {OrderStatus.NEW}).limit_price == "1.01")

    def replace() -> bool:
        answer = client.replace_order_by_id(limit.id, ReplaceOrderRequest(qty=4, limit_price=1.02))
        order = calls.until(answer.id, {OrderStatus.NEW})
        return bool(order.limit_price == "1.02" and float(order.qty) == 4)

    if REPLACES:
        calls.check("replace_order_by_id", replace)
        calls.check("trade_updates replaced", lambda: calls.heard(limit.id, "replaced"))
    else:
        calls.refused("replace_order_by_id where the broker has no replace", replace, 422)
    client.cancel_order_by_id(limit.id)
    order = calls.until(limit.id, ENDED)
    calls.check("cancel_order_by_id", lambda: order.status is OrderStatus.CANCELED)
    calls.check("trade_updates canceled", lambda: calls.heard(limit.id, "canceled"))
    sell = {**COMMON, "side": OrderSide.SELL, "qty": 1}
    resting = [
        client.submit_order(StopOrderRequest(**sell, stop_price=1.05)),
        client.submit_order(StopLimitOrderRequest(**sell, stop_price=1.05, limit_price=1.04)),
    ]
    for name, order in zip(("stop", "stop_limit"), resting, strict=True):
        is_new = calls.until(order.id, {OrderStatus.NEW, *ENDED}).status is OrderStatus.NEW
        calls.check(f"submit_order {name}", partial(bool, is_new))
    asked = GetOrdersRequest(status=QueryOrderStatus.OPEN, limit=500)
    calls.check(
        "get_orders open", lambda: {each.id for each in client.get_orders(asked)} == {each.id for each in resting}
    )
    calls.check("cancel_orders", lambda: {each.status for each in client.cancel_orders()} == {200})
    ends = [calls.until(each.id, ENDED).status for each in resting]
    calls.check("cancel_orders ends all", lambda: ends == [OrderStatus.CANCELED] * 2)


def _find(calls: Calls, filled: Any) -> None:
    client = calls.client
    calls.check("get_order_by_client_id", lambda: client.get_order_by_client_id(filled.client_order_id) == filled)
    asked = GetOrdersRequest(status=QueryOrderStatus.CLOSED, symbols=["AAPL"], limit=500)
    calls.check("get_orders closed", lambda: filled.id in {each.id for each in client.get_orders(asked)})


def _refuse(calls: Calls, filled: Any) -> None:
    client = calls.client
    calls.refused("get_order_by_id of another order", lambda: client.get_order_by_id(uuid.uuid4()), 404)
    calls.refused("get_open_position of none", lambda: client.get_open_position("MSFT"), 404)
    other = MarketOrderRequest(**COMMON, qty=4, client_order_id=filled.client_order_id)
    calls.refused("submit_order with the id of another order", lambda: client.submit_order(other), 422)
    notional = MarketOrderRequest(**COMMON, notional=100)
    calls.refused("submit_order by notional", lambda: client.submit_order(notional), 422)
    change = ReplaceOrderRequest(qty=1)
    calls.refused("replace_order_by_id of an ended order", lambda: client.replace_order_by_id(filled.id, change), 422)
    calls.refused("get_all_assets", lambda: client.get_all_assets(GetAssetsRequest()), 501)
    calls.refused("close_position", lambda: client.close_position("AAPL"), 501)
    calls.refused("close_all_positions", client.close_all_positions, 501)
    calls.refused("get_calendar", client.get_calendar, 501)
    calls.refused("get_portfolio_history", client.get_portfolio_history, 501)
    calls.refused("get_watchlists", client.get_watchlists, 501)
    calls.refused("get_account_configurations", client.get_account_configurations, 501)


if __name__ == "__main__":
    main()

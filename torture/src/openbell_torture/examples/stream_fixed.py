"""Follows the stream, and looks up by its own id whatever the stream has not reported."""

import asyncio
import contextlib
import json
import os
import uuid
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from openbell_torture.examples.broker import (
    ATTEMPTS,
    ENDS,
    QUANTITIES,
    WORKING,
    NoAnswer,
    Refused,
    Rejected,
    call,
    market_buy,
    order_with_id,
    state_what_is_held,
    stop,
)

WAIT_SECONDS = 0.2
Orders = dict[str, dict[str, Any]]


async def follow(known: Orders, news: asyncio.Event) -> None:
    """Keep the newest state of every order that the stream reports."""
    address = os.environ["APCA_API_STREAM_URL"]
    key, secret = os.environ["APCA_API_KEY_ID"], os.environ["APCA_API_SECRET_KEY"]
    while True:
        try:
            async with connect(address) as connection:
                await connection.send(json.dumps({"action": "auth", "key": key, "secret": secret}))
                await connection.send(json.dumps({"action": "listen", "data": {"streams": ["trade_updates"]}}))
                async for message in connection:
                    update = json.loads(message)
                    if update["stream"] == "trade_updates":
                        order = update["data"]["order"]
                        known[order["client_order_id"]] = order
                        news.set()
        except (ConnectionClosed, OSError):
            await asyncio.sleep(WAIT_SECONDS)


async def place(order: dict[str, Any], wanted: set[str], known: Orders, news: asyncio.Event) -> dict[str, Any]:
    """The order in one of these states. Sent again if it is rejected."""
    for _ in range(ATTEMPTS):
        placed = await send(order, wanted | ENDS, known, news)
        if placed["status"] != "rejected":
            return placed
    raise Rejected


async def send(order: dict[str, Any], wanted: set[str], known: Orders, news: asyncio.Event) -> dict[str, Any]:
    """Send the order until it has one of these states, always under the same id."""
    name = str(uuid.uuid4())
    while True:
        with contextlib.suppress(NoAnswer, Refused):
            await asyncio.to_thread(call, "POST", "/v2/orders", {**order, "client_order_id": name})
        while True:
            if name in known and known[name]["status"] in wanted:
                return known[name]
            news.clear()
            try:
                await asyncio.wait_for(news.wait(), WAIT_SECONDS)
            except TimeoutError:
                found = await look_up(name)
                if found is None:
                    break
                known[name] = found


async def look_up(name: str) -> dict[str, Any] | None:
    while True:
        try:
            return await asyncio.to_thread(order_with_id, name)
        except (NoAnswer, Refused):
            await asyncio.sleep(WAIT_SECONDS)


async def main() -> None:
    known: Orders = {}
    news = asyncio.Event()
    following = asyncio.create_task(follow(known, news))
    held = 0
    for quantity in QUANTITIES:
        bought = await place(market_buy(quantity), ENDS, known, news)
        held += int(bought["filled_qty"])
        await place(stop(quantity), WORKING, known, news)
        state_what_is_held(held)
    following.cancel()


if __name__ == "__main__":
    asyncio.run(main())

"""Relies on the stream alone. It never learns what was sent while the connection was cut."""

import asyncio
import contextlib
import json
import os
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from openbell_torture.examples.broker import QUANTITIES, NoAnswer, Refused, call, market_buy, state_what_is_held, stop

WAIT_SECONDS = 1.0


async def listen(connection: ClientConnection, filled: "asyncio.Queue[int]") -> None:
    async for message in connection:
        update = json.loads(message)
        if update["stream"] == "trade_updates" and update["data"]["event"] == "fill":
            await filled.put(int(update["data"]["order"]["qty"]))


async def follow(filled: "asyncio.Queue[int]", is_listening: asyncio.Event) -> None:
    address = os.environ["APCA_API_STREAM_URL"]
    key, secret = os.environ["APCA_API_KEY_ID"], os.environ["APCA_API_SECRET_KEY"]
    while True:
        try:
            async with connect(address) as connection:
                await connection.send(json.dumps({"action": "auth", "key": key, "secret": secret}))
                await connection.send(json.dumps({"action": "listen", "data": {"streams": ["trade_updates"]}}))
                await connection.recv()
                await connection.recv()
                is_listening.set()
                await listen(connection, filled)
        except (ConnectionClosed, OSError):
            await asyncio.sleep(0.2)


async def place(order: dict[str, Any]) -> None:
    # Without an answer the stream will report what became of it.
    with contextlib.suppress(NoAnswer, Refused):
        await asyncio.to_thread(call, "POST", "/v2/orders", order)


async def main() -> None:
    filled: asyncio.Queue[int] = asyncio.Queue()
    is_listening = asyncio.Event()
    following = asyncio.create_task(follow(filled, is_listening))
    await is_listening.wait()
    held = 0
    for quantity in QUANTITIES:
        await place(market_buy(quantity))
        try:
            bought = await asyncio.wait_for(filled.get(), WAIT_SECONDS)
        except TimeoutError:
            continue
        held += bought
        await place(stop(bought))
        state_what_is_held(held)
    following.cancel()


if __name__ == "__main__":
    asyncio.run(main())

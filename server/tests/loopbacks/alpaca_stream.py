"""Alpaca's stream of trade updates: the engine's feed, for the account that asks for it."""

import asyncio
import contextlib
import json
from typing import Any, Final

import httpx
import msgspec

from loopbacks.alpaca_books import Books
from loopbacks.alpaca_orders import Json, trade_updates
from loopbacks.alpaca_wire import Caller, Refused, caller, encode
from loopbacks.serving import CUT
from openbell_server.brokers.paper.exchange import Message, Receive, Send
from openbell_server.brokers.paper.ledger import number_of
from openbell_server.brokers.paper.wire import FeedLine
from openbell_server.domain.access.accounts import Environment

_STREAM: Final = "trade_updates"
_SILENCE_SECONDS: Final = 20


class Stream:
    """One connection, which may listen after it said who it is."""

    def __init__(
        self, environment: Environment, engine: httpx.AsyncClient, books: Books, scope: Message, send: Send
    ) -> None:
        """Frames are binary at the paper address only."""
        self._environment = environment
        self._engine = engine
        self._books = books
        self._transport = scope["extensions"][CUT]["transport"]
        self._send = send
        self._caller: Caller | None = None
        self._listening: asyncio.Task[None] | None = None

    async def serve(self, receive: Receive) -> None:
        """Answer until the client leaves."""
        await receive()
        await self._send({"type": "websocket.accept"})
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await self._answer(json.loads(message.get("text") or message.get("bytes") or "{}"))
        finally:
            await self._stop()

    async def _answer(self, said: dict[str, Any]) -> None:
        action = said.get("action")
        if action in {"auth", "authenticate"}:
            await self._authorize(action, said)
        elif action == "listen" and self._caller is not None:
            streams = [stream for stream in said.get("data", {}).get("streams", []) if stream == _STREAM]
            await self._stop()
            if streams:
                # The feed stands before that is told: nothing after the word is missed.
                self._listening = asyncio.ensure_future(self._listen(self._caller))
            else:
                await self._say("listening", {"streams": []})
        else:
            await self._say("authorization", {"status": "unauthorized", "action": str(action)})

    async def _authorize(self, action: str, said: dict[str, Any]) -> None:
        data = said.get("data") or {}
        key_id, secret = said.get("key", data.get("key_id", "")), said.get("secret", data.get("secret_key", ""))
        try:
            self._caller = caller(key_id, secret, self._environment)
        except Refused:
            await self._say("authorization", {"status": "unauthorized", "action": action})
            await self._send({"type": "websocket.close", "code": 1000})
        else:
            await self._say("authorization", {"status": "authorized", "action": action})

    async def _listen(self, who: Caller) -> None:
        """Tell what the engine tells; when its feed is cut, so is this connection."""
        try:
            timeout = httpx.Timeout(_SILENCE_SECONDS)
            async with self._engine.stream("GET", "/updates", timeout=timeout) as feed:
                async for line in feed.aiter_lines():
                    await self._tell(who, msgspec.json.decode(line, type=FeedLine))
        except (httpx.HTTPError, OSError):
            # Cut at the one end or at the other.
            pass
        finally:
            # Not when it is stopped: then there is something else to say.
            if self._listening is asyncio.current_task():
                self._transport.abort()

    async def _tell(self, who: Caller, line: FeedLine) -> None:
        if line.connected is not None:
            await self._say("listening", {"streams": [_STREAM]})
        elif line.account_id == who.account_id and line.report is not None and line.number is not None:
            history = await self._books.history(number_of(line.report.broker_order_id) or 0)
            assert history is not None
            position = await self._books.position(who.account_id, history.symbol)
            for update in trade_updates(history, line.number, position):
                await self._say(_STREAM, update)

    async def _say(self, stream: str, data: Json) -> None:
        content = encode({"stream": stream, "data": data})
        is_binary = self._environment is Environment.PAPER
        frame = {"bytes": content} if is_binary else {"text": content.decode()}
        await self._send({"type": "websocket.send", **frame})

    async def _stop(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

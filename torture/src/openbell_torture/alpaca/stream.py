"""Alpaca's stream of trade updates: the engine's feed, for the account that asks for it."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any, Final

from openbell_exchange.memory import OrderUpdate
from openbell_torture.alpaca.engine import Cut, Engine, RequestKind
from openbell_torture.alpaca.orders import Json, trade_updates
from openbell_torture.alpaca.wire import Caller, Refused, caller, encode
from openbell_torture.http_request import Message, Receive, Send, abort

_STREAM: Final = "trade_updates"


class Stream:
    """One connection, which may listen after it signed in."""

    def __init__(
        self, engine: Engine, observe: Callable[[object], None], scope: Message, send: Send, *, is_live: bool
    ) -> None:
        self._engine = engine
        self._observe = observe
        self._scope = scope
        self._send = send
        self._is_live = is_live
        self._caller: Caller | None = None
        self._listening: asyncio.Task[None] | None = None

    async def serve(self, receive: Receive) -> None:
        """Answer until the client leaves."""
        await receive()
        await self._send({"type": "websocket.accept"})
        try:
            await self._engine.admit(RequestKind.STREAM)
        except Cut:
            abort(self._scope)
            return
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await self._answer(json.loads(message.get("text") or message.get("bytes") or "{}"))
        finally:
            await self._stop()

    async def _answer(self, request: dict[str, Any]) -> None:
        action = request.get("action")
        if action in {"auth", "authenticate"}:
            await self._authorize(action, request)
        elif action == "listen" and self._caller is not None:
            streams = [stream for stream in request.get("data", {}).get("streams", []) if stream == _STREAM]
            await self._stop()
            if streams:
                # The feed is open before the client is answered: nothing after the answer is missed.
                self._listening = asyncio.ensure_future(self._listen(self._caller))
            else:
                await self._send_data("listening", {"streams": []})
        else:
            await self._send_data("authorization", {"status": "unauthorized", "action": str(action)})

    async def _authorize(self, action: str, request: dict[str, Any]) -> None:
        data = request.get("data") or {}
        key_id, secret = request.get("key", data.get("key_id", "")), request.get("secret", data.get("secret_key", ""))
        try:
            self._caller = caller(key_id, secret, is_live=self._is_live)
        except Refused:
            await self._send_data("authorization", {"status": "unauthorized", "action": action})
            await self._send({"type": "websocket.close", "code": 1000})
        else:
            await self._send_data("authorization", {"status": "authorized", "action": action})

    async def _listen(self, who: Caller) -> None:
        """Send what the engine reports; when its feed is cut, so is this connection."""
        try:
            async with self._engine.updates() as updates:
                await self._send_data("listening", {"streams": [_STREAM]})
                async for update in updates:
                    await self._send_update(who, update)
        except (Cut, OSError):
            # Cut at the one end or at the other.
            pass
        finally:
            # Not when it is stopped: then the client is answered.
            if self._listening is asyncio.current_task():
                abort(self._scope)

    async def _send_update(self, who: Caller, update: OrderUpdate) -> None:
        if update.account_id == who.account_id:
            history = await self._engine.history(update.order_number)
            assert history is not None
            position = await self._engine.position(who.account_id, history.symbol)
            for event in trade_updates(history, update.number, position):
                await self._send_data(_STREAM, event)
                self._observe(event)

    async def _send_data(self, stream: str, data: Json) -> None:
        content = encode({"stream": stream, "data": data})
        frame = {"text": content.decode()} if self._is_live else {"bytes": content}
        await self._send({"type": "websocket.send", **frame})

    async def _stop(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

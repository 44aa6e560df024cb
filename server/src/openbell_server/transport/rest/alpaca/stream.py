"""Alpaca's stream of trade updates over a WebSocket."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import msgspec
import structlog
from litestar.types import ASGIApp, Receive, Scope, Send

from openbell_server.application.access.authenticate import Credential
from openbell_server.application.access.find_account import find_account
from openbell_server.application.events.event_frames import Frame, FrameKind, Start, Subscription
from openbell_server.application.events.recheck_access import Entrance
from openbell_server.domain.access.accounts import Environment, TradingAccount
from openbell_server.domain.access.authorization import Operation, admit
from openbell_server.domain.access.principals import Caller, Principal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.http_protocol import cut_connection
from openbell_server.transport.rest.alpaca.bodies import order_body, shown_of
from openbell_server.transport.rest.alpaca.entry import PREFIX, account_id_from
from openbell_server.transport.rest.alpaca.routes import AlpacaUse
from openbell_server.transport.rest.alpaca.trade_updates import FOLLOWED, trade_update, update_name
from openbell_server.transport.rest.events.server_sent_events import SLOW_SECONDS, EventStreams
from openbell_server.transport.rest.strict_json import decode_json

SIGN_IN_SECONDS: Final = 10.0
_PATH: Final = f"{PREFIX}/stream"
_UPDATES: Final = "trade_updates"
_REFUSED, _BROKEN, _RESTARTS = 1008, 1011, 1012
Json = dict[str, Any]


class _Left(Exception):
    """The client is gone."""


@dataclass(frozen=True, slots=True)
class _Bot:
    credential: Credential
    caller: Caller
    principal: Principal
    account: TradingAccount


def with_trade_updates(app: ASGIApp, use: AlpacaUse, streams: EventStreams) -> ASGIApp:
    """Serves WebSockets at the path of Alpaca's stream; everything else is passed on."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if cast("str", scope["type"]) != "websocket":
            await app(scope, receive, send)
        elif scope["path"] == _PATH:
            await _Connection(use, streams, scope, receive, send).serve()
        else:
            await receive()
            await send(cast("Any", {"type": "websocket.close"}))

    return serve


@dataclass(slots=True)
class _Connection:
    use: AlpacaUse
    streams: EventStreams
    scope: Any
    receive: Receive
    send: Send
    is_binary: bool = True
    is_listening: bool = False

    async def serve(self) -> None:
        await self.receive()
        await self._write({"type": "websocket.accept"})
        try:
            await self._answer()
        except _Left:
            return
        except Problem as problem:
            await self._end(_RESTARTS if problem.code == "unavailable" else _REFUSED, problem)
        except Exception:  # noqa: BLE001 - the bot connects again; the operator gets the reason
            structlog.get_logger().exception("trade_updates_failed")
            await self._end(_BROKEN, Problem("unavailable", "the stream broke; connect again"))

    async def _answer(self) -> None:
        try:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                bot = await self._sign_in()
        except TimeoutError as late:
            message = f"nobody signed in within {SIGN_IN_SECONDS:g} s"
            raise Problem("unauthenticated", message) from late
        async with self.streams.place(bot.principal):
            while not self._listens(await self._next(bot)):
                await self._send("listening", {"streams": []})
            entrance = Entrance(self.use.enter.authenticate, bot.credential, None)
            wanted = Subscription(account_id=bot.account.id, kinds=FOLLOWED, start=Start.LIVE)
            cut = partial(cut_connection, self.scope)
            async with contextlib.aclosing(self.streams.follow.subscribe(entrance, wanted, lambda _: cut())) as frames:
                await anext(frames)
                # From now on nothing is missed.
                await self._send("listening", {"streams": [_UPDATES]})
                await self._both(frames, bot)

    async def _both(self, frames: AsyncGenerator[Frame, None], bot: _Bot) -> None:
        """Send updates and answer messages until one of them ends."""
        parts = [
            asyncio.ensure_future(self._send_updates(frames, bot)),
            asyncio.ensure_future(self._answer_messages(bot)),
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in parts:
                each.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _sign_in(self) -> _Bot:
        message = await self._message()
        action = str(message.get("action"))[:64]
        try:
            bot = await self._authorized(*_credential_of(message))
        except Problem as problem:
            refused = {"status": "unauthorized", "action": action, **_openbell(problem)}
            await self._send("authorization", refused)
            raise
        self.is_binary = bot.account.environment is Environment.PAPER
        await self._send("authorization", {"status": "authorized", "action": action})
        return bot

    async def _authorized(self, account_id: AccountId, credential: Credential) -> _Bot:
        enter = self.use.enter
        caller = await enter.authenticated(credential, self.scope)
        await enter.limit.read(caller)
        principal = admit(caller, Operation.FOLLOW_EVENTS, None)
        account = await find_account(self.use.accounts, principal, Operation.READ_INTENTS, account_id)
        return _Bot(credential, caller, principal, account)

    async def _answer_messages(self, bot: _Bot) -> None:
        while True:
            streams = [_UPDATES] if self._listens(await self._next(bot)) else []
            await self._send("listening", {"streams": streams})

    def _listens(self, message: Json) -> bool:
        data = message.get("data")
        streams = data.get("streams") if isinstance(data, dict) else None
        if message.get("action") != "listen" or not isinstance(streams, list):
            raise Problem("invalid_parameter", "a message must have the action listen and the field data.streams")
        self.is_listening = _UPDATES in streams
        return self.is_listening

    async def _send_updates(self, frames: AsyncGenerator[Frame, None], bot: _Bot) -> None:
        async for frame in frames:
            if frame.kind in (FrameKind.GAP, FrameKind.ERROR):
                raise Problem("unavailable", "the stream ends; connect again and list the orders")
            if frame.entry is None or not self.is_listening:
                continue
            event = frame.entry.event
            name = update_name(event)
            if name is not None and event.intent_id is not None:
                order = order_body(shown_of(await self.use.find(bot.principal, bot.account.id, event.intent_id)))
                await self._send(_UPDATES, trade_update(name, event, order))

    async def _next(self, bot: _Bot) -> Json:
        message = await self._message()
        await self.use.enter.limit.read(bot.caller)
        return message

    async def _message(self) -> Json:
        received = cast("Json", await self.receive())
        if received["type"] != "websocket.receive":
            raise _Left
        content = received.get("bytes")
        decoded = decode_json(received["text"].encode() if content is None else content)
        if not isinstance(decoded, dict):
            raise Problem("not_json", "a message must be an object")
        return decoded

    async def _send(self, stream: str, data: Json) -> None:
        content = msgspec.json.encode({"stream": stream, "data": data})
        # As Alpaca: binary frames for paper accounts, text frames for live ones.
        frame = {"bytes": content} if self.is_binary else {"text": content.decode()}
        await self._write({"type": "websocket.send", **frame})

    async def _end(self, code: int, problem: Problem) -> None:
        with contextlib.suppress(_Left):
            await self._send("error", {"error": problem.detail, **_openbell(problem)})
            await self._write({"type": "websocket.close", "code": code})

    async def _write(self, message: Json) -> None:
        """Cuts the connection of a client that does not read."""
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                await self.send(cast("Any", message))
        except OSError as error:
            # Also a TimeoutError, and uvicorn's error for a client that left.
            cut_connection(self.scope)
            raise _Left from error


def _credential_of(message: Json) -> tuple[AccountId, Credential]:
    """Alpaca has two spellings of the message that signs in."""
    action, data = message.get("action"), message.get("data")
    if action == "auth":
        key_id, secret = message.get("key"), message.get("secret")
    elif action == "authenticate" and isinstance(data, dict):
        key_id, secret = data.get("key_id"), data.get("secret_key")
    else:
        raise Problem("unauthenticated", "the first message must have the action auth or authenticate, and a key")
    return account_id_from(key_id), Credential(api_key=secret) if isinstance(secret, str) else Credential()


def _openbell(problem: Problem) -> Json:
    return {"openbell": {"code": problem.code, "message": problem.detail}}

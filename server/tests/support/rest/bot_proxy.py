"""Stands between bots and the front, and notes in a journal for each account what its bot asked and was answered."""

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from openbell_torture.alpaca.application import Asked
from openbell_torture.alpaca.wire import fields_of
from openbell_torture.journal import Journal
from support.brokers.torture_broker import KEY_ID

_PASSED_ON = {b"apca-api-key-id", b"apca-api-secret-key", b"content-type"}


@dataclass
class BotProxy:
    """An ASGI application."""

    # Of the front.
    url: str
    client: httpx.AsyncClient
    # By key id.
    journals: defaultdict[str, Journal] = field(default_factory=lambda: defaultdict(Journal))
    # The orders that submits were answered with: by key id, by the ordinal of the request.
    placed: defaultdict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._stream(receive, send)
        else:
            await self._request(scope, receive, send)

    async def _request(self, scope: Any, receive: Any, send: Any) -> None:
        content = b""
        while (message := await receive())["type"] == "http.request":
            content += message["body"]
            if not message["more_body"]:
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"] if name in _PASSED_ON}
        key_id, method, path = headers[KEY_ID.decode()], scope["method"], scope["path"]
        journal = self.journals[key_id]
        entry = journal.asked(Asked(method, path, None, fields=fields_of(content) if content else {}))
        query = scope["query_string"].decode()
        answer = await self.client.request(
            method, f"{self.url}{path}?{query}", headers=headers, content=content, timeout=60
        )
        body = json.loads(answer.content or b"null")
        if entry.is_submit and answer.status_code == 200:
            self.placed[key_id][entry.ordinal] = body["id"]
        journal.answered(entry, answer.status_code, body)
        start = [(b"content-type", b"application/json"), (b"content-length", str(len(answer.content)).encode())]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": start})
        await send({"type": "http.response.body", "body": answer.content})

    async def _stream(self, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        signs_in = await receive()
        if signs_in["type"] != "websocket.receive":
            return
        asked = json.loads(signs_in["text"])
        journal = self.journals[asked["key"]]
        async with connect(self.url.replace("http", "ws", 1) + "/stream", proxy=None) as front:
            await front.send(signs_in["text"])
            parts = [asyncio.ensure_future(_up(receive, front)), asyncio.ensure_future(_down(front, send, journal))]
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)


async def _up(receive: Any, front: ClientConnection) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        await front.send(message["text"])


async def _down(front: ClientConnection, send: Any, journal: Journal) -> None:
    try:
        async for message in front:
            journal.streamed(json.loads(message))
            await send({"type": "websocket.send", "bytes": message})
    except ConnectionClosed:
        await send({"type": "websocket.close", "code": 1012})

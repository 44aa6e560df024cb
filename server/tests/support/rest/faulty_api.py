"""Stands between the console and the api: counts requests, and breaks event streams as networks do."""

import asyncio
import json
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import httpx

EVENTS = "/v1/events"
CONTROL = "/_proxy/"
OF_THE_FRAME = frozenset({"/v1/me", "/v1/accounts"})
FAULTS = ("502", "503", "401", "reset", "restored")
_CONNECTION_HEADERS = {b"connection", b"keep-alive", b"transfer-encoding", b"host", b"content-length"}
# What the api answers to a token of another incarnation of the database.
_RESTORED = {"type": "about:blank", "title": "Conflict", "status": 409, "code": "invalid_cursor", "detail": "restored"}
_UNAVAILABLE = {
    "type": "about:blank",
    "title": "Service Unavailable",
    "status": 503,
    "code": "unavailable",
    "detail": "the database does not answer",
}
_UNAUTHENTICATED = {"type": "about:blank", "title": "Unauthorized", "status": 401, "code": "unauthenticated"}


@dataclass
class FaultyApi:
    """An ASGI application."""

    # Of the api.
    url: str
    client: httpx.AsyncClient = field(default_factory=httpx.AsyncClient)
    calls: Counter[str] = field(default_factory=Counter)
    # How each cut stream ended, and what its next request was answered.
    cuts: Counter[str] = field(default_factory=Counter)
    _planned: deque[str] = field(default_factory=deque)
    # While set, only streams and what the frame of every page reads are answered.
    is_down: bool = False
    _streams: set[asyncio.Event] = field(default_factory=set)

    def cut(self, fault: str) -> None:
        """End every stream; the next request of one meets the fault."""
        self._planned.append(fault)
        self.cuts[fault] += 1
        for ended in self._streams:
            ended.set()

    @property
    def is_met(self) -> bool:
        """Whether every planned fault was met, and a stream stands."""
        return not self._planned and bool(self._streams)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        content = b""
        while (message := await receive())["type"] == "http.request":
            content += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["path"].startswith(CONTROL):
            await self._control(scope["path"].removeprefix(CONTROL), send)
            return
        is_stream = scope["path"] == EVENTS and (b"accept", b"text/event-stream") in scope["headers"]
        self.calls[f"{scope['method']} {'stream' if is_stream else scope['path']}"] += 1
        if is_stream and self._planned:
            await _break(self._planned.popleft(), send)
            return
        if self.is_down and scope["path"] not in OF_THE_FRAME and not is_stream:
            await _break("503", send)
            return
        query = scope["query_string"].decode()
        headers = [pair for pair in scope["headers"] if pair[0] not in _CONNECTION_HEADERS]
        request = self.client.build_request(
            scope["method"], f"{self.url}{scope['path']}?{query}", headers=headers, content=content, timeout=None
        )
        answer = await self.client.send(request, stream=True)
        try:
            kept = [pair for pair in answer.headers.raw if pair[0].lower() not in _CONNECTION_HEADERS]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
            if is_stream and answer.status_code == httpx.codes.OK:
                await self._pass_on_until_cut(answer, receive, send)
            else:
                body = b"".join([chunk async for chunk in answer.aiter_raw()])
                await send({"type": "http.response.body", "body": body})
        finally:
            await answer.aclose()

    async def _control(self, what: str, send: Any) -> None:
        """`cut/FAULT`, `calls` (since the last time) and `down` or `up`, for programs that drive a browser."""
        name, _, fault = what.partition("/")
        found: object = {}
        if name == "cut":
            self.cut(fault)
        elif name == "met":
            found = self.is_met
        elif name == "calls":
            found = dict(self.calls)
            self.calls.clear()
        else:
            self.is_down = name == "down"
        await _answer(200, found, send)

    async def _pass_on_until_cut(self, answer: httpx.Response, receive: Any, send: Any) -> None:
        ended = asyncio.Event()
        self._streams.add(ended)

        async def pass_on() -> None:
            async for chunk in answer.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

        # The next message is that the caller has gone.
        parts = [asyncio.ensure_future(each) for each in (pass_on(), ended.wait(), receive())]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(ended)
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        # Without a last part uvicorn closes the connection, and the reader learns that the body is not whole.


async def _break(fault: str, send: Any) -> None:
    if fault == "reset":
        return
    body = {"restored": _RESTORED, "401": _UNAUTHENTICATED}.get(fault, _UNAVAILABLE)
    await _answer(409 if fault == "restored" else int(fault), body, send)


async def _answer(status: int, body: object, send: Any) -> None:
    headers = [(b"content-type", b"application/problem+json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})

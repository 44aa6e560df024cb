"""A server that speaks a broker's protocol over raw sockets, and on one route at a time says something hostile."""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from conformance.hostile_frames import frame, take_message, welcome
from conformance.hostile_payloads import Payload, plain
from conformance.samples import Answer, Route, Samples

REQUEST_BYTES_MAX = 1_000_000
# Small, so that what was pushed is about what was read.
SEND_BUFFER_BYTES = 65_536


@dataclass(slots=True)
class Seen:
    """What came while one payload was served."""

    routes: list[str] = field(default_factory=list)
    # Requests that no route is for, or that bring what they should not.
    strays: list[str] = field(default_factory=list)
    # Bytes that went out on the longest of the hostile answers, and how many were begun and ended.
    pushed: int = 0
    begun: int = 0
    ended: int = 0


@dataclass(slots=True)
class HostileServer:
    """Answers well until told otherwise."""

    samples: Samples
    port: int = 0
    seen: Seen = field(default_factory=Seen)
    # Bodies as they came, the last few; and what is answered instead of the first answer, by route.
    bodies: deque[bytes] = field(default_factory=lambda: deque(maxlen=8))
    replies: dict[str, Answer] = field(default_factory=dict)
    _route: str | None = None
    _payload: Payload | None = None
    _answer: Answer | None = None
    _hostile: set[asyncio.StreamWriter] = field(default_factory=set)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def attack(self, route: Route, payload: Payload) -> None:
        """From now on this route is answered so."""
        self.seen = Seen()
        self._route, self._payload, self._answer = route.name, payload, None

    def behave(self, route: Route | None = None, answer: Answer | None = None) -> None:
        """Answer well again, the route with this answer of its; hostile connections end."""
        self._route, self._payload, self._answer = route.name if route else None, None, answer
        for writer in self._hostile:
            writer.transport.abort()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(begin, "127.0.0.1", 0, limit=REQUEST_BYTES_MAX)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await self._answered(reader, writer):
                    pass
        finally:
            self._open.discard(writer)
            self._hostile.discard(writer)
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether there may be another on this connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        start, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        if body := await reader.readexactly(int(headers.get("content-length", "0"))):
            self.bodies.append(body)
        method, target, _ = start.split(" ")
        route = self.samples.route(method, urlsplit(target).path)
        if route is None or "cookie" in headers:
            self.seen.strays.append(start)
        if route is None:
            return False
        self.seen.routes.append(route.name)
        if self._payload is not None and route.name == self._route:
            await self._be_hostile(self._payload, headers, reader, writer)
            return False
        answer = self._answer if self._answer is not None and route.name == self._route else None
        answer = answer or self.replies.get(route.name, route.answers[0])
        if route.is_socket:
            await _say(answer.body.splitlines(), headers, reader, writer)
            await reader.read()
            return False
        if route.is_feed:
            await _feed(answer, reader, writer)
            return False
        writer.write(plain(answer))
        await writer.drain()
        return True

    async def _be_hostile(
        self, payload: Payload, headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        seen, pushed = self.seen, 0
        self._hostile.add(writer)
        seen.begun += 1
        try:
            if payload.messages is not None:
                await _say(payload.messages(), headers, reader, writer)
            for piece in payload.pieces():
                if isinstance(piece, bytes):
                    writer.write(piece.replace(b"%PORT%", str(self.port).encode()))
                    await writer.drain()
                    pushed += len(piece)
                elif piece:
                    await asyncio.sleep(piece)
            if payload.stays:
                await reader.read()
        finally:
            seen.pushed = max(seen.pushed, pushed - writer.transport.get_write_buffer_size())
            seen.ended += 1


async def _feed(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(f"HTTP/1.1 {answer.status} X\r\n\r\n".encode() + answer.body)
    await writer.drain()
    await reader.read()


async def _say(
    messages: list[bytes], headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Open a WebSocket; the first two messages answer one each, the rest come by themselves."""
    writer.write(welcome(headers.get("sec-websocket-key", "")))
    for number, message in enumerate(messages):
        if number < 2:
            await take_message(reader)
        writer.write(frame(2, message))
        await writer.drain()

"""A proxy in front of PostgreSQL that cuts a connection inside the commit of an accept step, or inside its reply."""

import asyncio
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

CONNECT_SECONDS = 60
# Codes in the place of a protocol version: "may we encrypt", which one byte answers, and "cancel".
_ENCRYPTION_REQUESTS = {80877103, 80877104}
_CANCEL_REQUEST = 80877102
_ACCEPT_STEP = b"accept_commands"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Cut:
    """The commit, or its reply, passes up to a byte, and then nothing does.

    `stop` ends a slice: 0 lets nothing pass, -1 all but the last byte, None all. A cut in the reply waits for the whole
    of it first, so that the server has certainly committed; a cut in the commit never waits.
    """

    part: Literal["commit", "reply"]
    stop: int | None
    # Nothing is closed: each side waits for the other as if the network had swallowed it.
    silent: bool = False
    # Everybody else is cut off as well, and nobody is let in until `admit`.
    alone: bool = False

    @property
    def kind(self) -> str:
        """The cut in words."""
        place = {0: "before", None: "after"}.get(self.stop, "inside")
        return f"{place} the {self.part}" + ", silent" * self.silent + ", no new connection" * self.alone


class CommitProxy:
    """Passes everything on until an armed cut meets the commit of an accept step; each arming makes one cut."""

    def __init__(self, url: str) -> None:
        """The database's own address."""
        address = urlsplit(url)
        login, _, host = address.netloc.rpartition("@")
        folder, _, port = unquote(host).rpartition(":")
        self._socket = f"{folder}/.s.PGSQL.{port}"
        self._login, self._database = login, address.path
        self._armed: tuple[Cut, asyncio.Event] | None = None
        self._refusing = False
        self._links: set[_Link] = set()
        self.made: Counter[str] = Counter()

    def arm(self, cut: Cut) -> asyncio.Event:
        """Cut the next commit; the event says that it was done."""
        assert self._armed is None, "the last cut is still to be made"
        self._armed = cut, asyncio.Event()
        return self._armed[1]

    def admit(self) -> None:
        """Let new connections in again."""
        self._refusing = False

    @property
    def url(self) -> str:
        """The database's address through the proxy."""
        port: int = self._server.sockets[0].getsockname()[1]
        return f"postgresql://{self._login}@127.0.0.1:{port}{self._database}"

    def take(self) -> tuple[Cut, asyncio.Event] | None:
        """The armed cut, for the link that met a commit."""
        taken, self._armed = self._armed, None
        return taken

    def count(self, cut: Cut, made: asyncio.Event) -> None:
        """A link made its cut."""
        self.made[cut.kind] += 1
        if cut.alone:
            self._refusing = True
            for link in self._links:
                if not link.silent:
                    link.reset()
        made.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for link in self._links:
            link.reset()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _reset(writer)
            return
        async with asyncio.timeout(CONNECT_SECONDS):
            upstream = await asyncio.open_unix_connection(self._socket)
        link = _Link(self, (reader, writer), upstream)
        self._links.add(link)
        try:
            await link.run()
        finally:
            # A silent one stays, with both sockets open, until we close.
            if not link.silent:
                self._links.discard(link)
                link.reset()


@dataclass(eq=False, slots=True)
class _Link:
    """One connection: its two directions, and what tells a commit from other messages."""

    proxy: CommitProxy
    client: Stream
    server: Stream
    silent: bool = False
    # A cut that waits for the server's reply.
    waiting: tuple[Cut, asyncio.Event] | None = None
    # Whether a transaction was begun, and whether an accept step was executed since.
    beginning: bool = False
    accepting: bool = False
    # Names of prepared statements and portals, and whether they run the accept step.
    statements: dict[bytes, bool] = field(default_factory=dict)
    portals: dict[bytes, bool] = field(default_factory=dict)

    async def run(self) -> None:
        """Until a side leaves or the cut was made."""
        try:
            if await self._start_up():
                async with asyncio.TaskGroup() as directions:
                    directions.create_task(self._forward())
                    directions.create_task(self._backward())
        except* (asyncio.IncompleteReadError, ConnectionError):
            pass

    def reset(self) -> None:
        """Close both sides abruptly."""
        for _, writer in (self.client, self.server):
            _reset(writer)

    async def _start_up(self) -> bool:
        """Pass on the messages that have no type; whether a session follows them."""
        while True:
            size = await self.client[0].readexactly(4)
            body = await self.client[0].readexactly(int.from_bytes(size) - 4)
            self.server[1].write(size + body)
            code = int.from_bytes(body[:4])
            if code == _CANCEL_REQUEST:
                await self.server[0].read()
                return False
            if code not in _ENCRYPTION_REQUESTS:
                return True
            answer = await self.server[0].readexactly(1)
            assert answer == b"N", "what is encrypted cannot be read here"
            self.client[1].write(answer)

    async def _forward(self) -> None:
        """From the client to the server."""
        while True:
            message = await _read_message(self.client[0])
            if self._accepts_alone(message):
                # Outside a transaction it is committed by what follows, with which it is one message here.
                message += await _read_message(self.client[0])
                assert message[-5:-4] == b"S"
            taken = None
            if self._commits(message):
                taken = self.proxy.take()
            if taken is not None and taken[0].part == "commit":
                self.server[1].write(message[: taken[0].stop])
                self._end(*taken)
            self.waiting = taken
            self.server[1].write(message)
            await self.server[1].drain()

    async def _backward(self) -> None:
        """From the server to the client."""
        reply = b""
        while True:
            message = await _read_message(self.server[0])
            if self.waiting is None:
                self.client[1].write(message)
                await self.client[1].drain()
                continue
            reply += message
            if message[:1] == b"Z":
                self.client[1].write(reply[: self.waiting[0].stop])
                self._end(*self.waiting)

    def _commits(self, message: bytes) -> bool:
        """Whether an accept step is committed by this."""
        body = message[5:]
        match message[:1]:
            case b"P":
                name, text, _ = body.split(b"\0", 2)
                self.statements[name] = _ACCEPT_STEP in text
            case b"B":
                portal, name, _ = body.split(b"\0", 2)
                self.portals[portal] = self.statements[name]
            case b"E" if self.portals[body.split(b"\0", 1)[0]]:
                self.accepting = self.beginning
                return not self.beginning
            case b"Q":
                self.beginning = body.startswith(b"begin;")
                accepting, self.accepting = self.accepting, False
                return accepting and body.strip(b" ;\0").lower() == b"commit"
        return False

    def _accepts_alone(self, message: bytes) -> bool:
        return message[:1] == b"E" and not self.beginning and self.portals[message[5:].split(b"\0", 1)[0]]

    def _end(self, cut: Cut, made: asyncio.Event) -> None:
        if cut.silent:
            self.silent = True
        else:
            self.reset()
        self.proxy.count(cut, made)
        raise ConnectionAbortedError("cut")


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """One message of a session: a type, a length that counts itself, a body."""
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a socket without a goodbye."""
    if not writer.transport.is_closing():
        # A close that lingers for no time is a reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

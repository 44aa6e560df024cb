"""A proxy before the paper broker that writes down every command whose bytes came out of an executor."""

import asyncio
import contextlib
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

import httptools

from openbell_server.domain.orders.intents import ActionType
from support.brokers.broker_writes import Write

CONNECT_SECONDS = 60
CHUNK_BYTES = 65_536
BACKLOG = 512
# A kind of the broker has a path of its own; an order is named by our id or by the broker's.
_ORDERS = re.compile(
    r"(/paper-[a-z])?/accounts/(?P<account>[0-9a-f-]{36})/(broker-)?orders(/(?P<order>[^/]+))?",
)
# By method, and whether the path names an order.
_COMMANDS = {
    ("POST", False): ActionType.CREATE,
    ("PATCH", True): ActionType.REPLACE,
    ("DELETE", True): ActionType.CANCEL,
}


@dataclass
class Requests:
    """Reads the requests of one connection, however their bytes are cut into pieces."""

    note: Callable[[Write], None]
    _parser: httptools.HttpRequestParser = field(init=False)
    _url: bytes = b""
    _body: bytes = b""
    _inside: bool = False

    def __post_init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        """The next bytes that came."""
        self._parser.feed_data(data)

    def close(self) -> None:
        """No more will come."""
        if self._inside:
            self._end(whole=False)

    def on_message_begin(self) -> None:
        self._url, self._body, self._inside = b"", b"", True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._end(whole=True)

    def _end(self, *, whole: bool) -> None:
        self._inside = False
        path = _ORDERS.fullmatch(urlsplit(self._url.decode()).path)
        if path is None:
            return
        order = path["order"] and unquote(path["order"])
        action_type = _COMMANDS.get((self._parser.get_method().decode(), order is not None))
        if action_type is not None:
            body = json.loads(self._body) if whole and self._body else {}
            self.note(Write(action_type, path["account"], order, body, whole, time.time()))


class BrokerSocket:
    """Listens in the broker's place, and passes everything on in both directions as it comes.

    It listens from the start, so that its address can be told to processes before there is a loop to serve them.
    """

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """What executors take for the broker's."""
        port: int = self._socket.getsockname()[1]
        return port

    @asynccontextmanager
    async def before(self, broker_url: str) -> AsyncIterator[Self]:
        """Serve while inside."""
        address = urlsplit(broker_url)

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve((reader, writer), (address.hostname, address.port)))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

        server = await asyncio.start_server(begin, sock=self._socket, backlog=BACKLOG)
        try:
            yield self
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()
            if self._serving:
                await asyncio.wait(self._serving)

    async def _serve(
        self, client: tuple[asyncio.StreamReader, asyncio.StreamWriter], upstream: tuple[str | None, int | None]
    ) -> None:
        requests = Requests(self.writes.append)
        writers = [client[1]]
        self._open.add(client[1])
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                broker = await asyncio.open_connection(*upstream)
            writers.append(broker[1])
            self._open.add(broker[1])
            both = [
                asyncio.ensure_future(_pass_on(client[0], broker[1], requests.feed)),
                asyncio.ensure_future(_pass_on(broker[0], client[1], lambda _: None)),
            ]
            _, left = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in left:
                task.cancel()
        except OSError:
            # The broker is away; what was written to us all the same did leave.
            with contextlib.suppress(OSError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    requests.feed(await client[0].read(CHUNK_BYTES))
        finally:
            requests.close()
            for writer in writers:
                self._open.discard(writer)
                writer.transport.abort() if len(writers) == 1 else writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, see: Callable[[bytes], None]) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            see(data)
            writer.write(data)
            await writer.drain()

"""A proxy on this machine in front of a broker, which can lose an answer after the broker has the command."""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from openbell_server.bounded_http import trusted_tls

HEAD_BYTES_MAX: Final = 65_536
BODY_BYTES_MAX: Final = 1_000_000
CONNECT_SECONDS: Final = 10
_CHUNK_BYTES: Final = 65_536
_READS: Final = frozenset({b"GET", b"HEAD"})


@dataclass(slots=True)
class CuttingProxy:
    """Passes requests on, byte by byte, except for the name of the host."""

    # Of the broker.
    url: str
    port: int = 0
    # Whether the answer of the next command gets lost.
    _cuts: bool = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{urlsplit(self.url).path.rstrip('/')}"

    def cut_next(self) -> None:
        self._cuts = True

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection of the client, with one of its own to the broker."""
        broker: StreamWriter | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                answers, broker = await self._connect()
            connection = _Connection(writer, broker)
            back = asyncio.ensure_future(connection.pass_back(answers))
            try:
                await self._pass_on(reader, connection)
            finally:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            # The client finds its connection closed, as it would without a proxy.
            pass
        finally:
            for each in (writer, broker):
                if each is not None:
                    each.transport.abort()

    async def _connect(self) -> tuple[StreamReader, StreamWriter]:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        return await asyncio.open_connection(parts.hostname, port, ssl=trusted_tls() if secure else None)

    async def _pass_on(self, reader: StreamReader, connection: "_Connection") -> None:
        """Requests until the client or the broker closes."""
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head[:-4].split(b"\r\n")
            fields = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])
            }
            size = int(fields.get(b"content-length", b"0"))
            if not 0 <= size <= BODY_BYTES_MAX or b"transfer-encoding" in fields:
                raise ValueError("a body that cannot be passed on")
            body = await reader.readexactly(size)
            if self._cuts and lines[0].split(b" ")[0] not in _READS:
                self._cuts, connection.is_cut = False, True
            host = urlsplit(self.url).netloc.rpartition("@")[2].encode()
            kept = [line for line in lines[1:] if line.partition(b":")[0].strip().lower() != b"host"]
            connection.broker.write(b"\r\n".join([lines[0], b"host: " + host, *kept]) + b"\r\n\r\n" + body)
            await connection.broker.drain()
            if b"upgrade" in fields:
                while data := await reader.read(_CHUNK_BYTES):
                    connection.broker.write(data)
                    await connection.broker.drain()
                return


@dataclass(slots=True)
class _Connection:
    client: StreamWriter
    broker: StreamWriter
    is_cut: bool = False

    async def pass_back(self, answers: StreamReader) -> None:
        """Close in place of the answer that gets lost: once the broker answers, the command is done."""
        with contextlib.suppress(OSError):
            while data := await answers.read(_CHUNK_BYTES):
                if self.is_cut:
                    break
                self.client.write(data)
                await self.client.drain()
        self.client.transport.abort()


@asynccontextmanager
async def cutting_proxy(url: str) -> AsyncIterator[CuttingProxy]:
    """In front of the broker at this address, until the block ends."""
    proxy = CuttingProxy(url)
    connections: set[asyncio.Task[None]] = set()

    def begin(reader: StreamReader, writer: StreamWriter) -> None:
        connection = asyncio.ensure_future(proxy.serve(reader, writer))
        connections.add(connection)
        connection.add_done_callback(connections.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

"""A proxy in front of an event stream that cuts each connection after so many messages, in the middle of the next."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Self

CONNECT_SECONDS = 60
_HTTP2_HEAD, _HTTP2_DATA = 9, 0
# One message of a transport at a time, and whether it is one that counts.
ReadMessage = Callable[[asyncio.StreamReader], Awaitable[tuple[bytes, bool]]]


async def read_http2(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """A frame of HTTP/2; one of data with something in it is a message of gRPC."""
    head = await reader.readexactly(_HTTP2_HEAD)
    length = int.from_bytes(head[:3])
    return head + await reader.readexactly(length), head[3] == _HTTP2_DATA and length > 0


async def read_chunks(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """The head of an answer of HTTP/1.1, or a chunk of its body; one with data in it is a server-sent event."""
    line = await reader.readuntil(b"\r\n")
    if line.startswith(b"HTTP/"):
        return line + await reader.readuntil(b"\r\n\r\n"), False
    body = await reader.readexactly(int(line, 16) + len(b"\r\n"))
    return line + body, b"data:" in body


class StreamCutter:
    """Passes everything on; of what the server sends, so many messages a connection, and a half."""

    def __init__(self, address: str, messages: int, read: ReadMessage = read_http2) -> None:
        """The stream's own address, as host:port."""
        host, _, port = address.rpartition(":")
        self._upstream = (host, int(port))
        self._messages = messages
        self._read = read
        self._links: set[asyncio.Task[None]] = set()
        self.cuts = 0

    @property
    def address(self) -> str:
        """Where the stream is found through the proxy."""
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        writers = [writer]
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                from_server, to_server = await asyncio.open_connection(*self._upstream)
            writers.append(to_server)
            forward = asyncio.ensure_future(_pass_on(reader, to_server))
            try:
                await self._until_cut(from_server, writer)
            finally:
                forward.cancel()
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, asyncio.CancelledError):
            # The server of the loop would tell of it as of a fault.
            pass
        finally:
            self._links.discard(link)
            for each in writers:
                each.close()

    async def _until_cut(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._messages
        while True:
            message, counts = await self._read(reader)
            if counts and not left:
                self.cuts += 1
                writer.write(message[: len(message) // 2])
                await writer.drain()
                return
            left -= counts
            writer.write(message)
            await writer.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

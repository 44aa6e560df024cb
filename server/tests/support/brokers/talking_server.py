"""A server that answers the HTTP client of brokers with whatever bytes a test wants."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from openbell_server.brokers.http_client import BrokerHttp, Request

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def talking(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[BrokerHttp, list[bytes]]]:
    """A client with a server that talks so after each request, and the requests that came."""
    requests: list[bytes] = []
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                requests.append(await reader.readuntil(b"\r\n\r\n"))
                await talk(reader, writer)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(
        lambda reader, writer: serving.add(asyncio.ensure_future(serve(reader, writer))), "127.0.0.1", 0, ssl=tls
    ) as server:
        http = BrokerHttp(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            yield http, requests
        finally:
            await http.close()
            # The client has let go of its ends, so that all of them come to theirs.
            async with asyncio.timeout(60):
                await asyncio.gather(*serving)


def answering(*answers: bytes) -> Talk:
    """One answer after the other, the last again and again."""
    left = list(answers)

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return talk


def post(http: BrokerHttp) -> Request:
    return http.request("POST", "/orders", headers={})

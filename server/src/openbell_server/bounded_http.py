"""Connections for HTTP that others answer: read from only so far, and trusting whom everybody trusts."""

import ssl
from collections.abc import Iterable
from functools import cache

import httpcore
import httpx


class BoundedStream(httpcore.AsyncNetworkStream):
    """A connection that is read from only so far after each write."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, bytes_max: int) -> None:
        """Nothing was read yet."""
        self._stream = stream
        self._bytes_max = bytes_max
        self._read = 0

    @property
    def is_unread(self) -> bool:
        """Whether nothing came since the last write: an answer that was there before answers something else."""
        return self._read == 0

    def allow_more(self) -> None:
        """What came so far is done with."""
        self._read = min(self._read, 1)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes, if it has not told too much already: heads, chunk sizes and interim answers count too."""
        if self._read > self._bytes_max:
            raise httpcore.ReadError(f"more than {self._bytes_max} bytes for one answer")
        data = await self._stream.read(max_bytes, timeout)
        self._read += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send."""
        self._read = 0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Let go of it."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The same under TLS."""
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._bytes_max)

    def get_extra_info(self, info: str) -> object:
        """What is known of it."""
        return self._stream.get_extra_info(info)


class BoundedNetwork(httpcore.AnyIOBackend):
    """Connections that are bounded."""

    def __init__(self, bytes_max: int) -> None:
        """What may come over the wire for an answer, with everything around its body."""
        self._bytes_max = bytes_max

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A new one."""
        stream = await super().connect_tcp(host, port, timeout, local_address, socket_options)
        return BoundedStream(stream, self._bytes_max)


@cache
def trusted_tls() -> ssl.SSLContext:
    """Whom everybody trusts; to read them all takes a while."""
    return httpx.create_ssl_context(trust_env=False)

"""HTTP client connections that limit the size of a response, and the TLS context they use."""

import ssl
from collections.abc import Iterable
from functools import cache

import httpcore
import httpx


class BoundedStream(httpcore.AsyncNetworkStream):
    """Reads at most `bytes_max` after each write; headers, chunk sizes and interim responses count."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, bytes_max: int) -> None:
        self._stream = stream
        self._bytes_max = bytes_max
        self._read = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._read > self._bytes_max:
            raise httpcore.ReadError(f"more than {self._bytes_max} bytes for one answer")
        data = await self._stream.read(max_bytes, timeout)
        self._read += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._read = 0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._bytes_max)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


class BoundedNetwork(httpcore.AnyIOBackend):
    """Connects with BoundedStream; `bytes_max` limits a response with its headers."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await super().connect_tcp(host, port, timeout, local_address, socket_options)
        return BoundedStream(stream, self._bytes_max)


@cache
def trusted_tls() -> ssl.SSLContext:
    """The public certificate authorities, cached because loading them is slow."""
    return httpx.create_ssl_context(trust_env=False)

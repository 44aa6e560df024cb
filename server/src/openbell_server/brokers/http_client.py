"""HTTP client for brokers: one host, no redirects, no retries, and limits on the size and duration of every answer."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, TypeVar

import httpcore
import httpx
import msgspec

from openbell_server.bounded_http import BoundedNetwork, BoundedStream, trusted_tls
from openbell_server.domain.orders.broker_reports import NotSent, Unknown

DEADLINE_SECONDS: Final = 3
ANSWER_BYTES_MAX: Final = 1_000_000
LINE_BYTES_MAX: Final = 1_000_000
# Limit for the bytes of one answer on the wire, headers and framing included.
WIRE_BYTES_MAX: Final = 2_000_000
CONNECT_SECONDS: Final = 1
# Shorter than the idle timeout of servers, so that no command is written into a closing connection.
_IDLE_SECONDS: Final = 2
_NOTHING_WRITTEN: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_Body = TypeVar("_Body")


class AnswerTooLong(httpx.HTTPError):
    """The broker's answer is larger than the limit."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer of the broker."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after(self) -> float:
        """Seconds to wait before the next request; 0 if the header is missing or is not a whole number of seconds."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0


class UnexpectedAnswer(httpx.HTTPError):
    """The broker answered a query with a status other than 200."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"the broker answered {reply.status}")
        self.reply = reply


class UnreadableAnswer(httpx.HTTPError):
    """The broker's answer is not JSON of the expected form."""


class ListBrokenOff(Exception):
    """A list cannot be read to its end, or lacks data that it must contain."""


class _Transport(httpx.AsyncHTTPTransport):
    """HTTP/1.1 over connections with a byte limit. It ignores proxies of the environment, because a proxy may retry a
    request.
    """

    def __init__(self) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trusted_tls(),
            max_connections=64,
            max_keepalive_connections=32,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=BoundedNetwork(WIRE_BYTES_MAX),
        )


class BrokerHttp:
    """Connections to one address of a broker; it never retries."""

    def __init__(self, address: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=address,
            timeout=httpx.Timeout(DEADLINE_SECONDS, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
            # A small compressed answer could expand to a thousand times its size.
            headers={"accept-encoding": "identity"},
            # Accounts share the client, so cookies of one account must not reach another.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            transport=_Transport(),
        )

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Request:
        return self._client.build_request(method, path, headers=headers, params=params, content=content)

    async def command(self, request: httpx.Request) -> Reply | NotSent | Unknown:
        """Write a command once. Without a complete answer the outcome is Unknown, unless no byte was sent."""
        try:
            return await self.query(request)
        except _NOTHING_WRITTEN as trouble:
            return NotSent(describe_error(trouble))
        except (httpx.HTTPError, TimeoutError) as trouble:
            return Unknown(describe_error(trouble))

    async def query(self, request: httpx.Request) -> Reply:
        """Send a request and read the complete answer; raises when there is none."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            response = await self._client.send(request, stream=True)
            try:
                body = bytearray()
                async for chunk in _plain(response):
                    body += chunk
                    if len(body) > ANSWER_BYTES_MAX:
                        raise AnswerTooLong(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            finally:
                await response.aclose()
        return Reply(response.status_code, response.headers, bytes(body))

    async def lines(self, request: httpx.Request, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the lines of an endless answer.

        Raises when a line exceeds LINE_BYTES_MAX or when no byte arrives for silence_seconds.
        """
        request.extensions["timeout"] = httpx.Timeout(CONNECT_SECONDS, read=silence_seconds).as_dict()
        async with asyncio.timeout(DEADLINE_SECONDS):
            response = await self._client.send(request, stream=True)
        try:
            if response.status_code != httpx.codes.OK:
                raise UnexpectedAnswer(Reply(response.status_code, response.headers, b""))
            rest = bytearray()
            async for chunk in _plain(response):
                first, *more = chunk.split(b"\n")
                rest += first
                for begun in more:
                    yield bytes(rest)
                    rest[:] = begun
                    response.extensions["network_stream"].allow_more()
                if len(rest) > LINE_BYTES_MAX:
                    raise AnswerTooLong(f"a line of more than {LINE_BYTES_MAX} bytes")
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self._client.aclose()


async def _plain(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield the body; raises if it is compressed or was received before the request was sent."""
    stream = response.extensions.get("network_stream")
    if isinstance(stream, BoundedStream) and stream.is_unread:
        raise UnreadableAnswer("it was there before it was asked for")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise UnreadableAnswer("it is compressed, which nobody asked for")
    async for chunk in response.aiter_bytes():
        yield chunk


def read(reply: Reply, what: type[_Body]) -> _Body:
    """Decode the body of a 200 answer; raises UnexpectedAnswer for any other status."""
    if reply.status != httpx.codes.OK:
        raise UnexpectedAnswer(reply)
    return decoded(reply.body, what)


def decoded(body: bytes | str | msgspec.Raw, what: type[_Body]) -> _Body:
    """Decode JSON; raises UnreadableAnswer if it does not have this form."""
    try:
        return msgspec.json.decode(body, type=what)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise UnreadableAnswer(describe_error(trouble)) from trouble


def decimal_text(number: Decimal) -> str:
    """The exact number, never with an exponent."""
    return format(number, "f")


def optional_text(number: Decimal | None) -> str | None:
    return None if number is None else decimal_text(number)


def describe_error(trouble: Exception) -> str:
    """The error's type and message in one line."""
    return f"{type(trouble).__name__}: {trouble}".removesuffix(": ")

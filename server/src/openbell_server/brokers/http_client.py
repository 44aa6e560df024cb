"""HTTP to a broker: one host, no redirect, every request written once, every answer read within a bound and a time."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, TypeVar

import httpcore
import httpx
import msgspec

from openbell_server.bounded_http import BoundedNetwork, BoundedStream, trusted_tls
from openbell_server.domain.broker_orders import NotSent, Unknown

DEADLINE_SECONDS: Final = 3
ANSWER_BYTES_MAX: Final = 1_000_000
LINE_BYTES_MAX: Final = 1_000_000
# What may come over the wire for an answer, with everything around its body.
WIRE_BYTES_MAX: Final = 2_000_000
CONNECT_SECONDS: Final = 1
# Shorter than servers keep an idle connection, so that a command is not written into a closing one.
_IDLE_SECONDS: Final = 2
_NOTHING_WRITTEN: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_Body = TypeVar("_Body")


class AnswerTooLong(httpx.HTTPError):
    """The broker says more than anybody listens to."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the broker answered, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after(self) -> float:
        """For how many seconds it wants calm; 0 where it does not say so in whole seconds."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0


class UnexpectedAnswer(httpx.HTTPError):
    """A question was not answered as questions are."""

    def __init__(self, reply: Reply) -> None:
        """Whoever wants to know more looks at the reply."""
        super().__init__(f"the broker answered {reply.status}")
        self.reply = reply


class UnreadableAnswer(httpx.HTTPError):
    """What the broker says is not of the form that it should be."""


class ListBrokenOff(Exception):
    """A list of the broker's cannot be read to its end, or does not tell what it must."""


class _Transport(httpx.AsyncHTTPTransport):
    """HTTP/1.1 over bounded connections; a proxy from the environment would have its own ideas about retries."""

    def __init__(self) -> None:
        """Its pool is all that the transport is made of."""
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trusted_tls(),
            max_connections=64,
            max_keepalive_connections=32,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=BoundedNetwork(WIRE_BYTES_MAX),
        )


class BrokerHttp:
    """Connections to one address of a broker; it repeats nothing."""

    def __init__(self, address: str) -> None:
        """Nothing is sent yet."""
        self._client = httpx.AsyncClient(
            base_url=address,
            timeout=httpx.Timeout(DEADLINE_SECONDS, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
            # A compressed answer may be a thousand times as long as what came.
            headers={"accept-encoding": "identity"},
            # What one account is given is not for the next.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            transport=_Transport(),
        )

    @property
    def is_closed(self) -> bool:
        """Whether the connections were let go of."""
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
        """A request to this address."""
        return self._client.build_request(method, path, headers=headers, params=params, content=content)

    async def command(self, request: httpx.Request) -> Reply | NotSent | Unknown:
        """Write a command once; without a whole answer it is in doubt, unless no byte of it left."""
        try:
            return await self.ask(request)
        except _NOTHING_WRITTEN as trouble:
            return NotSent(said(trouble))
        except (httpx.HTTPError, TimeoutError) as trouble:
            return Unknown(said(trouble))

    async def ask(self, request: httpx.Request) -> Reply:
        """Ask, and read the whole answer; raises where there is none."""
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
        """The lines of an answer that does not end; a line may be long, and the silence between two, up to a bound."""
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
        """Let go of the connections."""
        await self._client.aclose()


async def _plain(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes, which is neither compressed nor older than its request."""
    stream = response.extensions.get("network_stream")
    if isinstance(stream, BoundedStream) and stream.is_unread:
        raise UnreadableAnswer("it was there before it was asked for")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise UnreadableAnswer("it is compressed, which nobody asked for")
    async for chunk in response.aiter_bytes():
        yield chunk


def read(reply: Reply, what: type[_Body]) -> _Body:
    """The body of a good answer."""
    if reply.status != httpx.codes.OK:
        raise UnexpectedAnswer(reply)
    return decoded(reply.body, what)


def decoded(body: bytes | str | msgspec.Raw, what: type[_Body]) -> _Body:
    """What a body says, if it is JSON of this form."""
    try:
        return msgspec.json.decode(body, type=what)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise UnreadableAnswer(said(trouble)) from trouble


def said(trouble: Exception) -> str:
    """What went wrong, in a line."""
    return f"{type(trouble).__name__}: {trouble}".removesuffix(": ")

"""HTTP/1.1 client for brokers: one host, no redirects, no cookies, no proxies, no retries, and limits on the size and
duration of every answer.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from openbell_exchange.terms import decimal_text as decimal_text
from openbell_server.application.ports.broker import QueryFailed
from openbell_server.bounded_http import trusted_tls
from openbell_server.brokers.http_connections import (
    Answer,
    AnswerTooLong,
    BrokerHttpError,
    Connections,
    NothingWritten,
)
from openbell_server.domain.orders.broker_reports import NotSent, Unknown

DEADLINE_SECONDS: Final = 3
LINE_BYTES_MAX: Final = 1_000_000
_OK: Final = 200
_WITH_BODY: Final = frozenset({"PATCH", "POST", "PUT"})
_TARGET: Final = re.compile(r"/[!-~]*")
_HEADER: Final = re.compile(r"[!#-'*+.^`|~\w-]+: [\t -~]*", re.ASCII)
_Body = TypeVar("_Body")
# What a query raises when there is no answer that can be used.
QUERY_ERRORS: Final = (BrokerHttpError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to one broker; the target is the path with the query. The headers have secrets."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(repr=False)


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


class UnexpectedAnswer(BrokerHttpError):
    """The broker answered a query with a status other than 200."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"the broker answered {reply.status}")
        self.reply = reply


class UnreadableAnswer(BrokerHttpError):
    """The broker's answer is not JSON of the expected form."""


class ListBrokenOff(QueryFailed):
    """A list cannot be read to its end, or lacks data that it must contain."""


class BrokerHttp:
    """Connections to one address of a broker; it never retries."""

    def __init__(self, address: str) -> None:
        self.address = address
        parts = urlsplit(address)
        is_secure = parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        # Answers are not compressed, because a small one could expand to a thousand times its size.
        host = parts.netloc.rpartition("@")[2]
        self._common = {"host": host, "accept": "*/*", "accept-encoding": "identity", "user-agent": "openbell"}
        port = parts.port or (443 if is_secure else 80)
        self._connections = Connections(parts.hostname or "", port, trusted_tls() if is_secure else None)

    @property
    def is_closed(self) -> bool:
        return self._connections.is_closed

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Request:
        target = f"{self._base}{path}?{urlencode(params)}" if params else f"{self._base}{path}"
        return Request(method, target, headers, content)

    async def command(self, request: Request) -> Reply | NotSent | Unknown:
        """Write a command once. Without a complete answer the outcome is Unknown, unless no byte was sent."""
        try:
            return await self.query(request)
        except NothingWritten as trouble:
            return NotSent(describe_error(trouble))
        except QUERY_ERRORS as trouble:
            return Unknown(describe_error(trouble))

    async def query(self, request: Request) -> Reply:
        """Send a request and read the complete answer; raises when there is none."""
        content = self._encoded(request)
        async with asyncio.timeout(DEADLINE_SECONDS):
            connection = await self._connections.take()
            try:
                answer = connection.send(content)
                await answer.wait(lambda: answer.is_complete)
            finally:
                self._connections.give_back(connection)
        _require_plain(answer)
        return Reply(answer.status, answer.headers, bytes(answer.body))

    async def lines(self, request: Request, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the lines of an endless answer.

        Raises when a line exceeds LINE_BYTES_MAX or when no byte arrives for silence_seconds.
        """
        content = self._encoded(request)
        connection = await self._connections.take()
        try:
            answer = connection.send(content, is_endless=True)
            async with asyncio.timeout(DEADLINE_SECONDS):
                await answer.wait(lambda: answer.is_begun)
            _require_plain(answer)
            if answer.status != _OK:
                raise UnexpectedAnswer(Reply(answer.status, answer.headers, b""))
            rest = bytearray()
            while answer.body or not answer.is_complete:
                async with asyncio.timeout(silence_seconds):
                    await answer.wait(lambda: answer.body or answer.is_complete)
                first, *more = connection.take_body().split(b"\n")
                rest += first
                for begun in more:
                    yield bytes(rest)
                    rest[:] = begun
                    answer.allow_more()
                if len(rest) > LINE_BYTES_MAX:
                    raise AnswerTooLong(f"a line of more than {LINE_BYTES_MAX} bytes")
        finally:
            self._connections.give_back(connection)

    async def close(self) -> None:
        self._connections.close()

    def _encoded(self, request: Request) -> bytes:
        """The request as it is written; raises if a part of it could be read as something else."""
        headers = {**self._common, **request.headers}
        content = request.content or b""
        if content or request.method in _WITH_BODY:
            headers["content-length"] = str(len(content))
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if not (_TARGET.fullmatch(request.target) and all(map(_HEADER.fullmatch, lines))):
            raise NothingWritten("a path or a header with characters that do not belong there")
        head = "\r\n".join([f"{request.method} {request.target} HTTP/1.1", *lines])
        return head.encode("ascii") + b"\r\n\r\n" + content


def _require_plain(answer: Answer) -> None:
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise UnreadableAnswer("it is compressed, which nobody asked for")


def read(reply: Reply, what: type[_Body]) -> _Body:
    """Decode the body of a 200 answer; raises UnexpectedAnswer for any other status."""
    if reply.status != _OK:
        raise UnexpectedAnswer(reply)
    return decoded(reply.body, what)


def decoded(body: bytes | str | msgspec.Raw, what: type[_Body]) -> _Body:
    """Decode JSON; raises UnreadableAnswer if it does not have this form."""
    try:
        return msgspec.json.decode(body, type=what)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise UnreadableAnswer(describe_error(trouble)) from trouble


def optional_text(number: Decimal | None) -> str | None:
    return None if number is None else decimal_text(number)


def describe_error(trouble: Exception) -> str:
    """The error's type and message in one line."""
    return f"{type(trouble).__name__}: {trouble}".removesuffix(": ")

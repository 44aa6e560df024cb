"""Forwards calls of signed-in users to the api, with their own token and a list of headers that pass."""

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import httpcore
import structlog

from openbell_server.application.console.sessions import ConsoleSessions, Session
from openbell_server.bounded_http import trusted_tls
from openbell_server.domain.errors import Problem
from openbell_server.http_protocol import cut_connection
from openbell_server.transport.console.messages import NO_STORE, SECURITY_HEADERS, Headers, Receive, Request, Send

CONNECTIONS_MAX: Final = 1024
IDLE_CONNECTIONS_MAX: Final = 64
# Shorter than the idle timeout of the api.
IDLE_SECONDS: Final = 2.0
CONNECT_SECONDS: Final = 2.0
# Longer than the api needs for the longest back-test, and than the pause between heartbeats of a stream.
SILENCE_SECONDS: Final = 60.0
BODY_BYTES_MAX: Final = 64 * 1024
REQUESTS_AT_ONCE_MAX: Final = 64
# No percent signs, no dots at the start of a part: a path means the same here and at the api.
_PATH: Final = re.compile(r"/v1(?:/[A-Za-z0-9_~][A-Za-z0-9_~.:-]*)+")
_QUERY: Final = re.compile(rb"[!-~]*")
_REQUEST_HEADERS: Final = frozenset(
    {b"accept", b"content-type", b"idempotency-key", b"if-match", b"if-none-match", b"last-event-id", b"x-request-id"}
)
_ANSWER_HEADERS: Final = frozenset(
    {
        *(
            b"allow",
            b"cache-control",
            b"content-length",
            b"content-type",
            b"etag",
            b"idempotency-replayed",
            b"location",
        ),
        *(b"ratelimit-limit", b"ratelimit-remaining", b"ratelimit-reset", b"retry-after", b"x-accel-buffering"),
        b"x-request-id",
    }
)
_TIMEOUTS: Final = {"connect": CONNECT_SECONDS, "read": SILENCE_SECONDS, "write": SILENCE_SECONDS, "pool": 1.0}
EVENT_STREAM: Final = b"text/event-stream"


def is_forwarded(path: str) -> bool:
    return _PATH.fullmatch(path) is not None


@dataclass(slots=True)
class Forward:
    """Calls the api at one address. It adds the user's token and no right of its own."""

    address: str
    sessions: ConsoleSessions
    _requests: Counter[bytes] = field(default_factory=Counter)
    _pool: httpcore.AsyncConnectionPool = field(init=False)
    _origin: tuple[bytes, bytes, int | None] = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        host = (parts.hostname or "").encode("ascii")
        self._origin = parts.scheme.encode("ascii"), host, parts.port
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trusted_tls() if parts.scheme == "https" else None,
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=IDLE_CONNECTIONS_MAX,
            keepalive_expiry=IDLE_SECONDS,
        )

    async def close(self) -> None:
        await self._pool.aclose()

    async def __call__(self, request: Request, session: Session, receive: Receive, send: Send) -> None:
        """Raises Problem if nothing was answered yet."""
        if not _QUERY.fullmatch(request.query):
            raise Problem("invalid_parameter", "the query has characters that must be percent-encoded")
        body = await _read_body(receive)
        if self._requests[session.session_hash] >= REQUESTS_AT_ONCE_MAX:
            raise Problem("rate_limited", f"a session may have {REQUESTS_AT_ONCE_MAX} requests open at once")
        self._requests[session.session_hash] += 1
        try:
            await self._forward(request, session, body, receive, send)
        finally:
            self._requests[session.session_hash] -= 1
            if not self._requests[session.session_hash]:
                del self._requests[session.session_hash]

    async def _forward(self, request: Request, session: Session, body: bytes, receive: Receive, send: Send) -> None:
        scheme, host, port = self._origin
        target = request.path.encode("ascii") + (b"?" + request.query if request.query else b"")
        address = httpcore.URL(scheme=scheme, host=host, port=port, target=target)
        headers = self._request_headers(request, session, body)
        has_begun = False
        try:
            async with self._pool.stream(
                request.method, address, headers=headers, content=body or None, extensions={"timeout": _TIMEOUTS}
            ) as response:
                kept = [(name.lower(), value) for name, value in response.headers]
                is_stream = any(name == b"content-type" and value.startswith(EVENT_STREAM) for name, value in kept)
                start = {"type": "http.response.start", "status": response.status, "headers": _answer_headers(kept)}
                if is_stream:
                    with self.sessions.stream(session) as stream:
                        has_begun = True
                        await send(start)
                        await self._follow(response, stream.ended, session, receive, send)
                    return
                has_begun = True
                await send(start)
                await _copy(response, send)
            await send({"type": "http.response.body", "body": b""})
        except httpcore.LocalProtocolError as trouble:
            raise Problem("invalid_header", "a header has characters that do not belong there") from trouble
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, OSError) as trouble:
            structlog.get_logger().warning("api_not_reached", error=repr(trouble))
            if has_begun:
                # The browser must not take half of an answer for the whole.
                cut_connection(request.scope)
                return
            raise Problem(
                "unavailable", "the api did not answer; if this was a change, repeat it with the same Idempotency-Key"
            ) from trouble

    async def _follow(
        self, response: httpcore.Response, ended: asyncio.Event, session: Session, receive: Receive, send: Send
    ) -> None:
        """Copy events until the api ends them, the browser leaves, or the session or its token ends."""
        copying = asyncio.ensure_future(_copy(response, send))
        leaving = asyncio.ensure_future(_until_disconnect(receive))
        ending = asyncio.ensure_future(ended.wait())
        tasks = {copying, leaving, ending}
        try:
            await asyncio.wait(
                tasks,
                timeout=max(0.0, session.token_ends - self.sessions.monotonic()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            has_left = leaving.done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not has_left:
            # A whole answer: the browser resumes after its last event.
            await send({"type": "http.response.body", "body": b""})

    def _request_headers(self, request: Request, session: Session, body: bytes) -> Headers:
        _, host, port = self._origin
        headers = [(name, value) for name, value in request.scope["headers"] if name in _REQUEST_HEADERS]
        headers += [
            (b"host", host if port is None else b"%s:%d" % (host, port)),
            (b"authorization", b"Bearer " + session.tokens.access.encode("ascii")),
            # What is compressed here would be compressed beside secrets.
            (b"accept-encoding", b"identity"),
        ]
        if client := request.scope.get("client"):
            headers.append((b"x-forwarded-for", str(client[0]).encode("ascii")))
        if body or request.method in ("POST", "PUT", "PATCH"):
            headers.append((b"content-length", b"%d" % len(body)))
        return headers


def _answer_headers(headers: Headers) -> Headers:
    passed = [(name, value) for name, value in headers if name in _ANSWER_HEADERS]
    if not any(name == b"cache-control" for name, _ in passed):
        passed.append(NO_STORE)
    return [*passed, *SECURITY_HEADERS]


async def _copy(response: httpcore.Response, send: Send) -> None:
    async for part in response.aiter_stream():
        if part:
            await send({"type": "http.response.body", "body": part, "more_body": True})


async def _read_body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem("malformed_body", "the body ended before its end")
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise Problem("body_too_large", f"the body has more than {BODY_BYTES_MAX} bytes")
        if not message.get("more_body", False):
            return bytes(body)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

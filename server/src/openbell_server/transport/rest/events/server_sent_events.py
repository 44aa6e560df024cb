"""Streams event logs as server-sent events."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog
from litestar import Request, Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from openbell_server.application.events.event_frames import Frame, FrameKind, Subscription
from openbell_server.application.events.event_json import event_document, known_fields, moment_text
from openbell_server.application.events.follow_events import FollowEvents
from openbell_server.application.events.open_streams import streams_of_caller
from openbell_server.application.events.recheck_access import Entrance
from openbell_server.application.events.refusal_delays import RefusalDelays
from openbell_server.application.events.stream_places import StreamPlaces
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem, is_retryable
from openbell_server.domain.events.account_events import AccountEvent
from openbell_server.http_protocol import cut_connection

STREAMS_MAX: Final = 20
# A client that reads nothing for this long is disconnected; it resumes with its token.
SLOW_SECONDS: Final = 10.0
RETRY_MILLIS: Final = 1000
_FINISH_SECONDS: Final = 1.0
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Proxies that support this header forward every frame at once.
    (b"x-accel-buffering", b"no"),
]


def encode_document(event: AccountEvent) -> bytes:
    """An event as JSON without the closing brace; fields of one subscriber are appended to it."""
    return msgspec.json.encode(event_document(event))[:-1]


def encode_frame(frame: Frame, settings: dict[str, Any], now: Callable[[], datetime]) -> bytes:
    """A frame as text; settings are the subscription's own, which the first frame repeats."""
    token = frame.resume_token.encode()
    if frame.entry is not None:
        kind = frame.entry.event.kind.name.lower().encode()
        data = frame.entry.encoded + b',"prev_seq":%d}' % frame.previous
        return _text(token, kind, data)
    body: Any = known_fields(frame.body or {})
    if frame.kind is FrameKind.SUBSCRIBED:
        body = settings
    elif frame.kind is FrameKind.HEARTBEAT:
        body = {"sent_at": moment_text(now())}
    document = {frame.kind.value: body}
    if frame.account_id is not None:
        about = {"account_id": str(frame.account_id), "account_seq": frame.position, "prev_seq": frame.previous}
        document = {**about, **document}
    return _text(token, frame.kind.value.encode(), msgspec.json.encode(document))


def _text(token: bytes, kind: bytes, data: bytes) -> bytes:
    return (b"id: %s\n" % token if token else b"") + b"event: %s\ndata: %s\n\n" % (kind, data)


def _error(code: str, message: str, *, retryable: bool) -> bytes:
    body = {"error": {"code": code, "message": message, "retryable": retryable}}
    return _text(b"", b"error", msgspec.json.encode(body))


class EventStreams:
    """The open streams of this process; each caller may have STREAMS_MAX, and each organization as many as its cap."""

    def __init__(self, follow: FollowEvents, now: Callable[[], datetime], places: StreamPlaces) -> None:
        self.follow = follow
        self._now = now
        self._places = places
        self._open: Counter[tuple[str, str]] = Counter()
        self.refusal_delays = RefusalDelays()

    def drain(self) -> None:
        """End every stream; clients resume on another server."""
        self.follow.drain()

    async def close(self) -> None:
        """Give back the places of all streams, after they have ended."""
        await self._places.close()

    def refuse_if_full(self, caller: Principal) -> None:
        """Raise Problem if it is known without asking the database that the caller may not open one more."""
        if self._open[caller.kind.value, caller.id] >= STREAMS_MAX:
            raise streams_of_caller(STREAMS_MAX)
        self._places.refuse_if_full(caller.organization_id)

    @contextlib.asynccontextmanager
    async def place(self, caller: Principal) -> AsyncIterator[None]:
        """Count one more stream of the caller; raises Problem if it may have no more."""
        self.refuse_if_full(caller)
        who = caller.kind.value, caller.id
        self._open[who] += 1
        try:
            async with self._places.place(caller.organization_id):
                yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def open(
        self, caller: Principal, entrance: Entrance, wanted: Subscription, settings: dict[str, Any]
    ) -> Response[Any]:
        """The response, once the first frame exists; raises a Problem if the subscription is refused."""
        async with contextlib.AsyncExitStack() as opening:
            await opening.enter_async_context(self.place(caller))
            sending = _Sending(self.follow, entrance, wanted)
            opening.push_async_callback(sending.close)
            first = await sending.first()
            closing = opening.pop_all()

        def encode(frame: Frame) -> bytes:
            return encode_frame(frame, settings, self._now)

        async def serve(send: Send) -> bool:
            retry = b"retry: %d\n\n" % RETRY_MILLIS
            return await sending.run(send, retry + encode(first), encode)

        return _StreamedResponse(serve, closing)


class _Sending:
    """One stream: its frames, and the write in progress."""

    def __init__(self, follow: FollowEvents, entrance: Entrance, wanted: Subscription) -> None:
        self._frames = follow.subscribe(entrance, wanted, self._interrupt)
        self._writing: asyncio.Future[None] | None = None
        self._is_ended = False

    async def first(self) -> Frame:
        return await anext(self._frames)

    async def close(self) -> None:
        await self._frames.aclose()

    def _interrupt(self, _: Exception) -> None:
        """Access ended: cancel a write that waits for a slow client."""
        self._is_ended = True
        if self._writing is not None:
            self._writing.cancel()

    async def run(self, send: Send, first: bytes, encode: Callable[[Frame], bytes]) -> bool:
        """Send frames until the client is too slow, access ends, or the process stops; False if the client is stuck."""
        last_frame = b""
        try:
            await self._write(send, first)
            async for frame in self._frames:
                if frame.kind is FrameKind.ERROR:
                    last_frame = encode(frame)
                    break
                if not await self._write(send, encode(frame)):
                    return False
        except Problem as problem:
            last_frame = _error(problem.code, problem.detail, retryable=is_retryable(problem))
        except (TimeoutError, OSError):
            last_frame = _error("unavailable", "a service behind the stream did not answer", retryable=True)
        except Exception:  # noqa: BLE001 - the reader resumes; the operator gets the reason
            structlog.get_logger().exception("stream_failed")
            last_frame = _error("unavailable", "the stream broke; resume with your token", retryable=True)
        return await self._finish(send, last_frame)

    async def _write(self, send: Send, data: bytes) -> bool:
        """True if the client read the data in time or access ended; False if the client is stuck."""
        message = {"type": "http.response.body", "body": data, "more_body": True}
        self._writing = asyncio.ensure_future(_sent(send(message)))  # type: ignore[arg-type]
        done, _ = await asyncio.wait({self._writing}, timeout=SLOW_SECONDS)
        if done and not self._writing.cancelled():
            self._writing.result()
            return True
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)
        # Interrupted: the next item of the frames is the reason.
        return self._is_ended

    async def _finish(self, send: Send, last_frame: bytes) -> bool:
        message = {"type": "http.response.body", "body": last_frame, "more_body": False}
        try:
            await asyncio.wait_for(_sent(send(message)), _FINISH_SECONDS)  # type: ignore[arg-type]
        except TimeoutError:
            return False
        return True


async def _sent(sending: Awaitable[None]) -> None:
    await sending


class _StreamedResponse(Response[Any]):
    """A response whose body is written by a function until the client disconnects; afterwards `closing` is closed."""

    def __init__(self, serve: Callable[[Send], Awaitable[bool]], closing: contextlib.AsyncExitStack) -> None:
        super().__init__(None)
        self._serve = serve
        self._closing = closing

    def to_asgi_response(self, app: Any, request: Request[Any, Any, Any], **_: Any) -> ASGIResponse:  # noqa: ANN401 - as the framework has it
        return _StreamedAnswer(self._serve, self._closing)


class _StreamedAnswer(ASGIResponse):
    def __init__(self, serve: Callable[[Send], Awaitable[bool]], closing: contextlib.AsyncExitStack) -> None:
        super().__init__()
        self._serve = serve
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._closing:
            streaming = asyncio.ensure_future(self._stream(send))
            left = asyncio.ensure_future(_until_left(receive))
            try:
                await asyncio.wait({streaming, left}, return_when=asyncio.FIRST_COMPLETED)
                if streaming.done() and not streaming.result():
                    # A normal close would wait without limit for a client that does not read.
                    cut_connection(scope)
                    await asyncio.wait({left}, timeout=_FINISH_SECONDS)
            finally:
                streaming.cancel()
                left.cancel()
                await asyncio.gather(streaming, left, return_exceptions=True)

    async def _stream(self, send: Send) -> bool:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        return await self._serve(send)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

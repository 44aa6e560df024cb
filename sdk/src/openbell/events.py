"""The event stream: reconnects by itself, goes on from the last token, and raises rather than skip an event."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Final

import grpc
import grpc.aio
import msgspec
from google.protobuf.json_format import MessageToDict

from openbell.connection import Connection
from openbell.errors import (
    ApiError,
    Conflict,
    EventMissed,
    Invalid,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    UnexpectedReply,
    Unreachable,
)
from openbell.models import AccountChanged, BrokerOrder, Event, ExternalOrder, IntentAction, PositionAdjusted
from openbell.wire import trading_pb2 as wire
from openbell.wire.trading_pb2_grpc import TradingServiceStub

# The platform sends a heartbeat every 10 seconds, so a longer silence is a dead connection.
SILENCE_SECONDS: Final = 30.0
# A platform that was there comes back, so a broken stream is given about a minute; a first connection is not.
FAILURES_MAX: Final = 15
FIRST_FAILURES_MAX: Final = 3
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

_EVENTS: Final = frozenset({"broker_order", "intent_action", "account_changed", "external_order", "position_adjusted"})
# A connection of its own for every attempt: gRPC would otherwise hand out the dead one again.
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)
_REFUSALS: Final[dict[grpc.StatusCode, tuple[type[ApiError], int]]] = {
    grpc.StatusCode.UNAUTHENTICATED: (NotAuthenticated, 401),
    grpc.StatusCode.PERMISSION_DENIED: (PermissionDenied, 403),
    grpc.StatusCode.INVALID_ARGUMENT: (Invalid, 400),
    grpc.StatusCode.OUT_OF_RANGE: (Invalid, 400),
    grpc.StatusCode.NOT_FOUND: (NotFound, 404),
    grpc.StatusCode.FAILED_PRECONDITION: (Conflict, 409),
    grpc.StatusCode.UNIMPLEMENTED: (ApiError, 501),
}


class Subscription:
    """How far one subscription has come, and what its next frame must be; does no input or output."""

    def __init__(self, account_id: str, resume_token: str | None) -> None:
        self.account_id = account_id
        self.resume_token = resume_token
        self._position: int | None = None
        self._last_event = 0
        self._failures = 0
        self._failures_max = FIRST_FAILURES_MAX

    def request(self) -> wire.Subscribe:
        """What to ask for now."""
        return wire.Subscribe(
            trading_account_id=self.account_id,
            subscriptions=[
                wire.EVENT_TYPE_BROKER_ORDER,
                wire.EVENT_TYPE_INTENT_ACTION,
                wire.EVENT_TYPE_ACCOUNT_CHANGED,
                wire.EVENT_TYPE_EXTERNAL_ORDER,
                wire.EVENT_TYPE_POSITION_ADJUSTED,
            ],
            resume_token=self.resume_token or "",
        )

    def accept(self, frame: wire.TradingEvent) -> Event | None:
        """The event of a frame, or None for a frame that only says how far the stream is."""
        self._failures = 0
        self._failures_max = FAILURES_MAX
        kind = frame.WhichOneof("event")
        if kind is None:  # a frame newer than this client: it must not move the position past what it may announce
            return None
        if self._position is not None and frame.prev_seq > self._position:
            raise EventMissed(position=self._position, prev_seq=frame.prev_seq, resume_token=self.resume_token)
        self._advance(frame, subscribed=kind == "subscribed")
        if kind not in _EVENTS or frame.account_seq <= self._last_event:
            return None
        self._last_event = frame.account_seq
        return _event(frame, kind)

    def pause_after(self, code: grpc.StatusCode | None, details: str | None) -> float:
        """How long to wait before the next attempt; raises where no further attempt would help."""
        if code in _REFUSALS:
            error, status = _REFUSALS[code]
            raise error(code=code.name.lower(), status=status, detail=details or f"The stream ended: {code.name}.")
        self._failures += 1
        if self._failures > self._failures_max:
            raise Unreachable(
                f"The event stream cannot be reached: {details or 'it ends at once'}", resume_token=self.resume_token
            )
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self._failures - 1))

    def _advance(self, frame: wire.TradingEvent, *, subscribed: bool) -> None:
        self.resume_token = frame.resume_token or self.resume_token
        # After a reconnect only what was received counts, not what the new stream says about itself.
        if not subscribed:
            self._position = max(frame.account_seq, self._position or 0)
        elif self._position is None and frame.account_seq:
            self._position = frame.account_seq


def subscribe(connection: Connection, subscription: Subscription) -> Iterator[Event]:
    """Subscribe now, and return the events from this moment on."""
    stream = _iterate(connection, subscription)
    next(stream)
    return (event for event in stream if event is not None)


def _iterate(connection: Connection, subscription: Subscription) -> Iterator[Event | None]:
    """None for every frame that only says how far the stream is, so that a caller knows it stands; then events."""
    while True:  # ends when pause_after raises: refused, or too many failures in a row
        code, details = None, None
        try:
            with _channel(connection) as channel:
                call = TradingServiceStub(channel).SubscribeEvents(
                    subscription.request(), metadata=_metadata(connection)
                )
                with _cut_when_silent(call.cancel) as heard:
                    for frame in call:
                        heard.set()
                        yield subscription.accept(frame)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        time.sleep(subscription.pause_after(code, details))


async def iterate_async(connection: Connection, subscription: Subscription) -> AsyncIterator[Event]:
    """Events of a subscription, one after the other."""
    while True:  # ends when pause_after raises: refused, or too many failures in a row
        code, details = None, None
        try:
            async with _async_channel(connection) as channel:
                call = TradingServiceStub(channel).SubscribeEvents(
                    subscription.request(), metadata=_metadata(connection)
                )
                # The end of the stream is a sign of its own, not a frame.
                while isinstance(frame := await asyncio.wait_for(call.read(), SILENCE_SECONDS), wire.TradingEvent):
                    event = subscription.accept(frame)
                    if event is not None:
                        yield event
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        except TimeoutError:
            details = f"nothing came for {SILENCE_SECONDS:g} seconds"
        await asyncio.sleep(subscription.pause_after(code, details))


@contextmanager
def _cut_when_silent(cancel: Callable[[], object]) -> Iterator[threading.Event]:
    """Cancel a call once nothing was heard for too long: a blocking read cannot time out by itself."""
    heard, closed = threading.Event(), threading.Event()

    def watch() -> None:
        while heard.wait(SILENCE_SECONDS):
            heard.clear()
            if closed.is_set():
                return
        cancel()

    watcher = threading.Thread(target=watch, name="openbell-silence", daemon=True)
    watcher.start()
    try:
        yield heard
    finally:
        closed.set()
        heard.set()


def _channel(connection: Connection) -> grpc.Channel:
    if connection.stream_is_local:
        options = (*_OPTIONS, ("grpc.enable_http_proxy", 0))
        return grpc.insecure_channel(connection.stream_address, options=options)
    return grpc.secure_channel(connection.stream_address, grpc.ssl_channel_credentials(), options=_OPTIONS)


def _async_channel(connection: Connection) -> grpc.aio.Channel:
    if connection.stream_is_local:
        options = (*_OPTIONS, ("grpc.enable_http_proxy", 0))
        return grpc.aio.insecure_channel(connection.stream_address, options=options)
    return grpc.aio.secure_channel(connection.stream_address, grpc.ssl_channel_credentials(), options=_OPTIONS)


def _metadata(connection: Connection) -> tuple[tuple[str, str], ...]:
    return (connection.credential,)


def _event(frame: wire.TradingEvent, kind: str) -> Event:
    body = MessageToDict(getattr(frame, kind), preserving_proto_field_name=True)
    try:
        return Event(
            trading_account_id=frame.trading_account_id,
            account_seq=frame.account_seq,
            prev_seq=frame.prev_seq,
            resume_token=frame.resume_token,
            occurred_at=frame.occurred_at.ToDatetime(tzinfo=UTC),
            broker_order=msgspec.convert(body, BrokerOrder) if kind == "broker_order" else None,
            intent_action=msgspec.convert(body, IntentAction) if kind == "intent_action" else None,
            # JSON has numbers of 64 bits as text.
            account_changed=msgspec.convert(body, AccountChanged, strict=False) if kind == "account_changed" else None,
            external_order=msgspec.convert(body, ExternalOrder) if kind == "external_order" else None,
            position_adjusted=msgspec.convert(body, PositionAdjusted) if kind == "position_adjusted" else None,
        )
    except msgspec.ValidationError as error:
        raise UnexpectedReply(f"Event {frame.account_seq} cannot be read: {error}") from error

"""The event stream over gRPC: reconnects, goes on from the last token, and raises rather than skip an event."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict

from openbell import subscriptions
from openbell.connection import Connection
from openbell.errors import ApiError, Conflict, Invalid, NotAuthenticated, NotFound, PermissionDenied
from openbell.event_records import Event
from openbell.subscriptions import Frame, Subscription
from openbell.wire import trading_pb2 as wire
from openbell.wire.trading_pb2_grpc import TradingServiceStub

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


def iterate(connection: Connection, subscription: Subscription) -> Iterator[Event | None]:
    """None for every frame that only says how far the stream is, so that a caller knows it stands; then events."""
    while not subscription.is_closed:  # ends when pause_after raises: refused, or too many failures in a row
        refusal, details = None, None
        try:
            with _channel(connection) as channel:
                call = TradingServiceStub(channel).SubscribeEvents(
                    _request(subscription), metadata=(connection.credential,)
                )
                subscription.begin(call.cancel)
                with _cut_when_silent(call.cancel) as heard:
                    for frame in call:
                        heard.set()
                        yield from subscription.accept(frame_of(frame)) or (None,)
        except grpc.RpcError as error:
            refusal, details = _refusal(error), error.details()
        if not subscription.is_closed:
            time.sleep(subscription.pause_after(refusal, details))


async def iterate_async(connection: Connection, subscription: Subscription) -> AsyncIterator[Event]:
    """Events of a subscription, one after the other."""
    while not subscription.is_closed:  # ends when pause_after raises: refused, or too many failures in a row
        refusal, details = None, None
        try:
            async with _async_channel(connection) as channel:
                call = TradingServiceStub(channel).SubscribeEvents(
                    _request(subscription), metadata=(connection.credential,)
                )
                subscription.begin(call.cancel)
                # The end of the stream is a sign of its own, not a frame.
                while isinstance(
                    frame := await asyncio.wait_for(call.read(), subscriptions.SILENCE_SECONDS), wire.TradingEvent
                ):
                    for event in subscription.accept(frame_of(frame)):
                        yield event
        except grpc.RpcError as error:
            refusal, details = _refusal(error), error.details()
        except TimeoutError:
            details = f"nothing came for {subscriptions.SILENCE_SECONDS:g} seconds"
        if not subscription.is_closed:
            await asyncio.sleep(subscription.pause_after(refusal, details))


def frame_of(message: wire.TradingEvent) -> Frame:
    """The message in the words that every transport has."""
    kind = message.WhichOneof("event")
    return Frame(
        type=kind or "",
        trading_account_id=message.trading_account_id,
        account_seq=message.account_seq,
        prev_seq=message.prev_seq,
        event_id=message.event_id,
        resume_token=message.resume_token,
        occurred_at=message.occurred_at.ToDatetime(tzinfo=UTC),
        body={} if kind is None else MessageToDict(getattr(message, kind), preserving_proto_field_name=True),
    )


def _request(subscription: Subscription) -> wire.Subscribe:
    start = subscription.start_now
    return wire.Subscribe(
        trading_account_id=subscription.account_id or "",
        subscriptions=[wire.EventType.Value(f"EVENT_TYPE_{kind.upper()}") for kind in subscription.types],
        resume_token=subscription.resume_token or "",
        start=wire.Start.Value(f"START_{start.upper()}") if start else wire.START_UNSPECIFIED,
        symbols=subscription.symbols,
    )


def _refusal(ended: grpc.RpcError) -> ApiError | None:
    """What the platform refused, by the code that it has everywhere; a proxy before it has only a status."""
    name = ended.code()
    if name not in _REFUSALS:
        return None
    error, status = _REFUSALS[name]
    trailer: Any = ended.trailing_metadata() or ()
    code = str(dict(trailer).get("openbell-code", name.name.lower()))
    return error(code=code, status=status, detail=ended.details() or f"The stream ended: {name.name}.")


@contextmanager
def _cut_when_silent(cancel: Callable[[], object]) -> Iterator[threading.Event]:
    """Cancel a call once nothing was heard for too long: a blocking read cannot time out by itself."""
    heard, closed = threading.Event(), threading.Event()

    def watch() -> None:
        while heard.wait(subscriptions.SILENCE_SECONDS):
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

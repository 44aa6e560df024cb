"""Channels, requests and messages of the gRPC event stream."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict

from openbell.connection import Connection
from openbell.errors import ApiError, Conflict, Invalid, NotAuthenticated, NotFound, PermissionDenied
from openbell.events import subscriptions
from openbell.events.subscriptions import Frame, Subscription
from openbell.wire import trading_pb2 as wire

# Each attempt gets a new connection; from the shared pool gRPC would return the dead one.
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)
_LOCAL_OPTIONS: Final = (*_OPTIONS, ("grpc.enable_http_proxy", 0))
_REFUSALS: Final[dict[grpc.StatusCode, tuple[type[ApiError], int]]] = {
    grpc.StatusCode.UNAUTHENTICATED: (NotAuthenticated, 401),
    grpc.StatusCode.PERMISSION_DENIED: (PermissionDenied, 403),
    grpc.StatusCode.INVALID_ARGUMENT: (Invalid, 400),
    grpc.StatusCode.OUT_OF_RANGE: (Invalid, 400),
    grpc.StatusCode.NOT_FOUND: (NotFound, 404),
    grpc.StatusCode.FAILED_PRECONDITION: (Conflict, 409),
    grpc.StatusCode.UNIMPLEMENTED: (ApiError, 501),
}


def channel(connection: Connection) -> grpc.Channel:
    assert connection.stream_address is not None, "without one, events come over HTTP"
    if connection.stream_is_local:
        return grpc.insecure_channel(connection.stream_address, options=_LOCAL_OPTIONS)
    return grpc.secure_channel(connection.stream_address, grpc.ssl_channel_credentials(), options=_OPTIONS)


def async_channel(connection: Connection) -> grpc.aio.Channel:
    assert connection.stream_address is not None, "without one, events come over HTTP"
    if connection.stream_is_local:
        return grpc.aio.insecure_channel(connection.stream_address, options=_LOCAL_OPTIONS)
    return grpc.aio.secure_channel(connection.stream_address, grpc.ssl_channel_credentials(), options=_OPTIONS)


def messages(call: Any) -> Generator[wire.TradingEvent]:  # noqa: ANN401 - grpc has no type for it
    """The messages of a call; cancels the call if none arrives for SILENCE_SECONDS."""
    with _cancel_when_silent(call.cancel) as received:
        for message in call:
            received.set()
            yield message


async def async_messages(call: Any) -> AsyncGenerator[wire.TradingEvent]:  # noqa: ANN401 - grpc has no type for it
    """The messages of a call; raises TimeoutError if none arrives for SILENCE_SECONDS."""
    # At the end of the stream read() returns a marker that is not a message.
    while isinstance(message := await asyncio.wait_for(call.read(), subscriptions.SILENCE_SECONDS), wire.TradingEvent):
        yield message


def frame_of(message: wire.TradingEvent) -> Frame:
    kind = message.WhichOneof("event")
    return Frame(
        type=kind or "",
        account_id=message.account_id,
        account_seq=message.account_seq,
        prev_seq=message.prev_seq,
        event_id=message.event_id,
        resume_token=message.resume_token,
        occurred_at=message.occurred_at.ToDatetime(tzinfo=UTC),
        body={} if kind is None else MessageToDict(getattr(message, kind), preserving_proto_field_name=True),
    )


def subscribe_message(subscription: Subscription) -> wire.Subscribe:
    start = subscription.start_now
    return wire.Subscribe(
        trading_account_id=subscription.account_id or "",
        subscriptions=[wire.EventType.Value(f"EVENT_TYPE_{kind.upper()}") for kind in subscription.types],
        resume_token=subscription.resume_token or "",
        start=wire.Start.Value(f"START_{start.upper()}") if start else wire.START_UNSPECIFIED,
        symbols=subscription.symbols,
    )


def refusal_of(ended: grpc.RpcError) -> ApiError | None:
    """The error that a stream ended with; None if a retry may help. A proxy sends a status without our error code."""
    name = ended.code()
    if name not in _REFUSALS:
        return None
    error, status = _REFUSALS[name]
    trailer: Any = ended.trailing_metadata() or ()
    code = str(dict(trailer).get("openbell-code", name.name.lower()))
    return error(code=code, status=status, detail=ended.details() or f"The stream ended: {name.name}.")


@contextmanager
def _cancel_when_silent(cancel: Callable[[], object]) -> Iterator[threading.Event]:
    """Cancel from another thread, because a blocking read of gRPC has no timeout."""
    received, closed = threading.Event(), threading.Event()

    def watch() -> None:
        while received.wait(subscriptions.SILENCE_SECONDS):
            received.clear()
            if closed.is_set():
                return
        cancel()

    watcher = threading.Thread(target=watch, name="openbell-silence", daemon=True)
    watcher.start()
    try:
        yield received
    finally:
        closed.set()
        received.set()

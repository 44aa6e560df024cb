"""trading.TradingService: the event stream over gRPC."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from typing import Final, NoReturn
from uuid import UUID

import grpc
import structlog

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.application.authenticate import Authenticate, Credential, read_credential
from openbell_server.application.follow_events import FollowEvents, Frame
from openbell_server.application.limit_rates import LimitRates
from openbell_server.domain.account_events import EventKind
from openbell_server.domain.authorization import Operation, admit
from openbell_server.domain.errors import CODES, Problem, RateLimited
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.principals import Principal
from openbell_server.transport.stream.event_messages import (
    KINDS,
    event_message,
    heartbeat_message,
    subscribed_message,
)

Context = grpc.aio.ServicerContext[pb.Subscribe, pb.TradingEvent]

OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_send_message_length", 1024 * 1024),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.max_concurrent_streams", 100),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.http2.max_ping_strikes", 2),
    # Two processes on one port would share its callers without anyone knowing.
    ("grpc.so_reuseport", 0),
)
_STATUSES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}


class TradingService(trading_pb2_grpc.TradingServiceServicer):
    """Turns subscriptions into streams."""

    def __init__(
        self,
        authenticate: Authenticate,
        limit: LimitRates,
        follow: FollowEvents,
        now: Callable[[], datetime],
        stopping: asyncio.Event,
    ) -> None:
        """When stopping is set, every stream ends with UNAVAILABLE and its caller resumes elsewhere."""
        self._authenticate = authenticate
        self._limit = limit
        self._follow = follow
        self._now = now
        self._stopping = stopping
        # Streams that are open now.
        self.followers = 0

    async def SubscribeEvents(  # noqa: N802 - the proto's name
        self, request: pb.Subscribe, context: Context
    ) -> AsyncIterator[pb.TradingEvent]:
        """Events of one account, in order, without gaps."""
        self.followers += 1
        try:
            credential, organization = _credentials(context)
            # Opening is counted; a stream that is open looks as often as it likes.
            await self._limit.read(await self._authenticate(credential))
            account_id, kinds = _scope(request)
            enter = partial(self._enter, credential, organization)
            frames = self._follow.subscribe(enter, account_id, kinds, request.resume_token)
            first = True
            async for frame in frames:
                yield self._message(account_id, frame, request, first=first)
                first = False
        except Problem as problem:
            await _abort(context, problem)
        except (TimeoutError, OSError):
            await _abort(context, Problem("unavailable", "a service behind the stream did not answer"))
        except Exception:  # noqa: BLE001 - the caller gets a status and resumes; the operator gets the reason
            structlog.get_logger().exception("stream_failed")
            await _abort(context, Problem("unavailable", "the stream broke; resume with your token"))
        finally:
            self.followers -= 1

    async def _enter(self, credential: Credential, organization: str | None) -> Principal:
        if self._stopping.is_set():
            raise Problem("unavailable", "this server is going away; resume with your token")
        return admit(await self._authenticate(credential), Operation.FOLLOW_EVENTS, organization)

    def _message(self, account_id: AccountId, frame: Frame, request: pb.Subscribe, *, first: bool) -> pb.TradingEvent:
        if frame.event is not None:
            return event_message(account_id, frame)
        if first:
            return subscribed_message(account_id, frame, request)
        return heartbeat_message(account_id, frame, self._now())


def _scope(request: pb.Subscribe) -> tuple[AccountId, frozenset[EventKind]]:
    try:
        account_id = AccountId(UUID(request.trading_account_id))
    except ValueError:
        raise Problem("not_found", "there is no such account") from None
    if not request.subscriptions or any(kind not in KINDS for kind in request.subscriptions):
        names = ", ".join(pb.EventType.Name(kind) for kind in KINDS)
        raise Problem("invalid_parameter", f"subscriptions must name at least one of {names}, and nothing else")
    return account_id, frozenset(KINDS[kind] for kind in request.subscriptions)


def _credentials(context: Context) -> tuple[Credential, str | None]:
    """The one credential, and the organization that a service account acts for."""
    sent: dict[str, list[str]] = {}
    for name, value in context.invocation_metadata() or ():
        sent.setdefault(name, []).append(str(value))
    organizations = sent.get("x-organization-id")
    credential = read_credential(sent.get("x-api-key", []), sent.get("authorization", []))
    return credential, ", ".join(organizations) if organizations else None


async def _abort(context: Context, problem: Problem) -> NoReturn:
    status = _STATUSES.get(CODES[problem.code].status, grpc.StatusCode.INTERNAL)
    waiting = (("retry-after", str(problem.wait_seconds)),) if isinstance(problem, RateLimited) else ()
    await context.abort(status, problem.detail, (("openbell-code", problem.code), *waiting))
    raise AssertionError("abort does not return")


async def serve_stream(
    service: TradingService, address: str, ready: Callable[[], None], stopping: asyncio.Event
) -> None:
    """Serve until stopping is set; streams get a moment to hear of it."""
    server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=2000)
    trading_pb2_grpc.add_TradingServiceServicer_to_server(service, server)
    server.add_insecure_port(address)
    await server.start()
    ready()
    await stopping.wait()
    await server.stop(grace=2)

"""trading.TradingService: the event stream over gRPC."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import grpc
import structlog
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from openbell.wire import trading_pb2 as pb
from openbell_server.application.authenticate import Authenticate, Credential, read_credential
from openbell_server.application.event_frames import Frame
from openbell_server.application.follow_events import FollowEvents
from openbell_server.application.limit_rates import LimitRates
from openbell_server.application.open_streams import OpenStreams
from openbell_server.application.watch_access import Entrance
from openbell_server.domain.errors import CODES, Problem, RateLimited
from openbell_server.domain.principals import Caller
from openbell_server.transport.stream.calls import Gate
from openbell_server.transport.stream.event_messages import encode_frame
from openbell_server.transport.stream.health import Health
from openbell_server.transport.stream.many_subscriptions import ManySubscriptions
from openbell_server.transport.stream.subscribe_requests import read_message, subscription_of

# What comes is not yet read, what is sent is encoded already.
Context = grpc.aio.ServicerContext[bytes, bytes]

OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_send_message_length", 1024 * 1024),
    # Both, or what lies between is refused by chance.
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 8 * 1024),
    ("grpc.max_concurrent_streams", 100),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.http2.max_ping_strikes", 2),
    # Callers come back, and find the servers that were added.
    ("grpc.max_connection_age_ms", 30 * 60_000),
    ("grpc.max_connection_age_grace_ms", 60_000),
    ("grpc.max_connection_idle_ms", 5 * 60_000),
    # Two processes on one port would share its callers without anyone knowing.
    ("grpc.so_reuseport", 0),
)
# Trailers are bounded; the token of many accounts is longer, and was on a frame.
TOKEN_IN_TRAILER_MAX: Final = 1024
GOODBYE_SECONDS: Final = 1.0
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


class TradingService:
    """Turns subscriptions into streams."""

    def __init__(
        self,
        authenticate: Authenticate,
        limit: LimitRates,
        follow: FollowEvents,
        now: Callable[[], datetime],
    ) -> None:
        """The clock is the process's own."""
        self._authenticate = authenticate
        self._limit = limit
        self._follow = follow
        self._now = now
        # Those that are open now.
        self.streams = OpenStreams(time.monotonic)

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods, as a server takes them."""
        # Read by ourselves: what is no message is told to callers, and told as such.
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "SubscribeEvents": grpc.unary_stream_rpc_method_handler(self.subscribe_events),
            "StreamEvents": grpc.stream_stream_rpc_method_handler(self.stream_events),
        }
        return grpc.method_handlers_generic_handler("trading.TradingService", methods)

    async def admit(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """End the call of whoever has no right credential; others are counted."""
        try:
            credential, _ = _credentials(context)
            await self._limit.read(await self._authenticate(credential))
            return
        except Problem as problem:
            refused = problem
        except (TimeoutError, OSError):
            refused = Problem("unavailable", "a service behind the stream did not answer")
        await _abort(context, refused, token="")
        raise refused

    def drain(self) -> None:
        """End every stream: its caller resumes elsewhere."""
        self._follow.drain()

    async def subscribe_events(self, sent: bytes, context: Context) -> None:
        """Events of one account or of an organization's, in order, without gaps."""
        async with _ending(context) as told:
            caller, enter = await self._enter(context)
            request = read_message(pb.Subscribe, sent)
            wanted = subscription_of(request)
            with self.streams.open(caller) as stream:
                async for frames in self._follow.subscribe_in_batches(enter, wanted, stream.cut):
                    await stream.send(context.write, self._encoded(frames, request, told))

    def _encoded(self, frames: Iterable[Frame], request: pb.Subscribe, told: "_Told") -> Iterator[bytes]:
        for frame in frames:
            yield encode_frame(frame, request, self._now)
            # It was sent: somebody asks for the next.
            told.token = frame.resume_token or told.token

    async def stream_events(self, _: object, context: Context) -> None:
        """Several subscriptions in one call, each with its label."""
        async with _ending(context):
            caller, enter = await self._enter(context)
            # Who may follow nothing hears that once, not again for every subscription.
            await enter()
            with self.streams.open(caller) as stream:
                await ManySubscriptions(context, stream, self._follow, self._limit, self._now).run(caller, enter)

    async def _enter(self, context: Context) -> tuple[Caller, Entrance]:
        credential, organization = _credentials(context)
        caller = await self._authenticate(credential)
        # Opening is counted; a stream that is open looks as often as it likes.
        await self._limit.read(caller)
        return caller, Entrance(self._authenticate, credential, organization)


@dataclass(slots=True)
class _Told:
    """What the caller of a stream has."""

    # Of the last frame; where a call carries several subscriptions, each has its own on its frames.
    token: str = ""


@contextlib.asynccontextmanager
async def _ending(context: Context) -> AsyncIterator[_Told]:
    """Whatever ends a stream becomes its status."""
    told = _Told()
    try:
        yield told
    except Problem as problem:
        await _abort(context, problem, told.token)
    except (TimeoutError, OSError):
        await _abort(context, Problem("unavailable", "a service behind the stream did not answer"), told.token)
    except Exception:  # noqa: BLE001 - the caller gets a status and resumes; the operator gets the reason
        # A caller that is gone hears nothing, and that it is gone is no failure.
        if context.done():
            return
        structlog.get_logger().exception("stream_failed")
        await _abort(context, Problem("unavailable", "the stream broke; resume with your token"), told.token)


def _credentials(context: Context) -> tuple[Credential, str | None]:
    """The one credential, and the organization that a service account acts for."""
    sent: dict[str, list[str]] = {}
    for name, value in context.invocation_metadata() or ():
        sent.setdefault(name, []).append(str(value))
    organizations = sent.get("x-organization-id")
    credential = read_credential(sent.get("x-api-key", []), sent.get("authorization", []))
    return credential, ", ".join(organizations) if organizations else None


async def _abort(context: Context, problem: Problem, token: str) -> None:
    """End the stream; who is stuck hears of it as soon as it reads again, and nobody waits for that here."""
    status = _STATUSES.get(CODES[problem.code].status, grpc.StatusCode.INTERNAL)
    told = [("openbell-code", problem.code)]
    if isinstance(problem, RateLimited):
        told.append(("retry-after", str(problem.wait_seconds)))
    if 0 < len(token) <= TOKEN_IN_TRAILER_MAX:
        told.append(("openbell-resume-token", token))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            await context.abort(status, problem.detail, tuple(told))


async def serve_stream(
    service: TradingService, health: Health, address: str, ready: Callable[[], None], stopping: asyncio.Event
) -> None:
    """Serve until stopping is set; streams get a moment to hear of it."""
    server = grpc.aio.server(interceptors=[Gate(service.admit)], options=OPTIONS, maximum_concurrent_rpcs=2000)
    server.add_generic_rpc_handlers((service.handler(),))
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    names = ("trading.TradingService", "grpc.health.v1.Health", reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    server.add_insecure_port(address)
    await server.start()
    ready()
    await stopping.wait()
    service.drain()
    await server.stop(grace=2)

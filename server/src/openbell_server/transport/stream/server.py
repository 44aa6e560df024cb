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
from openbell_server.application.access.authenticate import Authenticate, Credential, read_credential
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.events.event_frames import Frame
from openbell_server.application.events.follow_events import FollowEvents
from openbell_server.application.events.open_streams import OpenStream, OpenStreams
from openbell_server.application.events.recheck_access import Entrance
from openbell_server.application.events.refusal_delays import RefusalDelays
from openbell_server.application.events.stream_places import StreamPlaces
from openbell_server.domain.access.principals import Caller
from openbell_server.domain.errors import CODES, CapReached, Problem, RateLimited
from openbell_server.domain.identifiers import OrganizationId
from openbell_server.transport.stream.calls import Gate
from openbell_server.transport.stream.event_messages import encode_frame
from openbell_server.transport.stream.health import Health
from openbell_server.transport.stream.many_subscriptions import ManySubscriptions
from openbell_server.transport.stream.subscribe_requests import read_message, subscription_of

# Requests arrive undecoded and responses leave encoded.
Context = grpc.aio.ServicerContext[bytes, bytes]

OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_send_message_length", 1024 * 1024),
    # Set both: between two different limits gRPC refuses requests at random.
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 8 * 1024),
    ("grpc.max_concurrent_streams", 100),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.http2.max_ping_strikes", 2),
    # Clients reconnect after 30 minutes and so find servers that were added.
    ("grpc.max_connection_age_ms", 30 * 60_000),
    ("grpc.max_connection_age_grace_ms", 60_000),
    ("grpc.max_connection_idle_ms", 5 * 60_000),
    # Otherwise a second process on the same port would silently take some of the connections.
    ("grpc.so_reuseport", 0),
)
# Trailers are limited in size. Longer tokens (many accounts) were already sent on a frame.
TOKEN_IN_TRAILER_MAX: Final = 1024
ABORT_SECONDS: Final = 1.0
STREAMS_MAX: Final = 2000
# Refusals that wait; further ones are sent at once.
DELAYED_MAX: Final = 2000
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
    def __init__(
        self,
        authenticate: Authenticate,
        limit: LimitRates,
        follow: FollowEvents,
        now: Callable[[], datetime],
        places: StreamPlaces,
    ) -> None:
        self._authenticate = authenticate
        self._limit = limit
        self._follow = follow
        self._now = now
        self._places = places
        self._refusal_delays = RefusalDelays()
        self._delayed = 0
        self.streams = OpenStreams(time.monotonic)

    def handler(self) -> grpc.GenericRpcHandler:
        # Messages are decoded in this module, so that a malformed one gets an error code.
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "SubscribeEvents": grpc.unary_stream_rpc_method_handler(self.subscribe_events),
            "StreamEvents": grpc.stream_stream_rpc_method_handler(self.stream_events),
        }
        return grpc.method_handlers_generic_handler("trading.TradingService", methods)

    async def admit(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """End the call if it has no valid credential; otherwise count it against the rate limit."""
        try:
            credential, _ = _credentials(context)
            await self._limit.read(await self._authenticate(credential))
            return
        except Problem as problem:
            refused = problem
        except Exception as error:  # noqa: BLE001 - gRPC would send its text to callers that are not known yet
            if not isinstance(error, TimeoutError | OSError):
                structlog.get_logger().exception("call_failed")
            refused = Problem("unavailable", "a service behind the stream did not answer")
        await _abort(context, refused, token="")
        raise refused

    def drain(self) -> None:
        """End every stream; clients resume on another server."""
        self._follow.drain()

    async def close(self) -> None:
        """Give back the places of all streams, after they have ended."""
        await self._places.close()

    @contextlib.asynccontextmanager
    async def _open(self, caller: Caller, enter: Entrance) -> AsyncIterator[OpenStream]:
        """Count a stream for the caller and for its organization, once it is known that it may follow events."""
        organization_id = (await enter()).organization_id
        async with contextlib.AsyncExitStack() as opened:
            try:
                stream = opened.enter_context(self.streams.open(caller))
                await opened.enter_async_context(self._places.place(organization_id))
            except CapReached:
                await self._delay_refusal(organization_id)
                raise
            yield stream

    async def _delay_refusal(self, organization_id: OrganizationId) -> None:
        seconds = self._refusal_delays.next_seconds(organization_id)
        if self._delayed < DELAYED_MAX:
            self._delayed += 1
            try:
                await asyncio.sleep(seconds)
            finally:
                self._delayed -= 1

    async def subscribe_events(self, sent: bytes, context: Context) -> None:
        """Send the events of one account or of all accounts of an organization, in order and without gaps."""
        async with _ending(context) as progress:
            caller, enter = await self._enter(context)
            request = read_message(pb.Subscribe, sent)
            wanted = subscription_of(request)
            async with self._open(caller, enter) as stream:
                async for frames in self._follow.subscribe_in_batches(enter, wanted, stream.cut):
                    await stream.send(context.write, self._encoded(frames, request, progress))

    def _encoded(self, frames: Iterable[Frame], request: pb.Subscribe, progress: "_Progress") -> Iterator[bytes]:
        for frame in frames:
            yield encode_frame(frame, request, self._now)
            # The consumer requests the next frame only after this one was sent.
            progress.token = frame.resume_token or progress.token

    async def stream_events(self, _: object, context: Context) -> None:
        """Serve several subscriptions in one call, each with its label."""
        async with _ending(context):
            caller, enter = await self._enter(context)
            # A caller without access to any event is refused once here, not once per subscription.
            async with self._open(caller, enter) as stream:
                await ManySubscriptions(context, stream, self._follow, self._limit, self._now).run(caller, enter)

    async def _enter(self, context: Context) -> tuple[Caller, Entrance]:
        credential, organization = _credentials(context)
        caller = await self._authenticate(credential)
        # Only opening counts against the rate limit; later checks of an open stream do not.
        await self._limit.read(caller)
        return caller, Entrance(self._authenticate, credential, organization)


@dataclass(slots=True)
class _Progress:
    # Resume token of the last frame sent; empty for calls with several subscriptions, whose frames carry their own.
    token: str = ""


@contextlib.asynccontextmanager
async def _ending(context: Context) -> AsyncIterator[_Progress]:
    """Turn every error that ends a stream into its gRPC status."""
    progress = _Progress()
    try:
        yield progress
    except Problem as problem:
        await _abort(context, problem, progress.token)
    except (TimeoutError, OSError):
        await _abort(context, Problem("unavailable", "a service behind the stream did not answer"), progress.token)
    except Exception:  # noqa: BLE001 - the caller gets a status and resumes; the operator gets the reason
        # A client that has disconnected cannot receive a status, and its leaving is not an error.
        if context.done():
            return
        structlog.get_logger().exception("stream_failed")
        await _abort(context, Problem("unavailable", "the stream broke; resume with your token"), progress.token)


def _credentials(context: Context) -> tuple[Credential, str | None]:
    """The one credential, and the organization on whose behalf a service account calls."""
    sent: dict[str, list[str]] = {}
    for name, value in context.invocation_metadata() or ():
        sent.setdefault(name, []).append(str(value))
    organizations = sent.get("x-organization-id")
    credential = read_credential(sent.get("x-api-key", []), sent.get("authorization", []))
    return credential, ", ".join(organizations) if organizations else None


async def _abort(context: Context, problem: Problem, token: str) -> None:
    """End the stream. A client that does not read gets the status later; this does not wait for it."""
    status = _STATUSES.get(CODES[problem.code].status, grpc.StatusCode.INTERNAL)
    trailers = [("openbell-code", problem.code)]
    if isinstance(problem, RateLimited):
        trailers.append(("retry-after", str(problem.wait_seconds)))
    if 0 < len(token) <= TOKEN_IN_TRAILER_MAX:
        trailers.append(("openbell-resume-token", token))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ABORT_SECONDS):
            await context.abort(status, problem.detail, tuple(trailers))


async def serve_stream(
    service: TradingService, health: Health, address: str, ready: Callable[[], None], stopping: asyncio.Event
) -> None:
    """Serve until stopping is set; then streams have 2 seconds to end."""
    # Refusals that wait take no place of a stream.
    calls_max = STREAMS_MAX + DELAYED_MAX
    server = grpc.aio.server(interceptors=[Gate(service.admit)], options=OPTIONS, maximum_concurrent_rpcs=calls_max)
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
    await service.close()

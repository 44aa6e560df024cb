"""The gRPC server around the event stream: health, reflection, which methods are served to whom, and its limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.processes.operations_port import Operations
from openbell_server.transport.stream.calls import LOOKING, OPEN, REFLECTION, Gate
from openbell_server.transport.stream.health import WATCHERS_MAX
from openbell_server.transport.stream.server import OPTIONS
from support.brokers.paper_broker import until
from support.builders.tenant import a_key, a_tenant, misspelled
from support.rest.event_streams import event_stream

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
UNAUTHENTICATED, UNIMPLEMENTED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED
Metadata = tuple[tuple[str, str], ...]


class Readiness:
    """A process that loses what it needs, and gets it back."""

    def __init__(self) -> None:
        self.is_ready = True

    async def __call__(self) -> bool:
        return self.is_ready


@asynccontextmanager
async def calling(pool: Pool, **how: Any) -> AsyncIterator[tuple[grpc.aio.Channel, asyncio.Event]]:
    stopping = asyncio.Event()
    async with (
        event_stream(pool, stopping=stopping, **how) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        yield channel, stopping


async def check(channel: grpc.aio.Channel, service: str = "") -> int:
    call = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    answer: Any = await call(health_pb2.HealthCheckRequest(service=service), timeout=60)
    return int(answer.status)


def watch(channel: grpc.aio.Channel, service: str = "") -> AsyncIterator[Any]:
    call = channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    return aiter(call(health_pb2.HealthCheckRequest(service=service), timeout=60))


async def reflect(channel: grpc.aio.Channel, metadata: Metadata, **request: str) -> Any:
    call = channel.stream_stream(
        REFLECTION,
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    async with asyncio.timeout(60):
        while True:
            asked = iter([reflection_pb2.ServerReflectionRequest(**request)])
            try:
                return await anext(aiter(call(asked, metadata=metadata, timeout=60)))
            except grpc.aio.AioRpcError as error:
                # Where the server ended the call first, the library fails to send and hides the server's status.
                if "SendMessageOperation" not in (error.debug_error_string() or ""):
                    raise


async def status_of(channel: grpc.aio.Channel, method: str, metadata: Metadata = (), body: bytes = b"") -> str:
    call: Any = channel.unary_unary(method)
    try:
        await call(body, metadata=metadata, timeout=60)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def is_not_serving(channel: grpc.aio.Channel) -> bool:
    return await check(channel) == int(NOT_SERVING)


async def test_health_needs_no_credential_and_knows_the_services(pool: Pool) -> None:
    async with calling(pool) as (channel, _):
        assert [await check(channel, name) for name in ("", "trading.TradingService")] == [SERVING, SERVING]
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await check(channel, "trading.Nothing")
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        answer = await anext(watch(channel, "trading.Nothing"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


async def test_health_follows_what_the_process_is_ready_for(pool: Pool) -> None:
    readiness = Readiness()
    async with calling(pool, is_ready=readiness) as (channel, _):
        watched = watch(channel, "trading.TradingService")
        assert (await anext(watched)).status == SERVING
        readiness.is_ready = False
        assert [await check(channel, name) for name in ("", "trading.TradingService")] == [NOT_SERVING, NOT_SERVING]
        assert (await anext(watched)).status == NOT_SERVING
        readiness.is_ready = True
        assert (await anext(watched)).status == SERVING


async def test_health_is_not_serving_while_the_database_is_away(pool: Pool, database: str) -> None:
    operations = Operations("stream")
    async with await open_pool(database) as lost:
        operations.watch_database(lost)
        async with calling(pool, is_ready=operations.is_ready) as (channel, _):
            assert await check(channel) == SERVING
            await lost.close()
            await until(lambda: is_not_serving(channel))


async def test_a_draining_server_tells_its_watchers_and_lets_them_go(pool: Pool) -> None:
    async with calling(pool) as (channel, stopping):
        watched = watch(channel)
        assert (await anext(watched)).status == SERVING
        stopping.set()
        assert [answer.status async for answer in watched] == [NOT_SERVING]


async def test_watching_health_is_bounded_and_those_who_left_make_room(pool: Pool) -> None:
    async with calling(pool) as (channel, _):
        watching = [watch(channel) for _ in range(WATCHERS_MAX)]
        for watched in watching:
            await anext(watched)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await anext(watch(channel))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await check(channel) == SERVING


async def test_reflection_tells_the_services_to_those_with_a_credential_only(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    key = (("x-api-key", tenant.key),)
    async with calling(pool) as (channel, _):
        for metadata in ((), (("x-api-key", misspelled(tenant.key)),)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await reflect(channel, metadata, list_services="")
            assert refused.value.code() is UNAUTHENTICATED
        listed = await reflect(channel, key, list_services="")
        names = {service.name for service in listed.list_services_response.service}
        assert {"trading.TradingService", "grpc.health.v1.Health"} < names
        told = await reflect(channel, key, file_containing_symbol="trading.TradingService")
        file = FileDescriptorProto.FromString(told.file_descriptor_response.file_descriptor_proto[0])
        assert (file.package, file.service[0].name) == ("trading", "TradingService")


async def test_a_method_that_is_not_there_is_told_only_to_callers(pool: Pool) -> None:
    key = (("x-api-key", (await a_tenant(pool)).key),)
    async with calling(pool) as (channel, _):
        for method in ("/trading.TradingService/Nothing", "/x/y", "/grpc.health.v1.Health/List"):
            assert await status_of(channel, method) == "UNAUTHENTICATED"
            assert await status_of(channel, method, key) == "UNIMPLEMENTED"


async def test_a_method_that_no_row_names_is_served_to_nobody() -> None:
    async def admit(_: object) -> Any:
        return None

    async def answer(request: bytes, _: object) -> bytes:
        return request

    server = grpc.aio.server(interceptors=[Gate(admit)])
    handlers: dict[str, Any] = {"Added": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("trading.TradingService", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await status_of(channel, "/trading.TradingService/Added") == "UNIMPLEMENTED"
    finally:
        await server.stop(None)


def test_every_method_of_the_proto_has_a_row() -> None:
    service = pb.DESCRIPTOR.services_by_name["TradingService"]
    assert {f"/{service.full_name}/{method.name}" for method in service.methods} == LOOKING
    assert not OPEN & LOOKING


def test_the_limits_of_a_connection() -> None:
    limits = dict(OPTIONS)
    assert limits == {
        "grpc.max_receive_message_length": 65_536,
        "grpc.max_send_message_length": 1_048_576,
        "grpc.max_metadata_size": 8_192,
        "grpc.absolute_max_metadata_size": 8_192,
        "grpc.max_concurrent_streams": 100,
        "grpc.keepalive_time_ms": 30_000,
        "grpc.keepalive_timeout_ms": 10_000,
        "grpc.http2.min_recv_ping_interval_without_data_ms": 20_000,
        "grpc.http2.max_ping_strikes": 2,
        "grpc.max_connection_age_ms": 1_800_000,
        "grpc.max_connection_age_grace_ms": 60_000,
        "grpc.max_connection_idle_ms": 300_000,
        "grpc.so_reuseport": 0,
    }


async def test_a_message_of_more_than_64_kilobytes_is_refused(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    key = (("x-api-key", tenant.key),)
    async with calling(pool) as (channel, _):
        method = "/trading.TradingService/SubscribeEvents"
        for size, status in ((65_536, "NOT_FOUND"), (65_537, "RESOURCE_EXHAUSTED")):
            body = _padded(size)
            assert len(body) == size
            assert await status_of(channel, method, key, body) == status


def _padded(size: int) -> bytes:
    """A request for an account x with a field that is none of ours, so long."""
    start = b"\x0a\x01x"
    filler = size - len(start) - 4
    length = bytes([filler & 0x7F | 0x80, filler >> 7 & 0x7F | 0x80, filler >> 14])
    return start + b"\x7a" + length + bytes(filler)


async def test_metadata_of_more_than_8_kilobytes_is_refused(pool: Pool) -> None:
    async with calling(pool) as (channel, _):
        assert await status_of(channel, "/grpc.health.v1.Health/Check", (("x-much", "a" * 7_000),)) == "OK"
        for size in (8_200, 12_000, 20_000, 100_000):
            refused = await status_of(channel, "/grpc.health.v1.Health/Check", (("x-much", "a" * size),))
            assert refused == "RESOURCE_EXHAUSTED"
        assert await check(channel) == SERVING


async def test_a_connection_carries_a_hundred_streams_and_the_next_waits(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    async with calling(pool) as (channel, _):
        stub: trading_pb2_grpc.TradingServiceAsyncStub = trading_pb2_grpc.TradingServiceStub(channel)
        request = pb.Subscribe(trading_account_id=str(tenant.account.id), subscriptions=[pb.EVENT_TYPE_BROKER_ORDER])

        # A key has fewer than a connection.
        keys = [(await a_key(pool, tenant.account.organization_id))[1] for _ in range(11)]

        def follow(key: str) -> Any:
            return stub.SubscribeEvents(request, metadata=(("x-api-key", key),), timeout=60)

        streams = [follow(keys[number // 10]) for number in range(100)]
        for stream in streams:
            await stream.read()
        waiting = follow(keys[10])
        first = asyncio.ensure_future(waiting.read())
        done, _ = await asyncio.wait({first}, timeout=0.5)
        assert not done
        streams[0].cancel()
        assert (await asyncio.wait_for(first, 60)).WhichOneof("event") == "subscribed"

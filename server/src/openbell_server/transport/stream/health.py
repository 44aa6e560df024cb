"""Implements grpc.health.v1, which load balancers query before they send traffic."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

SERVICES: Final = frozenset({"", "trading.TradingService"})
# Watching needs no credential, so the number of watchers is limited.
WATCHERS_MAX: Final = 20
LOOK_SECONDS: Final = 1.0

Context = grpc.aio.ServicerContext[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]
_SERVING: Final[int] = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final[int] = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN: Final[int] = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Reports the same state as /readyz."""

    def __init__(self, is_ready: Callable[[], Awaitable[bool]], stopping: asyncio.Event) -> None:

        self._is_ready = is_ready
        self._stopping = stopping
        self._watchers = 0

    async def Check(  # noqa: N802 - the proto's name
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        status = await self._status(request.service)
        if status == _UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service here")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(  # noqa: N802 - the proto's name
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        if self._watchers >= WATCHERS_MAX:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watchers; call Check instead")
        self._watchers += 1
        try:
            reported: int | None = None
            while not (reported == _NOT_SERVING and self._stopping.is_set()):
                if (status := await self._status(request.service)) != reported:
                    reported = status
                    yield health_pb2.HealthCheckResponse(status=status)
                if await self._stops_soon() and status == _UNKNOWN:
                    return
        finally:
            self._watchers -= 1

    async def _status(self, service: str) -> int:
        if service not in SERVICES:
            return _UNKNOWN
        return _SERVING if not self._stopping.is_set() and await self._is_ready() else _NOT_SERVING

    async def _stops_soon(self) -> bool:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return await self._stopping.wait()
        except TimeoutError:
            return False

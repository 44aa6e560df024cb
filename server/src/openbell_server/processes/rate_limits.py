"""Builds the rate limits of callers."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.rate_limits.local_windows import LocalWindows
from openbell_server.application.access.rate_limits import LimitRates, Rates
from openbell_server.domain.errors import OperatorError
from openbell_server.processes.lifecycle import Serve, together
from openbell_server.processes.operations_port import Operations
from openbell_server.settings import Settings

# A part of a process that counts the calls of its callers.
ServeCallers = Callable[[LimitRates, Settings, asyncio.Event, Operations, JetStreamConnection], Awaitable[None]]


def with_rate_limits(*parts: ServeCallers) -> Serve:
    """A process of these parts, which count the calls of a caller together."""

    async def serve(
        settings: Settings, stopping: asyncio.Event, operations: Operations, hints: JetStreamConnection
    ) -> None:
        async with rate_limits(settings) as limit:
            watch_limits(operations, limit)
            await together(*(partial(part, limit) for part in parts))(settings, stopping, operations, hints)

    return serve


@contextlib.asynccontextmanager
async def rate_limits(settings: Settings) -> AsyncIterator[LimitRates]:
    """Count in Redis if it is configured, else in this process."""
    rates = Rates(
        reads_per_second=settings.limit_reads_per_second,
        reads_per_minute=settings.limit_reads_per_minute,
        submits_per_second=settings.limit_submits_per_second,
        cancels_per_second=settings.limit_cancels_per_second,
        validations_per_second=settings.limit_validations_per_second,
    )
    local = LocalWindows(time.monotonic)
    if not (url := settings.redis_url.get_secret_value()):
        yield LimitRates(local, rates)
        return
    # Slow to import and not always needed.
    from openbell_server.adapters.rate_limits.redis_windows import RedisWindows

    try:
        shared = RedisWindows(url, local, time.monotonic)
    except ValueError as error:
        # The address may contain a password, so it is not shown.
        raise OperatorError("OPENBELL_REDIS_URL is not a Redis address: write it as redis://host:6379.") from error
    await shared.connect()
    try:
        yield LimitRates(shared, rates)
    finally:
        await shared.close()


def watch_limits(operations: Operations, limit: LimitRates) -> None:
    counts, read = limit.counts, operations.instruments.read
    about = "1 while calls are counted in Redis for all processes, 0 while this process counts alone."
    read("gauge", "openbell_rate_limits_shared", about, (), lambda: {(): float(counts.is_shared)})
    about = "Calls that this process counted alone although Redis is configured."
    read("counter", "openbell_rate_limits_counted_alone_total", about, (), lambda: {(): counts.counted_alone})
    about = "Calls that were refused by a rate limit: read, submit, cancel or validate."
    read(
        "counter",
        "openbell_rate_limit_refusals_total",
        about,
        ("kind",),
        lambda: {(kind,): count for kind, count in limit.refusals.items()},
    )

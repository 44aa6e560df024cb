"""Starts and stops every process: signals, readiness, and a drain with a time limit."""

import asyncio
import gc
import resource
import signal
import time
from collections.abc import Awaitable, Callable

import structlog
import uvloop

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import UNREACHABLE, describe_error
from openbell_server.application import crash_points
from openbell_server.domain.errors import OperatorError
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.readiness import notify_ready
from openbell_server.settings import Settings
from openbell_server.telemetry.logs import configure_logging
from openbell_server.telemetry.tracing import open_tracing

DRAIN_SECONDS = 10
GC_THRESHOLD = 20_000
# A part of a process, or all of it: it serves until the event is set. It starts the connection to NATS if it needs one.
Serve = Callable[[Settings, asyncio.Event, Operations, JetStreamConnection], Awaitable[None]]


def boot_time() -> float:
    """Seconds of the boot clock, which continues during suspend, so cached data is stale after a resume."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def together(*parts: Serve) -> Serve:
    """A process of several parts in one event loop; when one ends, the others end too."""

    async def serve(
        settings: Settings, stopping: asyncio.Event, operations: Operations, hints: JetStreamConnection
    ) -> None:
        operations.parts = len(parts)
        running = [asyncio.ensure_future(part(settings, stopping, operations, hints)) for part in parts]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        stopping.set()
        # The caller limits this wait.
        for ended in await asyncio.gather(*running, return_exceptions=True):
            if ended is not None:
                raise ended

    return serve


async def until_signalled() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def tune_garbage_collection() -> None:
    """Raise the GC threshold and freeze start-up objects.

    Streams and back-tests hold many long-lived objects; with Python's default threshold GC took 10 % of a stream server
    and 25 % of a back-test.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def forbid_core_files() -> None:
    """A core file of a crash would contain the secrets that this process holds."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(process: str, settings: Settings, serve: Serve) -> None:
    """Run one process. The event passed to serve is set on a signal; serve must then return within DRAIN_SECONDS."""
    forbid_core_files()
    configure_logging(process, settings.log_level)
    crash_points.arm(settings.crash_at)
    tune_garbage_collection()
    record_span, close_tracing = open_tracing(process, settings.otlp_url)
    try:
        uvloop.run(_supervise(Operations(process, record_span, notify_ready), settings, serve))
    finally:
        close_tracing()


async def _supervise(operations: Operations, settings: Settings, serve: Serve) -> None:
    log = structlog.get_logger()
    stopping = asyncio.Event()
    showing = asyncio.ensure_future(operations.run(settings))
    hints = JetStreamConnection(settings.nats_url)
    serving = asyncio.ensure_future(serve(settings, stopping, operations, hints))
    signalled = asyncio.ensure_future(until_signalled())
    await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    stopping.set()
    operations.end()
    try:
        await asyncio.wait({serving}, timeout=DRAIN_SECONDS)
        if not serving.done():
            log.error("drain_timed_out", process=operations.process, seconds=DRAIN_SECONDS)
            raise SystemExit(1)
        await serving
    except UNREACHABLE as error:
        if operations.has_started:
            raise
        raise OperatorError(
            f"The database did not answer ({describe_error(error)}): check its address in the settings and that the"
            " server runs, then start this process again."
        ) from error
    finally:
        showing.cancel()
        await asyncio.wait({showing, asyncio.ensure_future(hints.close())}, timeout=1)
    log.info("stopped")

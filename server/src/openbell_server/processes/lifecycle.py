"""How every process starts, says that it is ready, and ends: signals, one task group, a bounded drain."""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable

import structlog
import uvloop

from openbell_server.adapters.postgres.connection import UNREACHABLE, plainly
from openbell_server.application import crash_points
from openbell_server.domain.errors import OperatorError
from openbell_server.processes.operations import Operations
from openbell_server.settings import Settings
from openbell_server.telemetry.logs import configure_logging
from openbell_server.telemetry.tracing import open_tracing

DRAIN_SECONDS = 10
NEW_OBJECTS_BETWEEN_LOOKS = 20_000
Serve = Callable[[Settings, asyncio.Event, Operations], Awaitable[None]]


def boot_time() -> float:
    """Unlike the monotonic clock it goes on while the machine is suspended: nothing stays fresh in its sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def notify_ready() -> None:
    """Tell whoever started us, by systemd's protocol, that we serve."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notice:
        notice.connect("\0" + address[1:] if address.startswith("@") else address)
        notice.sendall(b"READY=1")


async def until_signalled() -> None:
    """Wait for SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def collect_less_often() -> None:
    """Have Python look for rings of garbage less often, and never among what was there when it began.

    Open streams and records that are judged again are many objects that live for long: looking through them for every
    few hundred new ones, as Python does by itself, took a tenth of a stream server and a quarter of a back-test.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_BETWEEN_LOOKS)


def run(process: str, settings: Settings, serve: Serve) -> None:
    """Run one process: serve gets an event that is set when it shall drain, and has ten seconds from then."""
    configure_logging(process, settings.log_level)
    crash_points.arm(settings.crash_at)
    collect_less_often()
    record_span, close_tracing = open_tracing(process, settings.otlp_url)
    try:
        uvloop.run(_supervise(Operations(process, record_span), settings, serve))
    finally:
        close_tracing()


async def _supervise(operations: Operations, settings: Settings, serve: Serve) -> None:
    log = structlog.get_logger()
    stopping = asyncio.Event()
    showing = asyncio.ensure_future(operations.run(settings))
    serving = asyncio.ensure_future(serve(settings, stopping, operations))
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
            f"The database did not answer ({plainly(error)}): check its address in the settings and that the server"
            " runs, then start this process again."
        ) from error
    finally:
        showing.cancel()
        await asyncio.wait({showing}, timeout=1)
    log.info("stopped")

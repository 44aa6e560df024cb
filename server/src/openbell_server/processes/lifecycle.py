"""How every process starts, says that it is ready, and ends: signals, one task group, a bounded drain."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable

import structlog
import uvloop

from openbell_server.application import crash_points
from openbell_server.settings import Settings
from openbell_server.telemetry import configure_logging

DRAIN_SECONDS = 10


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


def run(process: str, settings: Settings, serve: Callable[[Settings, asyncio.Event], Awaitable[None]]) -> None:
    """Run one process: serve gets an event that is set when it shall drain, and has ten seconds from then."""
    configure_logging(process, settings.log_level)
    crash_points.arm(settings.crash_at)
    uvloop.run(_supervise(process, settings, serve))


async def _supervise(
    process: str, settings: Settings, serve: Callable[[Settings, asyncio.Event], Awaitable[None]]
) -> None:
    log = structlog.get_logger()
    stopping = asyncio.Event()
    serving = asyncio.ensure_future(serve(settings, stopping))
    signalled = asyncio.ensure_future(until_signalled())
    await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    stopping.set()
    try:
        await asyncio.wait_for(serving, DRAIN_SECONDS)
    except TimeoutError:
        log.error("drain_timed_out", process=process, seconds=DRAIN_SECONDS)
        raise SystemExit(1) from None
    log.info("stopped")

"""Runs uvicorn inside our process lifecycle: it installs no signal handlers, reports when it serves, and stops when
asked to.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from openbell_server.cuttable_http import CuttableProtocol
from openbell_server.domain.errors import OperatorError

GRACE_SECONDS = 5


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


async def serve_http(
    application: Callable[..., Any],
    host: str,
    port: int,
    stopping: asyncio.Event,
    *,
    connections_max: int,
    ready: Callable[[], None] = lambda: None,
    before_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve until stopping is set, then finish the open requests."""
    try:
        listener = socket.create_server((host, port), backlog=1024)
    except OSError as error:
        raise OperatorError(f"Cannot listen on {host}:{port} ({error.strerror}): choose another port.") from error
    with listener:
        config = uvicorn.Config(
            application,
            http=CuttableProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=connections_max,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        server = _Server(config, ready)
        serving = asyncio.ensure_future(server.serve([listener]))
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            before_stop()
            server.should_exit = True
            await serving

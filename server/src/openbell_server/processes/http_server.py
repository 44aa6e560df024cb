"""Runs uvicorn inside our process lifecycle: it installs no signal handlers, reports when it serves, and stops when
asked to.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import uvicorn

from openbell_server.domain.errors import OperatorError
from openbell_server.http_protocol import BoundedProtocol, Connections
from openbell_server.websocket_protocol import SETTINGS, BoundedWebSocket

GRACE_SECONDS = 5


# The date header has whole seconds, and late connections are ended this often.
TICK_SECONDS = 1.0


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, connections: Connections, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._connections = connections
        self._ready = ready
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Finish the open requests and stop."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Once a second instead of uvicorn's ten times: `end` wakes it, so it need not look for that."""
        loop, ending = asyncio.get_running_loop(), asyncio.ensure_future(self._ending.wait())
        # uvicorn renews the date header in every tenth tick.
        while not await self.on_tick(0):
            self._connections.end_late(loop.time())
            await asyncio.wait((ending,), timeout=TICK_SECONDS)

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
    connections: Connections,
    ready: Callable[[], None] = lambda: None,
    before_stop: Callable[[], None] = lambda: None,
    has_websockets: bool = False,
) -> None:
    """Serve until stopping is set, then finish the open requests."""
    try:
        listener = socket.create_server((host, port), backlog=1024)
    except OSError as error:
        raise OperatorError(f"Cannot listen on {host}:{port} ({error.strerror}): choose another port.") from error
    with listener:
        config = uvicorn.Config(
            application,
            http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, among=connections)),
            ws=BoundedWebSocket if has_websockets else "none",
            **SETTINGS,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Forwarded addresses are believed only if a trusted proxy sent them.
            proxy_headers=bool(connections.trusted),
            forwarded_allow_ips=[str(network) for network in connections.trusted],
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        server = _Server(config, connections, ready)
        serving = asyncio.ensure_future(server.serve([listener]))
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            before_stop()
            server.end()
            await serving

"""Serves a loopback over HTTP and WebSocket, in this loop, with connections that it can cut."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from openbell_server.http_protocol import BoundedProtocol

CUT = "loopback.cut"
_BACKLOG = 512
_GRACE_SECONDS = 1


class CuttableWebSocket(WebSocketsSansIOProtocol):
    """WebSocket as uvicorn speaks it, plus a way for the application to cut the connection."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["extensions"] = {CUT: {"transport": self.transport}}


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to pytest."""
        yield


@asynccontextmanager
async def serving(application: Callable[..., Any]) -> AsyncIterator[str]:
    """An ASGI application at an address of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    with listener:
        config = uvicorn.Config(
            application,
            http=BoundedProtocol,
            ws=CuttableWebSocket,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        server = _Server(config)
        served = asyncio.ensure_future(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await served

"""Serves an application over HTTP and WebSocket at a free port of this machine, on connections that it can cut."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from openbell_torture.http_request import ABORT

_BACKLOG: Final = 512
_GRACE_SECONDS: Final = 1


class _HttpProtocol(HttpToolsProtocol):
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item] # ASGI has dictionaries there


class _WebSocketProtocol(WebSocketsSansIOProtocol):
    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item] # ASGI has dictionaries there


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The program handles its signals itself."""
        yield


@asynccontextmanager
async def serving(application: Callable[..., Any], http: type[HttpToolsProtocol] = _HttpProtocol) -> AsyncIterator[str]:
    """The address at which it answers."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    with listener:
        config = uvicorn.Config(
            application,
            http=http,
            ws=_WebSocketProtocol,
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

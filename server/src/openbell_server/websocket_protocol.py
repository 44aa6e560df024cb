"""The WebSocket protocol of uvicorn with limits on what a client may send and on its connections."""

from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from openbell_server.http_protocol import CONNECTION, BoundedProtocol

MESSAGE_BYTES_MAX: Final = 4096
FRAGMENTS_MAX: Final = 16
# What `uvicorn.Config` needs to serve WebSockets.
SETTINGS: Final[dict[str, Any]] = {"ws_max_size": MESSAGE_BYTES_MAX, "ws_per_message_deflate": False}


class BoundedWebSocket(WebSocketsSansIOProtocol):
    # The connection as it was before its upgrade: it counts until it is lost.
    _upgraded: BoundedProtocol | None = None

    def upgraded_from(self, connection: BoundedProtocol) -> None:
        self._upgraded = connection
        # There is no scope if the handshake was wrong.
        if hasattr(self, "scope"):
            self.scope["extensions"] = {CONNECTION: {"connection": connection}}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._upgraded is not None:
            self._upgraded.connection_lost(exc)

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            # The answers to a client that reads none would fill the memory.
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < FRAGMENTS_MAX:
            super().handle_cont(event)
        else:
            self.transport.abort()

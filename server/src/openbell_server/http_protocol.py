"""The HTTP protocol of uvicorn with limits on what a connection may send before it is known, and with connections that
the application can abort.

uvicorn alone has no limit on the size of a head and no deadline for a head or a body, and its parser copies a header
again for each piece of it that arrives.
"""

import asyncio
import weakref
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Final, Protocol, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

CONNECTION: Final = "openbell.connection"
HEAD_BYTES_MAX: Final = 32 * 1024
HEADERS_MAX: Final = 100
URL_BYTES_MAX: Final = 8 * 1024
HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 15.0
# For a response of which the client reads nothing.
READ_SECONDS: Final = 30.0
_LONG_HEAD: Final = 431, f"the head of a request may have at most {HEAD_BYTES_MAX} bytes"
_MANY_HEADERS: Final = 431, f"a request may have at most {HEADERS_MAX} headers"
_LONG_URL: Final = 414, f"a URL may have at most {URL_BYTES_MAX} bytes"
Network = IPv4Network | IPv6Network


class _Awaits(Enum):
    """What the client has begun to send and not finished."""

    HEAD = auto()
    BODY = auto()
    NOTHING = auto()


class _TooLarge(Exception):
    """The head of a request exceeds a limit."""


@dataclass
class Connections:
    """The open connections of one server.

    When there are too many, the oldest connection ends on which nobody has authenticated and no response is due, so
    that unknown clients cannot keep authenticated ones out. If there is none, the owner of the most connections loses
    its oldest one on which no response is due, so that no owner can keep others out.
    """

    connections_max: int
    per_address_max: int
    # Proxies: each has the connections of many clients.
    trusted: tuple[Network, ...] = ()
    _open: dict["BoundedProtocol", None] = field(default_factory=dict)
    # By owner, oldest first. The owner of connections on which nobody has authenticated is None.
    _of_owner: dict[Hashable, dict["BoundedProtocol", None]] = field(default_factory=dict)
    _by_address: Counter[str] = field(default_factory=Counter)

    def admit(self, connection: "BoundedProtocol") -> bool:
        """Whether there is room for a new connection."""
        address = connection.address
        if self._by_address[address] >= self.per_address_max and not self._is_trusted(address):
            return False
        if len(self._open) >= self.connections_max:
            oldest = self._oldest_idle(self._of_owner.get(None, {})) or self._oldest_idle(self._most())
            if oldest is None:
                return False
            self.forget(oldest)
            oldest.abort()
        self._open[connection] = None
        self._of_owner.setdefault(None, {})[connection] = None
        self._by_address[address] += 1
        return True

    def authenticated(self, connection: "BoundedProtocol", owner: Hashable) -> None:
        if connection in self._open and connection.owner != owner:
            self._leave_owner(connection)
            connection.owner = owner
            self._of_owner.setdefault(owner, {})[connection] = None

    def _leave_owner(self, connection: "BoundedProtocol") -> None:
        same = self._of_owner[connection.owner]
        del same[connection]
        if not same:
            del self._of_owner[connection.owner]

    def _most(self) -> Iterable["BoundedProtocol"]:
        """The connections of the known owner that has the most; none if no owner has two."""
        most = max((held for owner, held in self._of_owner.items() if owner is not None), key=len, default={})
        return most if len(most) > 1 else ()

    @staticmethod
    def _oldest_idle(connections: Iterable["BoundedProtocol"]) -> "BoundedProtocol | None":
        return next((each for each in connections if not each.is_answering), None)

    def forget(self, connection: "BoundedProtocol") -> None:
        if connection not in self._open:
            return
        del self._open[connection]
        self._leave_owner(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    def end_late(self, now: float) -> None:
        """End connections whose client has not finished a head or a body in time."""
        for connection in list(self._open):
            connection.end_if_late(now)

    def _is_trusted(self, address: str) -> bool:
        return any(ip_address(address) in network for network in self.trusted) if address else False


class _DelayedTransport:
    """What a response is written to that is sent later: it keeps the bytes, and nothing of the request."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._written = bytearray()

    def write(self, data: bytes) -> None:
        self._written += data

    def close(self) -> None:
        """The response is complete."""
        asyncio.get_running_loop().call_later(self._seconds, self._send)

    def _send(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._written)
            self._transport.close()


class WebSocket(Protocol):
    """What a connection becomes by an upgrade."""

    def upgraded_from(self, connection: "BoundedProtocol") -> None:
        """`connection` counts until this one is lost."""


class BoundedProtocol(HttpToolsProtocol):
    """Passes each request's connection to the application."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        among: Connections | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._among = among
        # Who authenticated last on this connection.
        self.owner: Hashable = None
        self._awaits = _Awaits.HEAD
        self._since = self.loop.time()
        # Bytes of pieces that did not complete a head, and the sum of its complete lines.
        self._unfinished_bytes = 0
        self._line_bytes = 0
        self._refusal: tuple[int, str] | None = None
        self._is_delayed = False
        self._is_upgraded = False
        self._stalled_at: float | None = None

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._among is not None and not self._among.admit(self):
            self._refuse(503, "too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._among is not None:
            self._among.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._awaits is _Awaits.NOTHING and not self.is_answering:
            self._await_head()
        super().data_received(data)
        if self._awaits is _Awaits.HEAD:
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes > HEAD_BYTES_MAX:
                self._refuse(*_LONG_HEAD)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._awaits is not _Awaits.HEAD:
            self._await_head()
        self.scope["extensions"] = {CONNECTION: {"connection": self}}

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._check(len(self.url) <= URL_BYTES_MAX, _LONG_URL)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._line_bytes += len(name) + len(value)
        self._check(len(self.headers) <= HEADERS_MAX, _MANY_HEADERS)
        self._check(self._line_bytes <= HEAD_BYTES_MAX, _LONG_HEAD)

    def on_headers_complete(self) -> None:
        self._awaits, self._since = _Awaits.BODY, self.loop.time()
        super().on_headers_complete()
        # An upgrade to another protocol has none. Weak, so that a request's memory is free when its response is sent,
        # without the garbage collector.
        if self.cycle is not None:
            self.scope["extensions"][CONNECTION]["cycle"] = weakref.ref(self.cycle)

    def on_message_complete(self) -> None:
        self._awaits = _Awaits.NOTHING
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._is_upgraded, self._awaits = True, _Awaits.NOTHING
        super().handle_websocket_upgrade()
        cast("WebSocket", self.transport.get_protocol()).upgraded_from(self)

    def send_400_response(self, msg: str) -> None:
        """Called by data_received when the parser, or a check above, refuses what was sent."""
        self._refuse(*(self._refusal or (400, msg)))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_at = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_at = None

    def authenticated(self, owner: Hashable) -> None:
        """Keep this connection when those of unknown clients must end."""
        if self._among is not None:
            self._among.authenticated(self, owner)

    def delay_response(self, cycle: RequestResponseCycle, seconds: float) -> None:
        self._is_delayed = True
        # Of what the client sends meanwhile nothing is read.
        self.transport.pause_reading()
        cycle.keep_alive = False
        cycle.transport = _DelayedTransport(self.transport, seconds)  # type: ignore[assignment]

    def on_response_complete(self) -> None:
        if self._is_delayed:
            # The connection may end for a newer one, and the memory of its requests is free.
            self.pipeline.clear()
            self.cycle = None  # type: ignore[assignment]
            self.server_state.total_requests += 1
        else:
            super().on_response_complete()

    def abort(self) -> None:
        """End the connection; unsent data is dropped."""
        self.transport.abort()

    def end_if_late(self, now: float) -> None:
        # While a response is being sent, we do not read the next head.
        if self._awaits is _Awaits.HEAD and now - self._since > HEAD_SECONDS and not self.is_answering:
            self._refuse(408, f"the head of the request did not arrive within {HEAD_SECONDS:g} s")
        is_body_late = self._awaits is _Awaits.BODY and now - self._since > BODY_SECONDS
        if is_body_late or (self._stalled_at is not None and now - self._stalled_at > READ_SECONDS):
            self.abort()

    @property
    def is_answering(self) -> bool:
        if self._is_upgraded:
            # A WebSocket whose client is known.
            return self.owner is not None
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        self._awaits, self._since = _Awaits.HEAD, self.loop.time()
        self._unfinished_bytes = self._line_bytes = 0

    def _check(self, is_within: bool, refusal: tuple[int, str]) -> None:
        if not is_within:
            self._refusal = refusal
            # The parser stops, and data_received sends the refusal.
            raise _TooLarge

    def _refuse(self, status: int, message: str) -> None:
        """Send a response without the application and end the connection."""
        if self.transport.is_closing():
            return
        content = message.encode()
        head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(content) + content)
        self.transport.close()


def keep_connection(scope: Mapping[str, Any], owner: Hashable) -> None:
    """The caller of a request is authenticated: its connection ends for newer ones only if its owner has the most."""
    if connection := _connection_of(scope):
        connection.authenticated(owner)


def delay_response(scope: Mapping[str, Any], seconds: float) -> None:
    """Send the response, which must be short, so much later, and end the connection after it."""
    if connection := _connection_of(scope):
        cycle = scope["extensions"][CONNECTION]["cycle"]()
        assert cycle is not None, "a request that is being answered is in memory"
        connection.delay_response(cycle, seconds)


def cut_connection(scope: Mapping[str, Any]) -> None:
    """Abort the connection; unsent data is dropped."""
    if connection := _connection_of(scope):
        connection.abort()


def _connection_of(scope: Mapping[str, Any]) -> BoundedProtocol | None:
    """None without a socket, as in a test client."""
    extensions = scope.get("extensions") or {}
    found: BoundedProtocol | None = extensions.get(CONNECTION, {}).get("connection")
    return found

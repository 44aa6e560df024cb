"""The trade update stream of one account: reconnects, converts updates to reports, and looks up orders whose update
cannot be read.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from openbell_server.application.ports.broker import LOOK_UP_ERRORS, FeedItem
from openbell_server.brokers.alpaca.account import AlpacaAccount
from openbell_server.brokers.alpaca.chains import executions_of, order_report
from openbell_server.brokers.alpaca.look_ups import chain_of, look_at
from openbell_server.brokers.alpaca.wire import Authorization, Listening, NamingUpdate, StreamMessage, TradeUpdate
from openbell_server.brokers.http_client import UnreadableAnswer, decoded, describe_error
from openbell_server.domain.orders.broker_reports import OrderReport

MESSAGE_BYTES_MAX: Final = 1_000_000
OPEN_SECONDS: Final = 3.0
# A peer that answers no ping for this long is disconnected; without orders the stream is silent for hours, so silence
# alone proves nothing.
PING_SECONDS: Final = 10.0
RECONNECT_SECONDS_MIN: Final = 0.05
RECONNECT_SECONDS_MAX: Final = 5.0
# Limit of other messages while waiting for the answers to sign-in and subscription.
BEGIN_MESSAGES_MAX: Final = 100

_UPDATES: Final = "trade_updates"
_FILLS: Final = frozenset({"fill", "partial_fill"})
# Updates that contain the complete state of the order. For any other event, such as a refused change, the order is
# looked up.
_PLAIN: Final = _FILLS | {
    "accepted",
    "new",
    "pending_new",
    "pending_cancel",
    "pending_replace",
    "canceled",
    "expired",
    "done_for_day",
    "replaced",
    "rejected",
    "stopped",
    "suspended",
    "calculated",
    "held",
}


class StreamAuthFailed(Exception):
    """The stream rejects the key or does not offer order updates."""


class _NoRedirectConnect(connect):
    """A connection that follows no redirect, because the key is sent over it."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _AbortOnProtocolError(ClientConnection):
    """Aborts on a protocol error or an oversized message; otherwise the rest would be read to its end."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.protocol.parser_exc is not None or self.protocol.handshake_exc is not None:
            self.transport.abort()


@dataclass(slots=True)
class AccountStream:
    """One account's stream; it reconnects until it is cancelled."""

    account: AlpacaAccount
    # Waits while the reader is behind.
    publish: Callable[[FeedItem], Awaitable[None]]
    is_connected: bool = False
    is_announced: bool = False
    _log: FilteringBoundLogger = field(default_factory=structlog.get_logger)

    async def run(self) -> None:
        pause = RECONNECT_SECONDS_MIN
        while True:
            try:
                async with self._connect() as connection:
                    await self._begin(connection)
                    pause = RECONNECT_SECONDS_MIN
                    self.is_connected = True
                    await self.publish((self.account.account_id, None))
                    async for message in connection:
                        await self._receive(message)
            except (WebSocketException, OSError, TimeoutError, UnreadableAnswer, StreamAuthFailed) as trouble:
                self._warn("broker_feed_broken", describe_error(trouble))
            finally:
                self.is_connected = self.is_announced = False
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_SECONDS_MAX)

    def _connect(self) -> connect:
        return _NoRedirectConnect(
            self.account.host.stream,
            compression=None,
            proxy=None,
            open_timeout=OPEN_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            close_timeout=1,
            max_size=MESSAGE_BYTES_MAX,
            create_connection=_AbortOnProtocolError,
        )

    async def _begin(self, connection: ClientConnection) -> None:
        """Sign in and subscribe to order updates; raises StreamAuthFailed unless both are granted."""
        secrets = self.account.secrets
        async with asyncio.timeout(OPEN_SECONDS):
            key = {"key_id": secrets["key_id"], "secret_key": secrets["secret"]}
            await connection.send(json.dumps({"action": "authenticate", "data": key}))
            granted = decoded(await _answer(connection, "authorization"), Authorization)
            if granted.status != "authorized":
                raise StreamAuthFailed("the stream rejected the key")
            await connection.send(json.dumps({"action": "listen", "data": {"streams": [_UPDATES]}}))
            listening = decoded(await _answer(connection, "listening"), Listening)
            if _UPDATES not in listening.streams:
                raise StreamAuthFailed(f"the stream does not offer {_UPDATES}")

    async def _receive(self, message: str | bytes) -> None:
        """Publish the report of one message; after one that cannot be processed, publish a gap, so that the account is
        reconciled.
        """
        try:
            report = await self._report(message)
        except LOOK_UP_ERRORS as trouble:
            self._warn("broker_update_not_processed", describe_error(trouble))
            await self.publish((self.account.account_id, None))
        else:
            if report is not None:
                await self.publish((self.account.account_id, report))

    async def _report(self, message: str | bytes) -> OrderReport | None:
        envelope = decoded(message, StreamMessage)
        if envelope.stream != _UPDATES:
            return None
        try:
            update = decoded(envelope.data, TradeUpdate)
        except UnreadableAnswer as trouble:
            self._warn("broker_update_unreadable", describe_error(trouble))
            named = decoded(envelope.data, NamingUpdate)
            return await look_at(self.account, named.order.id)
        return await self._report_of(update)

    async def _report_of(self, update: TradeUpdate) -> OrderReport | None:
        order, places = update.order, self.account.places
        executions = executions_of(update) if update.event in _FILLS else []
        is_plain = update.event in _PLAIN and bool(executions) == (update.event in _FILLS)
        # A refused replacement leaves the original order in force, perhaps with fills.
        if not is_plain or (update.event == "rejected" and order.replaces is not None):
            return await look_at(self.account, order.id)
        place = places.of(order)
        if place is None:
            await chain_of(self.account, order)
            place = places.of(order)
        if place is None or not place.position:
            # The replacement is not in force yet, so the original order still counts.
            return None
        places.notify(order, place)
        return order_report(order, place, executions)

    def _warn(self, event: str, why: str) -> None:
        self._log.warning(event, broker="alpaca", account_id=str(self.account.account_id), why=why)


async def _answer(connection: ClientConnection, stream: str) -> msgspec.Raw:
    """The data of the first message of this stream; skips other messages."""
    for _ in range(BEGIN_MESSAGES_MAX):
        message = await connection.recv()
        with suppress(UnreadableAnswer):
            envelope = decoded(message, StreamMessage)
            if envelope.stream == stream:
                return envelope.data
    raise StreamAuthFailed(f"the stream sent no {stream} message within {BEGIN_MESSAGES_MAX} messages")

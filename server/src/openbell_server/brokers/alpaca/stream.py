"""The stream of one account: kept open, every update told in our words, one that cannot be read asked for."""

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

from openbell_server.application.ports.broker import FeedItem
from openbell_server.brokers.alpaca.account import AlpacaAccount
from openbell_server.brokers.alpaca.chains import executions_of, told
from openbell_server.brokers.alpaca.look_ups import NOT_TOLD, chain_of, look_at
from openbell_server.brokers.alpaca.wire import (
    Authorization,
    Listening,
    NamingUpdate,
    StreamMessage,
    TradeUpdate,
)
from openbell_server.brokers.http_client import UnreadableAnswer, decoded, said
from openbell_server.domain.broker_orders import OrderReport

MESSAGE_BYTES_MAX: Final = 1_000_000
OPEN_SECONDS: Final = 3.0
# A peer that answers no ping for this long is gone; a stream without orders says nothing else for hours.
PING_SECONDS: Final = 10.0
RECONNECT_SECONDS_MIN: Final = 0.05
RECONNECT_SECONDS_MAX: Final = 5.0
# What came before the stream began, or in its beginning, is not waited for longer than this.
BEGIN_MESSAGES_MAX: Final = 100

_UPDATES: Final = "trade_updates"
_FILLS: Final = frozenset({"fill", "partial_fill"})
# Updates whose order says it all. Of any other, as of a change that was refused, the order is asked for.
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


class NotLetIn(Exception):
    """The stream does not take the key, or does not tell of orders."""


class _Straight(connect):
    """A connection to this address and to no other: the key is sent over it."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Nowhere else."""
        return exc


class _Impatient(ClientConnection):
    """Left at once when it says nonsense or too much: what follows would be read to its end otherwise."""

    def data_received(self, data: bytes) -> None:
        """Some bytes."""
        super().data_received(data)
        if self.protocol.parser_exc is not None or self.protocol.handshake_exc is not None:
            self.transport.abort()


@dataclass(slots=True)
class AccountStream:
    """One account's stream: it connects again by itself until it is cancelled."""

    account: AlpacaAccount
    # Waits while whoever listens is behind.
    tell: Callable[[FeedItem], Awaitable[None]]
    is_connected: bool = False
    is_heard: bool = False
    _log: FilteringBoundLogger = field(default_factory=structlog.get_logger)

    async def run(self) -> None:
        """Listen for as long as somebody does."""
        pause = RECONNECT_SECONDS_MIN
        while True:
            try:
                async with self._connect() as connection:
                    await self._begin(connection)
                    pause = RECONNECT_SECONDS_MIN
                    self.is_connected = True
                    await self.tell((self.account.account_id, None))
                    async for message in connection:
                        await self._hear(message)
            except (WebSocketException, OSError, TimeoutError, UnreadableAnswer, NotLetIn) as trouble:
                self._warn("broker_feed_broken", said(trouble))
            finally:
                self.is_connected = self.is_heard = False
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_SECONDS_MAX)

    def _connect(self) -> connect:
        return _Straight(
            self.account.host.stream,
            compression=None,
            proxy=None,
            open_timeout=OPEN_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            close_timeout=1,
            max_size=MESSAGE_BYTES_MAX,
            create_connection=_Impatient,
        )

    async def _begin(self, connection: ClientConnection) -> None:
        """Sign in and ask for updates; raises unless both are granted."""
        secrets = self.account.secrets
        async with asyncio.timeout(OPEN_SECONDS):
            key = {"key_id": secrets["key_id"], "secret_key": secrets["secret"]}
            await connection.send(json.dumps({"action": "authenticate", "data": key}))
            granted = decoded(await _answer(connection, "authorization"), Authorization)
            if granted.status != "authorized":
                raise NotLetIn("the stream does not take the key")
            await connection.send(json.dumps({"action": "listen", "data": {"streams": [_UPDATES]}}))
            listening = decoded(await _answer(connection, "listening"), Listening)
            if _UPDATES not in listening.streams:
                raise NotLetIn("the stream does not tell of orders")

    async def _hear(self, message: str | bytes) -> None:
        """Tell what one message says; what cannot be told is a gap, after which the account is compared anew."""
        try:
            report = await self._report(message)
        except NOT_TOLD as trouble:
            self._warn("broker_update_not_told", said(trouble))
            await self.tell((self.account.account_id, None))
        else:
            if report is not None:
                await self.tell((self.account.account_id, report))

    async def _report(self, message: str | bytes) -> OrderReport | None:
        told_by = decoded(message, StreamMessage)
        if told_by.stream != _UPDATES:
            return None
        try:
            update = decoded(told_by.data, TradeUpdate)
        except UnreadableAnswer as trouble:
            self._warn("broker_update_unreadable", said(trouble))
            named = decoded(told_by.data, NamingUpdate)
            return await look_at(self.account, named.order.id)
        return await self._told(update)

    async def _told(self, update: TradeUpdate) -> OrderReport | None:
        order, places = update.order, self.account.places
        executions = executions_of(update) if update.event in _FILLS else []
        is_plain = update.event in _PLAIN and bool(executions) == (update.event in _FILLS)
        # A replacement that is refused leaves what it should replace as it was, with fills perhaps.
        if not is_plain or (update.event == "rejected" and order.replaces is not None):
            return await look_at(self.account, order.id)
        place = places.of(order)
        if place is None:
            await chain_of(self.account, order)
            place = places.of(order)
        if place is None or not place.position:
            # What it shall replace still counts.
            return None
        places.hear(order, place)
        return told(order, place, executions)

    def _warn(self, event: str, why: str) -> None:
        self._log.warning(event, broker="alpaca", account_id=str(self.account.account_id), why=why)


async def _answer(connection: ClientConnection, stream: str) -> msgspec.Raw:
    """What the stream of this name says first; others are passed over."""
    for _ in range(BEGIN_MESSAGES_MAX):
        message = await connection.recv()
        with suppress(UnreadableAnswer):
            told_by = decoded(message, StreamMessage)
            if told_by.stream == stream:
                return told_by.data
    raise NotLetIn(f"the stream says nothing of its {stream}")

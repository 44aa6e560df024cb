"""A NATS connection that reconnects by itself; processes start and run without it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import nats
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from openbell_server.adapters.jetstream import streams, subjects
from openbell_server.domain.identifiers import AccountId

CONNECT_SECONDS: Final = 2.0
RETRY_SECONDS: Final = 0.5


class JetStreamConnection:
    """Implements Hints, all best effort; durable messages are sent by publishing.py.

    All parts of a process share one connection. Without an address it never connects, and nothing is published.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Client | None = None
        self._running: asyncio.Future[None] | None = None
        self._subscriptions: list[tuple[str, Callable[[Msg], Awaitable[None]]]] = []
        # How many of them the client has.
        self._subscribed = 0
        # Number of connects; after each, all knowledge about the server is outdated.
        self.connects = 0
        self._to_wake: dict[str, None] = {}
        self._waking: set[asyncio.Future[None]] = set()

    def on(self, subject: str, call: Callable[[Msg], Awaitable[None]]) -> None:
        """Call for every message on a subject, after each connect; later than that within RETRY_SECONDS."""
        self._subscriptions.append((subject, call))

    @property
    def is_configured(self) -> bool:
        return bool(self._url)

    def start(self) -> None:
        """Connect in the background, and again whenever the connection is lost; once for all parts of a process."""
        if self.is_configured and self._running is None:
            self._running = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                if self._client is None or self._client.is_closed:
                    await self._connect()
                elif self._subscribed < len(self._subscriptions):
                    with contextlib.suppress(NatsError, TimeoutError, OSError):
                        await self._subscribe(self._client)
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            if self._client is not None:
                with contextlib.suppress(NatsError, TimeoutError, asyncio.CancelledError):
                    await asyncio.wait_for(self._client.close(), CONNECT_SECONDS)

    async def _connect(self) -> None:
        client: Client | None = None
        try:
            # connect() to a dead server does not return, so the timeout is ours.
            client = await asyncio.wait_for(
                nats.connect(
                    self._url,
                    connect_timeout=CONNECT_SECONDS,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RETRY_SECONDS,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    error_cb=_log_error,
                    reconnected_cb=self._restore_streams,
                ),
                CONNECT_SECONDS,
            )
            await asyncio.wait_for(streams.ensure(client), CONNECT_SECONDS)
            self._subscribed = 0
            await self._subscribe(client)
            self._client = client
            self.connects += 1
            structlog.get_logger().info("nats_connected")
        except (NatsError, TimeoutError, OSError) as error:
            structlog.get_logger().warning("nats_unreachable", error=repr(error))
            if client is not None:
                with contextlib.suppress(NatsError, TimeoutError):
                    await asyncio.wait_for(client.close(), CONNECT_SECONDS)

    async def _subscribe(self, client: Client) -> None:
        while self._subscribed < len(self._subscriptions):
            subject, call = self._subscriptions[self._subscribed]
            await client.subscribe(subject, cb=call)
            self._subscribed += 1

    async def _restore_streams(self) -> None:
        """A server that lost its disk has lost our streams."""
        self.connects += 1
        if self._client is not None:
            with contextlib.suppress(NatsError, TimeoutError, OSError):
                await streams.ensure(self._client)

    @property
    def client(self) -> Client | None:
        """None while disconnected."""
        return self._client if self._client is not None and self._client.is_connected else None

    def is_reachable(self) -> bool:
        return self.client is not None

    def outbox_has_rows(self) -> None:
        self._wake([subjects.OUTBOX_WAKE])

    def work_was_recorded(self, account_id: AccountId) -> None:
        """Wake the executor that holds the account; the relay also sends a durable message and polls by itself."""
        self._wake([subjects.work_wake(account_id)])

    def events_were_written(self, account_ids: Sequence[AccountId]) -> None:
        self._wake([subjects.event_wake(account_id) for account_id in account_ids])

    def sign_in_was_asked_for(self, account_id: AccountId) -> None:
        self._wake([subjects.sign_in_wake(account_id)])

    def _wake(self, names: Sequence[str]) -> None:
        """Publish at the next iteration of the event loop, each subject once."""
        if self.client is None:
            return
        if not self._to_wake:
            asyncio.get_running_loop().call_soon(self._wake_all)
        self._to_wake.update(dict.fromkeys(names))

    def _wake_all(self) -> None:
        names, self._to_wake, client = [*self._to_wake], {}, self.client
        if client is not None:
            task = asyncio.ensure_future(_publish_quietly(client, names))
            task.add_done_callback(self._waking.discard)
            self._waking.add(task)


async def _publish_quietly(client: Client, names: Sequence[str]) -> None:
    with contextlib.suppress(NatsError, TimeoutError, OSError):
        for name in names:
            await client.publish(name)


async def _log_error(error: Exception) -> None:
    structlog.get_logger().warning("nats_error", error=repr(error))

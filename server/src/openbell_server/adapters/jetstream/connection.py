"""A connection to NATS that may be away: processes start and run without it, and it comes back by itself."""

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
    """Implements Hints, best effort all of it; who tells durably is in publishing.py."""

    def __init__(self, url: str) -> None:
        """Nothing connects until run()."""
        self._url = url
        self._client: Client | None = None
        self._subscriptions: list[tuple[str, Callable[[Msg], Awaitable[None]]]] = []
        # How often a connection was made; whoever knew something of the server knows it no longer.
        self.connects = 0
        self._to_wake: dict[str, None] = {}
        self._waking: set[asyncio.Future[None]] = set()

    def on(self, subject: str, call: Callable[[Msg], Awaitable[None]]) -> None:
        """Call for every message on a subject, after each connect; state these before run()."""
        self._subscriptions.append((subject, call))

    async def run(self) -> None:
        """Keep connected until cancelled."""
        try:
            while True:
                if self._client is None or self._client.is_closed:
                    await self._connect()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            if self._client is not None:
                with contextlib.suppress(NatsError, TimeoutError, asyncio.CancelledError):
                    await asyncio.wait_for(self._client.close(), CONNECT_SECONDS)

    async def _connect(self) -> None:
        client: Client | None = None
        try:
            # connect() to a dead server does not return by itself, so the bound is ours.
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
            for subject, call in self._subscriptions:
                await client.subscribe(subject, cb=call)
            self._client = client
            self.connects += 1
            structlog.get_logger().info("nats_connected")
        except (NatsError, TimeoutError, OSError) as error:
            structlog.get_logger().warning("nats_unreachable", error=repr(error))
            if client is not None:
                with contextlib.suppress(NatsError, TimeoutError):
                    await asyncio.wait_for(client.close(), CONNECT_SECONDS)

    async def _restore_streams(self) -> None:
        """A server that lost its disk comes back without our streams."""
        self.connects += 1
        if self._client is not None:
            with contextlib.suppress(NatsError, TimeoutError, OSError):
                await streams.ensure(self._client)

    @property
    def client(self) -> Client | None:
        """The client, while it is connected."""
        return self._client if self._client is not None and self._client.is_connected else None

    def is_reachable(self) -> bool:
        """Whether a hint has a chance now."""
        return self.client is not None

    def outbox_has_rows(self) -> None:
        """Wake the relay."""
        self._wake([subjects.OUTBOX_WAKE])

    def work_was_recorded(self, account_id: AccountId) -> None:
        """Wake the executor that has the account; the relay, which tells it again, looks by itself."""
        self._wake([subjects.work_wake(account_id)])

    def events_were_written(self, account_ids: Sequence[AccountId]) -> None:
        """Wake whoever follows these accounts."""
        self._wake([subjects.event_wake(account_id) for account_id in account_ids])

    def sign_in_was_asked_for(self, account_id: AccountId) -> None:
        """Wake the executor that has the account."""
        self._wake([subjects.sign_in_wake(account_id)])

    def _wake(self, names: Sequence[str]) -> None:
        """In the next turn of the loop, each name once, however often it was said in this one."""
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

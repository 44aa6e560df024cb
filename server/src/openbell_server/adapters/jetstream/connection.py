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
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NoStreamResponseError, NotFoundError

from openbell_server.adapters.jetstream import subjects
from openbell_server.domain.identifiers import AccountId

CONNECT_SECONDS: Final = 2.0
RETRY_SECONDS: Final = 0.5
PUBLISH_SECONDS: Final = 2.0
DUPLICATE_WINDOW_SECONDS: Final = 600.0
WORK_BYTES_MAX: Final = 64 * 1024 * 1024
USER_BYTES_MAX: Final = 16 * 1024 * 1024


class JetStreamConnection:
    """Implements Hints, WorkQueue and EventQueue; all it does is best effort but publishing, which tells the truth."""

    def __init__(self, url: str) -> None:
        """Nothing connects until run()."""
        self._url = url
        self._client: Client | None = None
        self._subscriptions: list[tuple[str, Callable[[Msg], Awaitable[None]]]] = []

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
            await asyncio.wait_for(_ensure_streams(client), CONNECT_SECONDS)
            for subject, call in self._subscriptions:
                await client.subscribe(subject, cb=call)
            self._client = client
            structlog.get_logger().info("nats_connected")
        except (NatsError, TimeoutError, OSError) as error:
            structlog.get_logger().warning("nats_unreachable", error=repr(error))
            if client is not None:
                with contextlib.suppress(NatsError, TimeoutError):
                    await asyncio.wait_for(client.close(), CONNECT_SECONDS)

    async def _restore_streams(self) -> None:
        """A server that lost its disk comes back without our streams."""
        if self._client is not None:
            with contextlib.suppress(NatsError, TimeoutError, OSError):
                await _ensure_streams(self._client)

    @property
    def client(self) -> Client | None:
        """The client, while it is connected."""
        return self._client if self._client is not None and self._client.is_connected else None

    def is_reachable(self) -> bool:
        """Whether a publish has a chance now."""
        return self.client is not None

    async def publish_work(self, slot: int, account_id: AccountId, message_id: str) -> None:
        """Say, durably, that the account has work; the message id lets JetStream drop most copies."""
        await self._publish(subjects.work(slot, account_id), b"", message_id)

    async def publish_user_event(self, event_type: str, payload: str, message_id: str) -> None:
        """Tell, durably, what became of a user."""
        await self._publish(subjects.user_event(event_type), payload.encode(), message_id)

    async def _publish(self, subject: str, body: bytes, message_id: str) -> None:
        client = self.client
        if client is None:
            raise ConnectionError("NATS is not connected")
        try:
            await client.jetstream(timeout=PUBLISH_SECONDS).publish(
                subject, body, timeout=PUBLISH_SECONDS, headers={"Nats-Msg-Id": message_id}
            )
        except NoStreamResponseError:
            await self._restore_streams()
            raise

    def outbox_has_rows(self) -> None:
        """Wake the relay."""
        self._wake([subjects.OUTBOX_WAKE])

    def events_were_written(self, account_ids: Sequence[AccountId]) -> None:
        """Wake whoever follows these accounts."""
        self._wake([subjects.event_wake(account_id) for account_id in account_ids])

    def work_is_elsewhere(self, account_id: AccountId) -> None:
        """Pass on a notice about an account that another executor works."""
        self._wake([subjects.work_wake(account_id)])

    def _wake(self, names: Sequence[str]) -> None:
        client = self.client
        if client is not None:
            task = asyncio.ensure_future(_publish_quietly(client, names))
            task.add_done_callback(_forget)
            _waking.add(task)


_waking: set[asyncio.Future[None]] = set()


def _forget(task: asyncio.Future[None]) -> None:
    _waking.discard(task)


async def _publish_quietly(client: Client, names: Sequence[str]) -> None:
    with contextlib.suppress(NatsError, TimeoutError, OSError):
        for name in names:
            await client.publish(name)


async def _log_error(error: Exception) -> None:
    structlog.get_logger().warning("nats_error", error=repr(error))


_STREAMS: Final = (
    StreamConfig(
        name=subjects.WORK_STREAM,
        subjects=[subjects.ALL_WORK],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        discard=DiscardPolicy.NEW,
        max_bytes=WORK_BYTES_MAX,
        # nats-py takes seconds here and converts.
        duplicate_window=DUPLICATE_WINDOW_SECONDS,
    ),
    # Nobody has to read it, so the oldest make room.
    StreamConfig(
        name=subjects.USER_STREAM,
        subjects=[subjects.ALL_USER_EVENTS],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        max_bytes=USER_BYTES_MAX,
        duplicate_window=DUPLICATE_WINDOW_SECONDS,
    ),
)


async def _ensure_streams(client: Client) -> None:
    """Our streams; called at every connect, since a wiped server has none."""
    jetstream = client.jetstream(timeout=PUBLISH_SECONDS)
    for stream in _STREAMS:
        # Asked first: adding it again would need its whole reserved space a second time.
        try:
            await jetstream.stream_info(str(stream.name))
        except NotFoundError:
            await jetstream.add_stream(stream)

"""Consumes the work queue; recreates a silent subscription, because some do not recover after a server restart."""

import asyncio
import contextlib
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

import structlog
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.domain.identifiers import AccountId

FETCH_MESSAGES_MAX: Final = 100
FETCH_SECONDS: Final = 1.0
SILENT_FETCHES_MAX: Final = 10
RETRY_SECONDS: Final = 0.25


class ReceiveWork(Protocol):
    """Called for every work message."""

    def __call__(self, slot: int, account_id: AccountId, recorded_at: datetime | None) -> None:
        """recorded_at is the time of the newest command, None if the message has none."""


async def consume_work(connection: JetStreamConnection, notify: ReceiveWork) -> None:
    """Call notify for all work until cancelled; each message is acknowledged at once."""
    this = asyncio.current_task()
    # The client replaces a cancellation by its own error if its connection closes meanwhile.
    while this is not None and not this.cancelling():
        try:
            await _consume_while_alive(connection, notify)
        except (NatsError, TimeoutError, OSError) as error:
            structlog.get_logger().debug("work_queue_unreachable", error=repr(error))
        await asyncio.sleep(RETRY_SECONDS)


async def _consume_while_alive(connection: JetStreamConnection, notify: ReceiveWork) -> None:
    client = connection.client
    if client is None:
        return
    subscription = await client.jetstream(timeout=FETCH_SECONDS).pull_subscribe(
        subjects.ALL_WORK,
        durable=subjects.WORK_CONSUMER,
        stream=subjects.WORK_STREAM,
        # JetStream never gives up: attempts are counted in PostgreSQL.
        config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=30, max_deliver=-1, max_ack_pending=1000),
    )
    try:
        silent = 0
        while silent < SILENT_FETCHES_MAX and connection.client is client:
            try:
                messages = await subscription.fetch(FETCH_MESSAGES_MAX, timeout=FETCH_SECONDS)
            except TimeoutError:
                silent += 1
                continue
            silent = 0
            for message in messages:
                with contextlib.suppress(ValueError):
                    _, slot, account_id = message.subject.split(".")
                    notify(int(slot), AccountId(UUID(account_id)), _moment(message.data))
                await message.ack()
    finally:
        with contextlib.suppress(NatsError, TimeoutError, OSError):
            await subscription.unsubscribe()


def _moment(body: bytes) -> datetime | None:
    """None for a message without a time, from an older relay."""
    return datetime.fromisoformat(body.decode()) if body else None

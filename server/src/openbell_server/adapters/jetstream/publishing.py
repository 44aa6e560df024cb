"""Publishes outbox rows of a queue on its stream: in atomic batches where possible, else one by one."""

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import structlog
from nats.aio.client import Client
from nats.errors import BadSubjectError, MaxPayloadError
from nats.errors import Error as NatsError
from nats.js.errors import APIError

from openbell_server.adapters.jetstream import streams, subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.application.events.relay_outbox import Published
from openbell_server.domain.events.outbox import ClaimedRow

PUBLISH_SECONDS: Final = 2.0
# JetStream's code for an invalid message, which would fail again.
_BAD_REQUEST: Final = 400


@dataclass(frozen=True, slots=True)
class Message:
    """A message for one or more rows; the id allows JetStream to drop most duplicates."""

    subject: str
    body: bytes
    message_id: str
    in_order_of: str
    outbox_ids: tuple[int, ...]
    # It may have been published before: JetStream refuses a whole batch that contains a duplicate.
    is_repeated: bool


Messages = Callable[[Sequence[ClaimedRow]], list[Message]]


def work_messages(rows: Sequence[ClaimedRow]) -> list[Message]:
    """One message per account, with the time of its newest command."""
    by_account: defaultdict[str, list[ClaimedRow]] = defaultdict(list)
    for row in rows:
        by_account[row.in_order_of].append(row)
    return [
        Message(
            subjects.work(some[-1].slot, account_id),
            _latest(some),
            str(some[-1].outbox_id),
            account_id,
            tuple(row.outbox_id for row in some),
            any(row.attempts > 1 for row in some),
        )
        for account_id, some in by_account.items()
    ]


def _latest(rows: Sequence[ClaimedRow]) -> bytes:
    recorded = [row.recorded_at for row in rows if row.recorded_at is not None]
    return max(recorded).isoformat().encode() if recorded else b""


def account_messages(rows: Sequence[ClaimedRow]) -> list[Message]:
    return [_event(subjects.account_event(row.event_type), row) for row in rows]


def user_messages(rows: Sequence[ClaimedRow]) -> list[Message]:
    return [_event(subjects.user_event(row.event_type), row) for row in rows]


def _event(subject: str, row: ClaimedRow) -> Message:
    body = row.payload.encode()
    # Different rows may have the same body, and a restored database reuses row numbers, so the id covers both.
    message_id = hashlib.sha256(f"{row.outbox_id} {subject} ".encode() + body).hexdigest()
    return Message(subject, body, message_id, row.in_order_of, (row.outbox_id,), row.attempts > 1)


class _RefusedError(Exception):
    """JetStream refused a whole batch."""


@dataclass(slots=True)
class JetStreamPublisher:
    """Implements Publisher on one stream."""

    connection: JetStreamConnection
    stream: str
    messages: Messages
    # The connect since which every publish was answered; None after one without an answer.
    _trusted: int | None = None
    _takes_batches: bool = False

    async def is_ready(self) -> bool:
        """Whether publishing can succeed now; queries the stream after a connect and after a missing answer."""
        client, connects = self.connection.client, self.connection.connects
        if client is None:
            return False
        if self._trusted != connects:
            try:
                standing = await streams.ensure_stream(client, self.stream)
            except (NatsError, TimeoutError, OSError) as error:
                structlog.get_logger().debug("stream_away", stream=self.stream, error=repr(error))
                return False
            if not standing.has_room:
                return False
            self._trusted, self._takes_batches = connects, standing.takes_batches
            structlog.get_logger().info("stream_ready", stream=self.stream)
        return True

    async def publish(self, rows: Sequence[ClaimedRow], is_late: Callable[[], bool]) -> Published:
        """Publish the rows, those of one account or user in order; possible duplicates are published one by one."""
        client = self.connection.client
        if client is None:
            return Published(frozenset(), frozenset(row.outbox_id for row in rows))
        round_ = _PublishRound(client, is_late, asyncio.get_running_loop().time() + PUBLISH_SECONDS)
        lines: defaultdict[str, list[Message]] = defaultdict(list)
        for message in self.messages(rows):
            lines[message.in_order_of].append(message)
        fresh: list[list[Message]] = []
        single: list[list[Message]] = []
        for line in lines.values():
            (single if any(message.is_repeated for message in line) else fresh).append(line)
        if not self._takes_batches or sum(map(len, fresh)) == 1:
            single, fresh = single + fresh, []
        await asyncio.gather(round_.together(fresh), *(round_.one_by_one(line) for line in single))
        if round_.unanswered:
            self._trusted = None
            structlog.get_logger().warning("stream_unsure", stream=self.stream, error=round_.unanswered)
        return Published(frozenset(round_.confirmed), frozenset(round_.missed))


class NoPublisher:
    """Implements Publisher where no NATS is configured: nobody receives messages, so every row is confirmed."""

    async def is_ready(self) -> bool:
        return True

    async def publish(self, rows: Sequence[ClaimedRow], _: Callable[[], bool]) -> Published:
        return Published(frozenset(row.outbox_id for row in rows), frozenset())


@dataclass(slots=True)
class _PublishRound:
    """One publishing round and its results."""

    client: Client
    is_late: Callable[[], bool]
    deadline: float
    confirmed: set[int] = field(default_factory=set)
    missed: set[int] = field(default_factory=set)
    # The last error without an answer.
    unanswered: str = ""

    async def together(self, lines: Sequence[Sequence[Message]]) -> None:
        """Publish atomically; if JetStream refuses the batch, publish one by one, so that one bad message does not
        affect others.
        """
        batch = [message for line in lines for message in line]
        if not batch:
            return
        try:
            await self._publish_batch(batch)
        except (_RefusedError, MaxPayloadError, BadSubjectError):
            await asyncio.gather(*(self.one_by_one(line) for line in lines))
        except (NatsError, TimeoutError, OSError, ValueError) as error:
            self.unanswered = repr(error)
            self.missed.update(number for message in batch for number in message.outbox_ids)
        else:
            self.confirmed.update(number for message in batch for number in message.outbox_ids)

    async def one_by_one(self, line: Sequence[Message]) -> None:
        """Publish in order until one is not confirmed."""
        for message in line:
            if self.is_late() or self._seconds_left() <= 0:
                return
            try:
                await self.client.jetstream().publish(
                    message.subject,
                    message.body,
                    timeout=self._seconds_left(),
                    headers={"Nats-Msg-Id": message.message_id},
                )
            except (NatsError, TimeoutError, OSError, ValueError) as error:
                if not _is_invalid_message(error):
                    self.unanswered = repr(error)
                self.missed.update(message.outbox_ids)
                return
            self.confirmed.update(message.outbox_ids)

    async def _publish_batch(self, batch: Sequence[Message]) -> None:
        """The last message commits the batch, and only its answer counts."""
        batch_id = uuid4().hex
        for place, message in enumerate(batch, 1):
            headers = {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(place), "Nats-Msg-Id": message.message_id}
            if place < len(batch):
                await self.client.publish(message.subject, message.body, headers=headers)
                continue
            headers["Nats-Batch-Commit"] = "1"
            reply = await self.client.request(
                message.subject, message.body, timeout=max(0.001, self._seconds_left()), headers=headers
            )
            if "error" in json.loads(reply.data):
                raise _RefusedError

    def _seconds_left(self) -> float:
        return self.deadline - asyncio.get_running_loop().time()


def _is_invalid_message(error: Exception) -> bool:
    """True if the message itself is invalid; false if JetStream is unavailable or full."""
    if isinstance(error, APIError):
        return error.code == _BAD_REQUEST
    return isinstance(error, MaxPayloadError | BadSubjectError)

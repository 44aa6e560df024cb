"""Telling through a real JetStream: many at once, one by one where it must be, and not at all while it is away."""

import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from nats.js.client import JetStreamContext

from openbell_server.adapters.jetstream import streams, subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.publishing import JetStreamPublisher, account_messages, work_messages
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.events.relay_outbox import RelayBatch, RelayOutbox
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.events.outbox import ClaimedRow, Queue
from support.brokers.execution_harness import Clock
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import until_so
from support.tenancy.outbox_queues import Outbox


@dataclass(frozen=True, slots=True)
class Telling:
    """The accounts' queue and the stream on which it is told."""

    connection: JetStreamConnection
    outbox: Outbox
    teller: JetStreamPublisher

    @property
    def jetstream(self) -> JetStreamContext:
        assert self.connection.client is not None
        return self.connection.client.jetstream()

    def relay(self) -> RelayOutbox:
        return RelayOutbox(self.outbox.store, self.teller, lambda: 0.0, Clock())

    async def config(self, stream: str = subjects.ACCOUNT_STREAM) -> dict[str, Any]:
        assert self.connection.client is not None
        reply = await self.connection.client.request(f"$JS.API.STREAM.INFO.{stream}")
        config: dict[str, Any] = json.loads(reply.data)["config"]
        return config

    async def make(self, config: dict[str, Any]) -> None:
        """As an earlier version would have made the stream."""
        assert self.connection.client is not None
        await self.jetstream.delete_stream(config["name"])
        await self.connection.client.request(f"$JS.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode())

    async def told(self) -> list[tuple[str, int]]:
        """Account and number of every message, in the order of the stream."""
        last = (await self.jetstream.stream_info(subjects.ACCOUNT_STREAM)).state.last_seq
        messages = [await self.jetstream.get_msg(subjects.ACCOUNT_STREAM, number) for number in range(1, last + 1)]
        said = [json.loads(message.data or b"") for message in messages]
        return [(each["account_id"], each["n"]) for each in said]


@pytest.fixture
async def telling(pool: Pool, services: LocalServices) -> AsyncIterator[Telling]:
    connection = JetStreamConnection(services.nats.url)
    connection.start()
    await until_so(connection.is_reachable)
    teller = JetStreamPublisher(connection, subjects.ACCOUNT_STREAM, account_messages)
    made = Telling(connection, Outbox(pool, Queue.ACCOUNTS), teller)
    await made.make(streams.STREAMS[subjects.ACCOUNT_STREAM])
    yield made
    await made.make(streams.STREAMS[subjects.ACCOUNT_STREAM])
    await connection.close()


def in_order(numbers: int, *owners: str) -> list[tuple[str, int]]:
    return [(owner, number) for owner in owners for number in range(1, numbers + 1)]


async def test_rows_are_told_in_one_batch_and_in_order(telling: Telling) -> None:
    owners = [await telling.outbox.fill(20) for _ in range(3)]
    assert await telling.relay()() == RelayBatch(60, 60, 0)
    assert await telling.told() == in_order(20, *owners)
    stored = await telling.jetstream.get_msg(subjects.ACCOUNT_STREAM, 60)
    assert (stored.headers or {})["Nats-Batch-Sequence"] == "60"
    assert stored.subject == "accounts.account.updated"


async def test_a_batch_that_was_told_before_is_told_one_by_one_and_stored_once(telling: Telling) -> None:
    owners = [await telling.outbox.fill(3) for _ in range(2)]
    held = await telling.outbox.claim()
    await telling.teller.is_ready()
    for _ in range(2):
        told = await telling.teller.publish(held, lambda: False)
        assert told.confirmed == {row.outbox_id for row in held}
    assert await telling.told() == in_order(3, *owners)


async def test_events_that_say_the_same_words_are_all_told(telling: Telling) -> None:
    """A credential that is set, found good and removed has one version: each row's payload is that of the others."""
    events = ("credential.created", "credential.updated", "credential.updated", "credential.deleted")
    await telling.outbox.fill(len(events))
    for outbox_id, event_type in zip(await telling.outbox.ids(), events, strict=True):
        await telling.outbox.pool.execute(
            "update account_outbox set event_type = $1, payload = '{\"version\": 1}' where outbox_id = $2",
            event_type,
            outbox_id,
        )
    assert (await telling.relay()()).completed == len(events)
    stored = [await telling.jetstream.get_msg(subjects.ACCOUNT_STREAM, number) for number in range(1, len(events) + 1)]
    assert [message.subject for message in stored] == [f"accounts.{event_type}" for event_type in events]


async def test_a_row_too_large_for_the_stream_is_missed_alone_with_those_behind_it(telling: Telling) -> None:
    good, bad = [await telling.outbox.fill(3) for _ in range(2)]
    ids = await telling.outbox.ids()
    large = json.dumps({"padding": "x" * streams.MESSAGE_BYTES_MAX})
    await telling.outbox.pool.execute("update account_outbox set payload = $1 where outbox_id = $2", large, ids[4])
    assert await telling.relay()() == RelayBatch(6, 4, 2)
    assert sorted(await telling.told()) == sorted([*in_order(3, good), (bad, 1)])
    assert [row["attempts"] for row in await telling.outbox.rows()] == [1, 1, 1, 1, 1, 0]
    # What is wrong with a row says nothing of JetStream.
    assert await telling.teller.is_ready()


async def test_more_than_the_server_takes_at_all_is_a_row_s_own_fault(telling: Telling) -> None:
    await telling.outbox.fill(1)
    await telling.outbox.fill(1)
    ids = await telling.outbox.ids()
    huge = json.dumps({"padding": "x" * 2**21})
    await telling.outbox.pool.execute("update account_outbox set payload = $1 where outbox_id = $2", huge, ids[0])
    assert await telling.relay()() == RelayBatch(2, 1, 1)
    assert await telling.outbox.statuses() == ["pending", "completed"]


async def test_without_batches_rows_are_told_one_by_one_in_order(telling: Telling) -> None:
    owners = [await telling.outbox.fill(5) for _ in range(2)]
    rows = await telling.outbox.claim()
    assert not telling.teller._takes_batches
    assert len((await telling.teller.publish(rows, lambda: False)).confirmed) == 10
    told = await telling.told()
    assert [[each for each in told if each[0] == owner] for owner in owners] == [in_order(5, owner) for owner in owners]


async def test_nothing_more_is_told_once_it_is_late(telling: Telling) -> None:
    await telling.outbox.fill(5)
    late = iter([False, False, True])
    told = await telling.teller.publish(await telling.outbox.claim(), lambda: next(late))
    assert (len(told.confirmed), told.missed) == (2, frozenset())


async def test_a_stream_of_an_earlier_version_is_brought_up_to_date_and_keeps_the_rest(telling: Telling) -> None:
    ours = streams.STREAMS[subjects.ACCOUNT_STREAM]
    older = {key: value for key, value in ours.items() if key not in ("allow_atomic", "max_msg_size")}
    await telling.make({**older, "max_bytes": 1_000_000, "max_age": 10**9 * 3600})
    assert (await telling.config()).get("allow_atomic") is None
    assert await telling.teller.is_ready()
    now = await telling.config()
    assert (now["allow_atomic"], now["max_msg_size"]) == (True, streams.MESSAGE_BYTES_MAX)
    assert (now["max_bytes"], now["max_age"]) == (1_000_000, 10**9 * 3600)


async def test_a_stream_that_is_gone_costs_one_try_and_is_made_anew(telling: Telling) -> None:
    await telling.outbox.fill(2)
    assert await telling.teller.is_ready()
    await telling.jetstream.delete_stream(subjects.ACCOUNT_STREAM)
    assert await telling.relay()() == RelayBatch(2, 0, 2)
    assert await telling.relay()() == RelayBatch(2, 2, 0)


@pytest.mark.usefixtures("limits_as_they_are")
async def test_nothing_is_claimed_while_jetstream_answers_nothing_though_the_connection_stands(
    telling: Telling, services: LocalServices
) -> None:
    await telling.outbox.fill(2)
    assert await telling.teller.is_ready()
    pid = services.nats.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        assert await telling.relay()() == RelayBatch(2, 0, 2)
        for _ in range(2):
            assert await telling.relay()() == RelayBatch(0, 0, 0)
        assert telling.connection.is_reachable()
        assert [row["attempts"] for row in await telling.outbox.rows()] == [1, 1]
    finally:
        os.kill(pid, signal.SIGCONT)

    async def is_told() -> bool:
        return (await telling.relay()()).completed == 2

    await until(is_told)
    assert len(await telling.told()) == 2


async def test_nothing_is_claimed_while_the_stream_is_full(telling: Telling) -> None:
    full = {**streams.STREAMS[subjects.ACCOUNT_STREAM], "discard": "new", "max_bytes": 3000}
    await telling.make(full)
    await telling.outbox.fill(40)
    relay = telling.relay()
    assert [(await relay()).claimed for _ in range(3)] == [40, 0, 0]
    assert max(row["attempts"] for row in await telling.outbox.rows()) == 1
    await telling.jetstream.purge_stream(subjects.ACCOUNT_STREAM)
    assert (await relay()).claimed > 0


def test_one_notice_tells_of_all_rows_of_an_account() -> None:
    rows = [
        ClaimedRow(number, 1, 1, account, "intent.queued", "", 3, datetime(2026, 11, 17, 9, minute, tzinfo=UTC))
        for number, (account, minute) in enumerate(zip("aabab", (3, 5, 2, 4, 6), strict=True))
    ]
    messages = [(each.subject, each.body, each.message_id, each.outbox_ids) for each in work_messages(rows)]
    assert messages == [
        ("intents.3.a", b"2026-11-17T09:05:00+00:00", "3", (0, 1, 3)),
        ("intents.3.b", b"2026-11-17T09:06:00+00:00", "4", (2, 4)),
    ]

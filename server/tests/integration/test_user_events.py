"""What became of users, told through a real JetStream."""

import json
from collections.abc import AsyncIterator

import pytest

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.publishing import JetStreamPublisher, user_messages
from openbell_server.adapters.postgres.access.user_deletions import PostgresUserDeletionStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.events.outbox import PostgresOutboxStore
from openbell_server.application.access.delete_user import UserDeletion
from openbell_server.application.events.relay_outbox import RelayOutbox
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.events.outbox import Queue
from support.brokers.execution_harness import Clock
from support.brokers.paper_broker import until
from support.builders.tenant import a_tenant


@pytest.fixture
async def jetstream(services: LocalServices) -> AsyncIterator[JetStreamConnection]:
    connection = JetStreamConnection(services.nats.url)
    connection.start()

    async def is_reachable() -> bool:
        return connection.is_reachable()

    await until(is_reachable)
    yield connection
    await connection.close()


async def test_a_deletion_is_told_once_on_its_subject_however_often_it_is_published(
    pool: Pool, jetstream: JetStreamConnection
) -> None:
    assert jetstream.client is not None
    streams = jetstream.client.jetstream()
    await streams.purge_stream(subjects.USER_STREAM)
    tenant = await a_tenant(pool)
    deletion = UserDeletion(tenant.account.organization_id, "dev", "auth|7")
    await PostgresUserDeletionStore(pool).request(deletion)
    await PostgresUserDeletionStore(pool).finish(deletion)
    teller = JetStreamPublisher(jetstream, subjects.USER_STREAM, user_messages)
    claimed = await PostgresOutboxStore(pool, Queue.USERS).claim_across_organizations(10)
    # As if the relay had died before it could say that it was done.
    for _ in range(2):
        assert (await teller.publish(claimed, lambda: False)).confirmed == {row.outbox_id for row in claimed}
    stream = await streams.stream_info(subjects.USER_STREAM)
    assert stream.state.messages == 1
    told = await streams.get_last_msg(subjects.USER_STREAM, "users.user.deleted")
    assert told.data is not None
    assert json.loads(told.data)["user_id"] == "auth|7"


async def test_a_stream_that_is_deleted_is_made_anew(pool: Pool, jetstream: JetStreamConnection) -> None:
    assert jetstream.client is not None
    await jetstream.client.jetstream().delete_stream(subjects.USER_STREAM)
    deletion = UserDeletion((await a_tenant(pool)).account.organization_id, "dev", "auth|7")
    await PostgresUserDeletionStore(pool).request(deletion)
    await PostgresUserDeletionStore(pool).finish(deletion)
    relay = RelayOutbox(
        PostgresOutboxStore(pool, Queue.USERS),
        JetStreamPublisher(jetstream, subjects.USER_STREAM, user_messages),
        lambda: 0.0,
        Clock(),
    )

    async def is_told() -> bool:
        return (await relay()).completed == 1

    await until(is_told)

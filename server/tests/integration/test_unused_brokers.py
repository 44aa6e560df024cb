"""A broker that nobody trades at costs an executor no connection."""

import asyncio
from typing import cast

import pytest

from openbell_server.adapters.postgres.access.accounts import open_account
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool, Role, transaction
from openbell_server.adapters.postgres.execution.sign_ins import PostgresSessionStore
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment, NewAccount
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.executor import _follow
from support.builders.tenant import a_tenant, new_id


class Follower:
    """Says when its feed is opened."""

    definition = BROKERS["paper-b"]

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def run(self) -> None:
        self.opened.set()
        await asyncio.Event().wait()


async def test_a_feed_is_opened_once_its_broker_has_an_account(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbell_server.processes.executor.UNUSED_BROKER_SECONDS", 0.02)
    tenant = await a_tenant(pool)
    follower, store = Follower(), PostgresSessionStore(pool, DatabaseClock(pool))
    following = asyncio.ensure_future(_follow(cast("FollowBroker", follower), store))
    try:
        await asyncio.sleep(0.5)
        assert not follower.opened.is_set()
        organization = tenant.account.organization_id
        async with transaction(pool, Role.TENANT, organization) as connection:
            new = NewAccount(name="Second", broker="paper-b", environment=Environment.PAPER)
            await open_account(connection, organization, AccountId(new_id()), new)
        async with asyncio.timeout(60):
            await follower.opened.wait()
    finally:
        following.cancel()

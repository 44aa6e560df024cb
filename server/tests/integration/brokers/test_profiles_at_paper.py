"""Intents from the accept step to each kind of paper broker that loses answers, and what both records say then."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.brokers.paper.profiles import PAPER_C, PROFILES, Profile
from openbell_server.brokers.paper.session import NoBrokerOrderId
from openbell_server.domain.identifiers import client_order_id
from support.brokers.paper_broker import running, settings_of, summary
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_limit_create, a_tenant

INTENTS = 12
FAULTS = "seed=7,refused_but_placed=0.3,accept_then_reset=0.3"


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
async def test_no_order_is_doubled_and_one_that_cannot_be_asked_for_stays_unknown(
    pool: Pool, ledger_url: str, profile: Profile
) -> None:
    settings = settings_of(ledger_url, FAULTS)
    async with running(settings, profile) as session:
        harness = Harness(pool, await a_tenant(pool))
        for _ in range(INTENTS):
            await harness.accept(a_limit_create("1.00"))
        while doors := await harness.open_doors():
            await asyncio.gather(*(harness.execute.dispatch(session, door) for door in doors))
        doubtful = [state for _, state, _ in await harness.states()].count("UNKNOWN")
        assert 0 < doubtful < INTENTS
        capabilities = replace(profile.capabilities, settle_seconds=0.5)
        settle = SettleUnknown(PostgresExecutionStore(pool), harness.track, harness.hints, harness.execute)
        for _ in range(3):
            with contextlib.suppress(NoBrokerOrderId):
                await settle(harness.account, session, capabilities)
            await asyncio.sleep(0.5)
        states = [state for _, state, _ in await harness.states()]
        expected = doubtful if profile is PAPER_C else 0
        assert (states.count("UNKNOWN"), states.count("ACKED")) == (expected, INTENTS - expected)
        orders = await session.orders_since(harness.tenant.account.id, datetime.fromtimestamp(0, UTC))
        assert len(orders) == INTENTS
        if profile is not PAPER_C:
            actions = await pool.fetch("select action_id from action_states")
            sent = {client_order_id(row["action_id"]) for row in actions}
            assert sorted(order.client_order_id or "" for order in orders) == sorted(sent)
        assert (await summary(settings))["requests"] == INTENTS

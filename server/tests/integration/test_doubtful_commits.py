"""A commit whose answer is lost: found out where possible, called unknown where not, and told truly on retry."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from builders import Tenant, a_market_create, a_tenant
from openbell_server.adapters.postgres.connection import DOUBTFUL, DatabaseClock, Pool
from openbell_server.adapters.postgres.intents import PostgresIntentStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.stores import Acceptance, Submission
from openbell_server.application.submit_intent import SubmitIntent, Submitted
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.errors import Problem
from openbell_server.domain.intents import Command
from rest_api import RecordedHints


@dataclass(frozen=True, slots=True)
class CutStore(PostgresIntentStore):
    """Loses the connection before or after the commit, once."""

    cuts: list[str] = field(default_factory=list)

    async def accept_across_organizations(self, submissions: Sequence[Submission]) -> list[Acceptance]:
        cut = self.cuts.pop() if self.cuts else ""
        if cut == "before":
            raise ConnectionResetError("cut before the commit")
        answers = await PostgresIntentStore(self.pool).accept_across_organizations(submissions)
        if cut == "after":
            raise ConnectionResetError("cut after the commit")
        return answers


async def submit(pool: Pool, tenant: Tenant, cut: str, key: str) -> Submitted:
    async def decode(_: BrokerDefinition) -> Command:
        return a_market_create()

    organizations = PostgresOrganizationStore(pool)
    use_case = SubmitIntent(
        organizations, CutStore(pool, [cut]), DatabaseClock(pool), BROKERS, RecordedHints(), DOUBTFUL
    )
    return await use_case(tenant.principal, tenant.account.id, decode, lambda: key)


async def test_a_commit_whose_answer_was_lost_is_found_out(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    first = await submit(pool, tenant, "after", "k")
    again = await submit(pool, tenant, "", "k")
    assert (first.replayed, again.replayed) == (False, True)
    assert first.recorded.action == again.recorded.action
    assert await pool.fetchval("select count(*) from intent_actions") == 1


async def test_what_cannot_be_found_is_called_unknown_and_a_retry_tells(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    with pytest.raises(Problem) as unknown:
        await submit(pool, tenant, "before", "k")
    assert unknown.value.code == "outcome_unknown"
    assert (await submit(pool, tenant, "", "k")).replayed is False
    assert await pool.fetchval("select count(*) from intent_actions") == 1

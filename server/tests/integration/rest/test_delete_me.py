"""A user deletes themself: whatever stops in between, the user is gone in the end, and others hear of it once."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from openbell_server.adapters.identity.workos import WorkOSProvider
from openbell_server.adapters.postgres.access.user_deletions import PostgresUserDeletionStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.events.outbox import PostgresOutboxStore
from openbell_server.application.access.delete_user import FinishDeletions, UserDeletion
from openbell_server.application.events.relay_outbox import RelayBatch, RelayOutbox
from openbell_server.domain.events.outbox import ATTEMPTS_MAX, Queue
from support.brokers.execution_harness import Clock
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_service, as_user
from support.identity.identity_provider import MACHINES, good_token
from support.identity.workos_provider import API_KEY, FAULTS, WorkOS, workos
from support.rest.rest_api import RestApi, intents_of, limited, rest_api
from support.tenancy.outbox_queues import ScriptedTeller, relay_store

PATH = "/v1/users/me"
USER = "auth|7"


def plain(answer: httpx.Response, status: int) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8"), answer.text
    return answer.text


@dataclass(frozen=True, slots=True)
class Leaving:
    """A user of WorkOS, and the platform they leave."""

    api: RestApi
    pool: Pool
    workos: WorkOS
    provider: WorkOSProvider
    tenant: Tenant
    listener: ScriptedTeller = field(default_factory=ScriptedTeller)

    @property
    def deletion(self) -> UserDeletion:
        return UserDeletion(self.tenant.account.organization_id, "dev", USER)

    @property
    def store(self) -> PostgresUserDeletionStore:
        return PostgresUserDeletionStore(self.pool)

    async def delete_me(self, **claims: Any) -> httpx.Response:
        return await self.api.client.delete(PATH, headers=as_user(self.tenant, **claims))

    async def wait_over(self) -> None:
        """As if every wait were over."""
        await self.pool.execute("update user_deletions set available_at = requested_at")
        await self.pool.execute("update user_outbox set available_at = created_at where resolved_at is null")

    async def relay(self) -> tuple[int, RelayBatch]:
        """One round of the relay."""
        finished = await FinishDeletions(self.store, "dev", self.provider)()
        async with relay_store(self.pool, Queue.USERS) as queue:
            return finished, await RelayOutbox(queue, self.listener, lambda: 1.0, Clock())()

    async def rows(self, table: str) -> list[asyncpg.Record]:
        return await self.pool.fetch(f"select * from {table}")

    async def is_gone(self) -> None:
        """Deleted there, denied here, and told of once."""
        assert USER not in self.workos.users
        (deletion,) = await self.rows("user_deletions")
        assert deletion["finished_at"] is not None
        (denied,) = await self.rows("denied_users")
        assert (denied["provider"], denied["subject"], denied["reason"]) == ("dev", USER, "deleted")
        (event,) = await self.rows("user_outbox")
        payload = json.loads(event["payload"])
        assert list(payload) == ["user_id", "external_id", "organization_id", "requested_at"]
        organization = str(self.tenant.account.organization_id)
        assert [payload[name] for name in list(payload)[:3]] == [USER, USER, organization]
        assert datetime.fromisoformat(payload["requested_at"]) == deletion["requested_at"]


@pytest.fixture
async def leaving(pool: Pool, tenant: Tenant) -> AsyncIterator[Leaving]:
    async with workos() as loopback, httpx.AsyncClient() as client:
        loopback.add_member(USER, "org_1")
        provider = WorkOSProvider(client, api_key=API_KEY, client_id="client_1", base_url=loopback.url)
        async with rest_api(pool, provider=provider) as api:
            yield Leaving(api, pool, loopback, provider, tenant)


async def test_a_user_who_asks_is_deleted_denied_and_told_of(leaving: Leaving) -> None:
    answer = await leaving.delete_me()
    assert (answer.status_code, answer.content) == (204, b"")
    await leaving.is_gone()
    assert await leaving.relay() == (0, RelayBatch(1, 1, 0))
    (event,) = leaving.listener.told
    assert (event.event_type, json.loads(event.payload)["user_id"]) == ("user.deleted", USER)
    assert await leaving.relay() == (0, RelayBatch(0, 0, 0))


async def test_a_deleted_user_is_refused_within_a_second(leaving: Leaving) -> None:
    headers = as_user(leaving.tenant)

    async def status() -> int:
        return (await leaving.api.client.get(intents_of(leaving.tenant), headers=headers)).status_code

    assert await status() == 200
    assert (await leaving.delete_me()).status_code == 204

    async def refused() -> bool:
        return await status() == 401

    await until(refused, 60)
    assert plain(await leaving.delete_me(), 401) == "unauthorized"


async def test_asking_twice_is_harmless_and_told_of_once(leaving: Leaving) -> None:
    # Not denied yet by what was read less than a second ago.
    assert [(await leaving.delete_me()).status_code for _ in range(2)] == [204, 204]
    await leaving.is_gone()


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in {"shape", "slow", "dripping"}])
async def test_while_the_provider_is_away_the_deletion_is_kept_and_the_relay_finishes_it(
    leaving: Leaving, fault: str
) -> None:
    leaving.workos.fault = fault
    said = plain(await leaving.delete_me(), 503)
    assert "recorded" in said
    assert await leaving.rows("user_outbox") == await leaving.rows("denied_users") == []
    await leaving.wait_over()
    assert (await leaving.relay())[0] == 0
    leaving.workos.fault = ""
    assert (await leaving.relay())[0] == 0, "it waits after a try"
    await leaving.wait_over()
    assert await leaving.relay() == (1, RelayBatch(1, 1, 0))
    await leaving.is_gone()


async def test_a_deletion_is_tried_for_ever_and_ever_more_rarely(leaving: Leaving) -> None:
    leaving.workos.fault = "503"
    await leaving.delete_me()
    for attempt in range(ATTEMPTS_MAX + 2):
        await leaving.wait_over()
        before = await leaving.pool.fetchval("select clock_timestamp()")
        assert (await leaving.relay())[0] == 0
        (row,) = await leaving.rows("user_deletions")
        after = await leaving.pool.fetchval("select clock_timestamp()")
        wait = timedelta(seconds=max(5, min(60, 2**attempt)))
        assert row["available_at"] - after <= wait <= row["available_at"] - before
    leaving.workos.fault = ""
    await leaving.wait_over()
    assert (await leaving.relay())[0] == 1
    await leaving.is_gone()


async def test_a_stop_after_the_row_ends_right(leaving: Leaving) -> None:
    await leaving.store.request(leaving.deletion)
    assert (await leaving.relay())[0] == 0, "the one who asked is still at it"
    await leaving.wait_over()
    assert (await leaving.relay())[0] == 1
    await leaving.is_gone()


async def test_a_stop_after_the_provider_s_word_ends_right(leaving: Leaving) -> None:
    await leaving.store.request(leaving.deletion)
    await leaving.provider.delete_user(USER)
    await leaving.wait_over()
    assert (await leaving.relay())[0] == 1
    await leaving.is_gone()


async def test_a_stop_within_the_last_step_leaves_nothing_of_it(leaving: Leaving) -> None:
    await leaving.pool.execute("alter table user_outbox add constraint broken check (false) not valid")
    assert plain(await leaving.delete_me(), 500)
    assert await leaving.rows("denied_users") == []
    await leaving.pool.execute("alter table user_outbox drop constraint broken")
    await leaving.wait_over()
    assert (await leaving.relay())[0] == 1
    await leaving.is_gone()


async def test_whoever_finishes_second_tells_nobody(leaving: Leaving) -> None:
    await leaving.store.request(leaving.deletion)
    await leaving.wait_over()
    (claimed,) = await leaving.store.claim_across_organizations("dev", 10)
    assert (await leaving.delete_me()).status_code == 204
    await leaving.store.finish(claimed)
    await leaving.is_gone()


async def test_a_relay_that_stopped_after_its_claim_is_followed_by_another(leaving: Leaving) -> None:
    await leaving.delete_me()
    queue = PostgresOutboxStore(leaving.pool, Queue.USERS)
    (stale,) = await queue.claim_across_organizations(10)
    assert await queue.claim_across_organizations(10) == []
    await leaving.pool.execute("update user_outbox set claimed_at = clock_timestamp() - interval '6 seconds'")
    assert (await leaving.relay())[1] == RelayBatch(1, 1, 0)
    assert await queue.complete_across_organizations([stale]) == 0
    assert len(leaving.listener.told) == 1


async def test_an_event_that_nobody_takes_is_given_up_after_ten_tries(leaving: Leaving) -> None:
    await leaving.delete_me()
    leaving.listener.broken.add(USER)
    for _ in range(ATTEMPTS_MAX):
        await leaving.wait_over()
        batch = (await leaving.relay())[1]
        assert (batch.claimed, batch.completed, batch.released) == (1, 0, 1)
    assert len(batch.failed) == 1
    leaving.listener.broken.clear()
    await leaving.wait_over()
    assert (await leaving.relay())[1] == RelayBatch(0, 0, 0)
    (event,) = await leaving.rows("user_outbox")
    assert (event["status"], event["attempts"]) == ("failed", ATTEMPTS_MAX)


async def test_everyone_but_a_user_of_a_known_organization_is_unauthorized(leaving: Leaving) -> None:
    service = as_service("credential:read intent:read")
    organization = f"org_{leaving.tenant.account.organization_id.hex}"
    for headers in (
        {},
        {"x-api-key": leaving.tenant.key},
        {"x-api-key": "ob_paper_wrong"},
        {"authorization": "Bearer a.b.c"},
        service,
        service | {"x-organization-id": str(leaving.tenant.account.organization_id)},
        {"authorization": f"Bearer {good_token('EdDSA', MACHINES, org_id=organization)}"},
        as_user(leaving.tenant, org_id=None),
        as_user(leaving.tenant, org_id="org_unknown"),
        as_user(leaving.tenant, exp=1),
    ):
        answer = await leaving.api.client.delete(PATH, headers=headers)
        assert plain(answer, 401) == "unauthorized"
    assert await leaving.rows("user_deletions") == []
    assert leaving.workos.users == {USER}


async def test_every_other_error_is_plain_text_as_well(leaving: Leaving) -> None:
    for path in (PATH, f"{PATH}/", PATH.replace("/users", "//users")):
        plain(await leaving.api.client.get(path, headers=as_user(leaving.tenant)), 405)
    two = as_user(leaving.tenant) | {"x-api-key": leaving.tenant.key}
    plain(await leaving.api.client.delete(PATH, headers=two), 400)


async def test_without_the_provider_s_api_nothing_is_recorded_and_the_operator_is_named(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    said = plain(await api.client.delete(PATH, headers=as_user(tenant)), 503)
    assert "operator" in said
    assert await pool.fetchval("select count(*) from user_deletions") == 0


async def test_keys_of_the_organization_stay(leaving: Leaving) -> None:
    assert (await leaving.delete_me()).status_code == 204
    answer = await leaving.api.client.get(intents_of(leaving.tenant), headers={"x-api-key": leaving.tenant.key})
    assert answer.status_code == 200


async def test_the_login_of_the_processes_may_delete_users(login_pool: Pool) -> None:
    tenant = await a_tenant(login_pool)
    async with workos() as loopback, httpx.AsyncClient() as client:
        provider = WorkOSProvider(client, api_key=API_KEY, client_id="client_1", base_url=loopback.url)
        async with rest_api(login_pool, provider=provider) as api:
            left = Leaving(api, login_pool, loopback, provider, tenant)
            assert (await left.delete_me()).status_code == 204
            assert await left.relay() == (0, RelayBatch(1, 1, 0))


async def test_whoever_asks_too_often_is_told_so_in_plain_text(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool, limit=limited(reads_per_minute=1)) as api:
        plain(await api.client.delete(PATH, headers=as_user(tenant)), 503)
        refused = await api.client.delete(PATH, headers=as_user(tenant))
        assert plain(refused, 429) == "at most 1 such calls are accepted in any 60 s"
        assert refused.headers["retry-after"] == refused.headers["ratelimit-reset"] == "60"

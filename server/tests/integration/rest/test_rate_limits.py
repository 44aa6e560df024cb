"""Limits on REST: who is counted with whom, what is counted apart, and what a refused caller hears."""

from uuid import uuid4

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.principals import EVENT_READ
from support.builders.tenant import Tenant, a_key, a_tenant
from support.identity.bearers import as_service, as_user
from support.rest.rest_api import JSON, cancel_body, create_body, intents_of, limited, problem, rest_api


async def test_reads_are_counted_by_principal_and_the_refused_hear_when_to_come_again(
    pool: Pool, tenant: Tenant
) -> None:
    _, other_key = await a_key(pool, tenant.account.organization_id)
    async with rest_api(pool, limit=limited(reads_per_minute=3)) as api:
        assert [(await api.read(tenant)).status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = await api.read(tenant)
        body = problem(refused, 429, "rate_limited")
        assert body["detail"] == "at most 3 such calls are accepted in any 60 s"
        told = {name: value for name, value in refused.headers.items() if name.startswith(("ratelimit-", "retry-"))}
        assert told == {
            "retry-after": "60",
            "ratelimit-limit": "3",
            "ratelimit-remaining": "0",
            "ratelimit-reset": "60",
        }
        for headers in ({"x-api-key": other_key}, as_user(tenant, "member"), as_user(tenant, sub="auth|8")):
            assert (await api.client.get(intents_of(tenant), headers=headers)).status_code == 200


async def test_the_rate_answers_before_the_permission_and_after_the_credential(pool: Pool) -> None:
    tenant = await a_tenant(pool, permissions=frozenset({EVENT_READ}))
    async with rest_api(pool, limit=limited(reads_per_minute=2)) as api:
        assert [(await api.read(tenant)).status_code for _ in range(3)] == [403, 403, 429]
        for _ in range(3):
            problem(await api.client.get(intents_of(tenant)), 401, "unauthenticated")


async def test_commands_are_counted_by_account_and_cancels_apart(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool, limit=limited(submits_per_second=2, cancels_per_second=3)) as api:
        created = [await api.submit(tenant, create_body("Limit", price="1")) for _ in range(3)]
        assert [answer.status_code for answer in created] == [202, 202, 429]
        # Nothing was recorded of the refused one.
        assert await pool.fetchval("select count(*) from receipts") == 2
        cancel = cancel_body(created[0].json()["intent_id"])
        assert [(await api.submit(tenant, cancel)).status_code for _ in range(4)] == [202, 202, 202, 429]
        assert (await api.read(tenant)).status_code == 200


async def test_a_key_that_may_not_submit_uses_up_its_own_limit_and_not_the_accounts(pool: Pool, tenant: Tenant) -> None:
    _, reading = await a_key(pool, tenant.account.organization_id, permissions=frozenset({EVENT_READ}))
    async with rest_api(pool, limit=limited(submits_per_second=1, reads_per_minute=3)) as api:
        refused = [
            await api.client.post(intents_of(tenant), json=create_body(), headers={"x-api-key": reading})
            for _ in range(5)
        ]
        assert [answer.status_code for answer in refused] == [403, 403, 403, 429, 429]
        assert (await api.submit(tenant, create_body())).status_code == 202


async def test_made_up_accounts_have_no_limit_of_their_own(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool, limit=limited(reads_per_second=3)) as api:
        answers = [
            await api.client.post(
                f"/v1/accounts/{uuid4()}/intents", json=create_body(), headers={"x-api-key": tenant.key}
            )
            for _ in range(5)
        ]
        assert [answer.status_code for answer in answers] == [404, 404, 404, 429, 429]
        assert (await api.submit(tenant, create_body())).status_code == 202


async def test_wrong_keys_are_limited_by_address_and_a_right_one_is_not(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool, limit=limited(validations_per_second=2)) as api:
        wrong = tenant.key[:-1] + ("a" if tenant.key[-1] != "a" else "b")
        answers = [await api.client.get(intents_of(tenant), headers={"x-api-key": wrong}) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [401, 401, 429, 429]
        assert (await api.read(tenant)).status_code == 200


@pytest.mark.parametrize("body", [b"{", b"[]", b'"CANCEL"', b'{"command": 1}', b'{"command": {"type": ["CANCEL"]}}'])
async def test_what_is_no_readable_command_counts_as_a_submit(pool: Pool, tenant: Tenant, body: bytes) -> None:
    async with rest_api(pool, limit=limited(submits_per_second=1)) as api:
        assert (await api.submit_raw(tenant, body)).status_code in {400, 422}
        problem(await api.submit(tenant, create_body()), 429, "rate_limited")


async def test_a_body_that_is_not_json_is_still_refused_as_that(pool: Pool, tenant: Tenant) -> None:
    async with rest_api(pool, limit=limited(submits_per_second=1)) as api:
        problem(await api.submit_raw(tenant, b"{}", {"content-type": "text/plain"}), 415, "not_json")
        problem(await api.submit_raw(tenant, b"{}", {"content-type": "text/plain"}), 429, "rate_limited")


async def test_a_stranger_cannot_use_up_what_is_ours(pool: Pool, tenant: Tenant) -> None:
    other_organization = await a_tenant(pool)
    async with rest_api(pool, limit=limited(submits_per_second=1)) as api:
        for status in (404, 429):
            answer = await api.client.post(
                intents_of(tenant), json=create_body(), headers={"x-api-key": other_organization.key, **JSON}
            )
            assert answer.status_code == status
        assert (await api.submit(tenant, create_body())).status_code == 202


async def test_a_plain_text_route_is_refused_in_plain_text(pool: Pool) -> None:
    async with rest_api(pool, limit=limited(reads_per_minute=1)) as api:
        service = as_service("credential:read")
        assert (await api.client.get("/v1/accounts/outbox/health", headers=service)).status_code == 200
        refused = await api.client.get("/v1/accounts/outbox/health", headers=service)
    assert (refused.status_code, refused.text) == (429, "at most 1 such calls are accepted in any 60 s")
    assert refused.headers["content-type"] == "text/plain; charset=utf-8"
    assert refused.headers["retry-after"] == refused.headers["ratelimit-reset"] == "60"

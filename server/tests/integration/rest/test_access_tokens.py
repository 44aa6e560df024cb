"""Users and service accounts on REST: what their tokens let them do, and how soon a denial acts."""

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_service, as_user
from support.rest.rest_api import RestApi, create_body, intents_of, problem, rest_api


async def read(api: RestApi, tenant: Tenant, headers: dict[str, str]) -> httpx.Response:
    return await api.client.get(intents_of(tenant), headers=headers)


@pytest.mark.parametrize("role", ["admin", "member", "read_only"])
async def test_a_user_of_any_role_reads_the_intents_of_the_own_organization(
    api: RestApi, tenant: Tenant, role: str
) -> None:
    await api.submit(tenant, create_body())
    answer = await read(api, tenant, as_user(tenant, role=role))
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["data"]) == 1


async def test_a_service_account_reads_the_organization_it_names(api: RestApi, tenant: Tenant) -> None:
    assert (await read(api, tenant, as_service("intent:read", tenant=tenant))).status_code == 200
    problem(await read(api, tenant, as_service("intent:read")), 400, "invalid_header")
    problem(await read(api, tenant, as_service("openid", tenant=tenant)), 403, "permission_denied")


async def test_a_user_finds_nothing_of_another_organization(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    problem(await read(api, tenant, as_user(await a_tenant(pool))), 404, "not_found")


async def test_only_keys_submit(api: RestApi, tenant: Tenant) -> None:
    for headers in (as_user(tenant, role="admin"), as_service("intent:read", "intent:edit", tenant=tenant)):
        answer = await api.client.post(intents_of(tenant), json=create_body(), headers=headers)
        problem(answer, 403, "principal_kind_not_allowed")


async def test_two_credentials_are_one_too_many(api: RestApi, tenant: Tenant) -> None:
    both = as_user(tenant) | {"x-api-key": tenant.key}
    problem(await read(api, tenant, both), 400, "ambiguous_credentials")


async def test_a_key_that_is_sent_as_a_bearer_token_is_told_where_it_belongs(api: RestApi, tenant: Tenant) -> None:
    answer = await api.client.get("/v1/me", headers={"authorization": f"Bearer {tenant.key}"})
    assert "x-api-key" in str(problem(answer, 401, "unauthenticated")["detail"])


@pytest.mark.parametrize("sent", ["Basic YTpi", "Bearer", "Bearer ", "Token abc", "Bearer a b", ""])
async def test_an_authorization_that_is_no_bearer_token_is_no_credential(
    api: RestApi, tenant: Tenant, sent: str
) -> None:
    answer = await read(api, tenant, {"authorization": sent})
    problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_denied_user_is_refused(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    headers = as_user(tenant)
    assert (await read(api, tenant, headers)).status_code == 200
    await pool.execute("insert into denied_users (provider, subject, reason) values ('dev', 'auth|7', 'left')")

    async def refused() -> bool:
        return (await read(api, tenant, headers)).status_code == 401

    await until(refused, 60)


async def test_a_login_that_may_read_only_what_it_needs_finds_the_caller(login_pool: Pool) -> None:
    tenant = await a_tenant(login_pool)
    async with rest_api(login_pool) as api:
        assert (await read(api, tenant, as_user(tenant))).status_code == 200

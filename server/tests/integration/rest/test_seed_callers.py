"""The founding contract on callers: schemes, who may call, key validation, organization lookup, deletion of oneself."""

import asyncio
from datetime import datetime
from uuid import UUID

import httpx

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import Environment
from support.authorization.world import Members
from support.builders.tenant import Tenant, a_key, a_tenant, misspelled
from support.identity.bearers import Headers, as_service, as_user, as_user_without_organization, external_id_of
from support.identity.identity_provider import PEOPLE
from support.rest.rest_api import RestApi, create_body, intents_of, problem, rest_api

VALIDATE = "/api/v1/auth/api-key/validate"
ME = "/v1/users/me"


def organization_of(tenant: Tenant, provider: str = PEOPLE.provider) -> str:
    return f"/v1/organizations/by-provider/{provider}/{external_id_of(tenant.account.organization_id)}"


async def validate(api: RestApi, key: object, headers: Headers) -> httpx.Response:
    return await api.client.post(VALIDATE, json={"api_key": key}, headers=headers)


async def test_a_key_goes_in_x_api_key_and_a_jwt_in_authorization_bearer(api: RestApi, tenant: Tenant) -> None:
    for headers in ({"x-api-key": tenant.key}, as_user(tenant), as_service("intent:read", tenant=tenant)):
        assert (await api.client.get(intents_of(tenant), headers=headers)).status_code == 200
    for headers in (
        {"authorization": f"Bearer {tenant.key}"},
        {"x-api-key": as_user(tenant)["authorization"].removeprefix("Bearer ")},
        {"authorization": tenant.key},
    ):
        problem(await api.client.get(intents_of(tenant), headers=headers), 401, "unauthenticated")


async def test_only_a_key_of_the_accounts_organization_with_intent_edit_submits(api: RestApi, pool: Pool) -> None:
    tenant, other_organization = await a_tenant(pool), await a_tenant(pool)
    url, body = intents_of(tenant), create_body()
    for headers in (as_user(tenant), as_service("intent:read", tenant=tenant)):
        problem(await api.client.post(url, json=body, headers=headers), 403, "principal_kind_not_allowed")
    _, reader = await a_key(pool, tenant.account.organization_id, permissions=frozenset({"intent:read"}))
    problem(await api.client.post(url, json=body, headers={"x-api-key": reader}), 403, "permission_denied")
    problem(await api.client.post(url, json=body, headers={"x-api-key": other_organization.key}), 404, "not_found")
    _, editor = await a_key(pool, tenant.account.organization_id, permissions=frozenset({"intent:edit"}))
    assert (await api.client.post(url, json=body, headers={"x-api-key": editor})).status_code == 202


async def test_intents_are_read_by_scope_and_header_by_permission_or_by_role(api: RestApi, pool: Pool) -> None:
    tenant, other_organization = await a_tenant(pool), await a_tenant(pool)
    created = (await api.submit(tenant, create_body())).json()["intent_id"]
    _, reader = await a_key(pool, tenant.account.organization_id, permissions=frozenset({"intent:read"}))
    _, editor = await a_key(pool, tenant.account.organization_id, permissions=frozenset({"intent:edit"}))
    for below in ("", f"/{created}", f"/{created}/actions"):
        url = intents_of(tenant) + below

        async def read(headers: Headers, url: str = url) -> httpx.Response:
            return await api.client.get(url, headers=headers)

        for role in ("admin", "member", "read_only"):
            assert (await read(as_user(tenant, role))).status_code == 200
        assert (await read({"x-api-key": reader})).status_code == 200
        assert (await read(as_service("intent:read", tenant=tenant))).status_code == 200
        problem(await read(as_service("intent:read")), 400, "invalid_header")
        problem(await read(as_service("credential:read", tenant=tenant)), 403, "permission_denied")
        problem(await read({"x-api-key": editor}), 403, "permission_denied")
        problem(await read(as_user(tenant, None)), 403, "permission_denied")
        # Who is no service account reads in its own organization, whatever it asks for.
        problem(await read(as_user(other_organization)), 404, "not_found")
        problem(await read({"x-api-key": other_organization.key}), 404, "not_found")
        theirs = {"x-organization-id": str(tenant.account.organization_id)}
        problem(await read(as_user(other_organization) | theirs), 403, "organization_mismatch")


async def test_validation_tells_what_a_key_is(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    for headers in (as_service(), {"x-api-key": tenant.key}):
        answer = await validate(api, tenant.key, headers)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert set(body) == {"id", "organization_id", "environment", "disabled", "created_at"}
        assert (body["id"], str(UUID(body["id"]))) == (tenant.principal.id, tenant.principal.id)
        assert body["organization_id"] == str(tenant.account.organization_id)
        assert (body["environment"], body["disabled"]) == ("paper", False)
        assert datetime.fromisoformat(body["created_at"]).utcoffset() is not None
    live = await a_tenant(pool, environment=Environment.LIVE)
    assert (await validate(api, live.key, as_service())).json()["environment"] == "live"


async def test_a_disabled_key_is_valid_and_disabled_and_what_is_no_key_answers_alike(api: RestApi, pool: Pool) -> None:
    disabled, revoked = await a_tenant(pool), await a_tenant(pool)
    await pool.execute("update api_keys set disabled = true where api_key_id = $1", UUID(disabled.principal.id))
    await pool.execute("update api_keys set revoked_at = now() where api_key_id = $1", UUID(revoked.principal.id))
    for headers in (as_service(), {"x-api-key": disabled.key}):
        answer = await validate(api, disabled.key, headers)
        assert (answer.status_code, answer.json()["disabled"]) == (200, True)
    bodies = []
    for key in (revoked.key, misspelled(disabled.key), "x", ""):
        body = problem(await validate(api, key, as_service()), 401, "unauthenticated")
        bodies.append({**body, "request_id": ""})
    assert all(body == bodies[0] for body in bodies)
    for wrong in ({}, {"api_key": 7}, {"api_key": None}, {"key": "x"}):
        answer = await api.client.post(VALIDATE, json=wrong, headers=as_service())
        problem(answer, 422, "invalid_command")


async def test_an_organization_is_found_by_the_providers_id(api: RestApi, pool: Pool) -> None:
    tenant, other_organization = await a_tenant(pool), await a_tenant(pool)
    for headers in (as_user(tenant, "read_only"), as_service()):
        answer = await api.client.get(organization_of(tenant), headers=headers)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert set(body) == {"id", "external_id", "name", "provider", "disabled", "created_at"}
        assert body["id"] == str(tenant.account.organization_id)
        assert body["external_id"] == external_id_of(tenant.account.organization_id)
        assert (body["name"], body["provider"], body["disabled"]) == ("Acme", PEOPLE.provider, False)
        assert datetime.fromisoformat(body["created_at"]).utcoffset() is not None
    problem(await api.client.get(organization_of(other_organization), headers=as_user(tenant)), 404, "not_found")
    assert (await api.client.get(organization_of(other_organization), headers=as_service())).status_code == 200
    problem(await api.client.get(organization_of(tenant, "another"), headers=as_service()), 404, "not_found")
    keyed = await api.client.get(organization_of(tenant), headers={"x-api-key": tenant.key})
    problem(keyed, 403, "principal_kind_not_allowed")


async def test_a_user_deletes_themself_for_good_and_a_deletion_event_is_queued(tenant: Tenant, pool: Pool) -> None:
    me = as_user(tenant, "member", sub="auth|leaving")
    members = Members()
    async with rest_api(pool, provider=members) as api:
        assert (await api.client.get(intents_of(tenant), headers=me)).status_code == 200
        answer = await api.client.delete(ME, headers=me)
        assert (answer.status_code, answer.content) == (204, b""), answer.text
        assert members.deleted == {"auth|leaving"}
        assert await pool.fetchval("select count(*) from user_outbox where event_type = 'user.deleted'") == 1
        async with asyncio.timeout(60):
            status = 200
            while status != 401:
                await asyncio.sleep(0.05)
                status = (await api.client.get(intents_of(tenant), headers=me)).status_code


async def test_whoever_cannot_delete_themself_is_told_unauthorized(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    for headers in (
        {},
        {"x-api-key": tenant.key},
        as_service("credential:read", "intent:read", tenant=tenant),
        as_user_without_organization(),
        {"authorization": "Bearer x.y.z"},
    ):
        answer = await api.client.delete(ME, headers=headers)
        assert (answer.status_code, answer.content) == (401, b"unauthorized")
        assert answer.headers["content-type"].startswith("text/plain")
    assert await pool.fetchval("select count(*) from user_outbox") == 0


async def test_other_errors_of_delete_me_are_plain_text_too(api: RestApi, tenant: Tenant) -> None:
    answer = await api.client.delete(ME, headers=as_user(tenant) | {"x-api-key": tenant.key})
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    answer = await api.client.post(ME, headers=as_user(tenant))
    assert answer.status_code == 405
    assert answer.headers["content-type"].startswith("text/plain")

"""Organizations by the identity provider's id: who finds which, and that all others are not there for anybody."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from openbell_server.adapters.identity.workos import WorkOSProvider
from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_service, as_user
from support.identity.workos_provider import API_KEY, WorkOS, workos
from support.rest.rest_api import RestApi, problem, rest_api

FIELDS = ["id", "external_id", "name", "provider", "disabled", "created_at"]
# The same for all, so that answers can be compared to the last byte.
REQUEST_ID = {"x-request-id": "the-one"}


def external(tenant: Tenant) -> str:
    return f"org_{tenant.account.organization_id.hex}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """The route, with WorkOS behind it."""

    api: RestApi
    workos: WorkOS

    async def find(self, headers: dict[str, str], external_id: str, provider: str = "dev") -> httpx.Response:
        path = f"/v1/organizations/by-provider/{provider}/{external_id}"
        return await self.api.client.get(path, headers={**REQUEST_ID, **headers})


@pytest.fixture
async def lookup(pool: Pool) -> AsyncIterator[Lookup]:
    async with workos() as loopback, httpx.AsyncClient() as client:
        provider = WorkOSProvider(client, api_key=API_KEY, client_id="client_1", base_url=loopback.url)
        async with rest_api(pool, provider=provider) as api:
            yield Lookup(api, loopback)


async def test_a_service_account_finds_any_organization_without_a_header_or_a_scope(
    lookup: Lookup, pool: Pool, tenant: Tenant
) -> None:
    for each in (tenant, await a_tenant(pool)):
        answer = await lookup.find(as_service(), external(each))
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert list(body) == FIELDS
        assert (body["id"], body["external_id"]) == (str(each.account.organization_id), external(each))
        assert (body["name"], body["provider"], body["disabled"]) == ("Acme", "dev", False)
        created = await pool.fetchval(
            "select created_at from organizations where organization_id = $1", each.account.organization_id
        )
        assert body["created_at"] == created.isoformat().replace("+00:00", "Z")


async def test_a_user_finds_the_organization_of_the_token_and_the_provider_is_not_asked(
    lookup: Lookup, tenant: Tenant
) -> None:
    for role in ("admin", "member", "read_only", None):
        assert (await lookup.find(as_user(tenant, role), external(tenant))).status_code == 200
    assert lookup.workos.asked == []


async def test_a_user_finds_the_others_that_the_provider_lists(lookup: Lookup, pool: Pool, tenant: Tenant) -> None:
    theirs, left = await a_tenant(pool), await a_tenant(pool)
    lookup.workos.add_member("auth|7", external(theirs))
    lookup.workos.add_member("auth|7", external(left), "inactive")
    lookup.workos.add_member("auth|8", external(left))
    # A token that names no organization says who the user is as well as any other.
    for headers in (as_user(tenant), as_user(tenant, org_id=None)):
        assert (await lookup.find(headers, external(theirs))).json()["external_id"] == external(theirs)
        problem(await lookup.find(headers, external(left)), 404, "not_found")


async def test_the_provider_is_asked_once_a_minute_for_a_user(lookup: Lookup, pool: Pool, tenant: Tenant) -> None:
    theirs = await a_tenant(pool)
    lookup.workos.add_member("auth|7", external(theirs))
    for _ in range(3):
        assert (await lookup.find(as_user(tenant), external(theirs))).status_code == 200
        problem(await lookup.find(as_user(tenant), "org_unknown"), 404, "not_found")
    assert len(lookup.workos.asked) == 1


async def test_what_is_not_the_caller_s_and_what_is_nowhere_is_answered_alike_to_the_last_byte(
    lookup: Lookup, pool: Pool, tenant: Tenant
) -> None:
    theirs = external(await a_tenant(pool))
    lookup.workos.add_member("auth|7", "org_nowhere_here")
    answers = [
        await lookup.find(as_user(tenant), theirs),
        await lookup.find(as_user(tenant), "org_unknown"),
        await lookup.find(as_user(tenant), "org_nowhere_here"),
        await lookup.find(as_user(tenant), external(tenant), provider="okta"),
        await lookup.find(as_user(tenant), "%00"),
        await lookup.find(as_user(tenant), "x" * 300),
        await lookup.find(as_service(), "org_unknown"),
        await lookup.find(as_service(), "%00"),
        await lookup.find(as_service(), external(tenant), provider="workos"),
        await lookup.find(as_service(), external(tenant).upper()),
    ]
    assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}
    assert {tuple(answer.headers.items()) for answer in answers} == {tuple(answers[0].headers.items())}
    problem(answers[0], 404, "not_found")


async def test_an_id_is_taken_as_it_was_meant(lookup: Lookup, pool: Pool, tenant: Tenant) -> None:
    await pool.execute(
        "update organizations set external_id = 'a/b c%' where organization_id = $1", tenant.account.organization_id
    )
    assert (await lookup.find(as_service(), "a%2Fb%20c%25")).json()["external_id"] == "a/b c%"


async def test_while_the_provider_is_away_nothing_shows_whether_an_organization_is_there(
    lookup: Lookup, pool: Pool, tenant: Tenant
) -> None:
    lookup.workos.fault = "500"
    theirs = external(await a_tenant(pool))
    answers = [await lookup.find(as_user(tenant), each) for each in (theirs, "org_unknown")]
    problem(answers[0], 503, "identity_provider_unavailable")
    assert answers[0].content == answers[1].content
    assert (await lookup.find(as_user(tenant), external(tenant))).status_code == 200
    lookup.workos.fault = ""
    lookup.workos.add_member("auth|7", theirs)
    assert (await lookup.find(as_user(tenant), theirs)).status_code == 200, "trouble is not remembered"


async def test_without_the_provider_s_api_only_the_token_s_organization_is_found(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    found = Lookup(api, WorkOS())
    assert (await found.find(as_user(tenant), external(tenant))).status_code == 200
    problem(await found.find(as_user(tenant), external(await a_tenant(pool))), 404, "not_found")


async def test_keys_and_strangers_are_refused(lookup: Lookup, tenant: Tenant) -> None:
    problem(await lookup.find({"x-api-key": tenant.key}, external(tenant)), 403, "principal_kind_not_allowed")
    problem(await lookup.find({}, external(tenant)), 401, "unauthenticated")
    problem(await lookup.find({"authorization": "Bearer x.y.z"}, external(tenant)), 401, "unauthenticated")


async def test_the_login_of_the_processes_may_look_up(login_pool: Pool) -> None:
    tenant = await a_tenant(login_pool)
    async with rest_api(login_pool) as api:
        assert (await Lookup(api, WorkOS()).find(as_service(), external(tenant))).status_code == 200

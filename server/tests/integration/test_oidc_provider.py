"""Access tokens of a real OpenID provider, fetched and verified over loopback."""

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from openbell_server.adapters.identity import jwks
from openbell_server.adapters.identity.workos import WorkOSProvider
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.principals import PrincipalKind, Role
from support.builders.tenant import a_tenant
from support.identity.identity_provider import Clock
from support.identity.real_provider import issuer, provider, verifier
from support.identity.workos_provider import API_KEY, workos
from support.rest.rest_api import intents_of, rest_api

ALGORITHMS = ["RS256", "ES256", "EdDSA"]


async def fetch_token(client: httpx.AsyncClient, port: int, algorithm: str) -> str:
    response = await client.post(
        f"http://127.0.0.1:{port}/token",
        auth=(algorithm, f"secret-of-{algorithm}"),
        data={"grant_type": "client_credentials", "scope": "intent:read"},
    )
    assert response.status_code == 200, response.text
    token = response.json()["access_token"]
    assert isinstance(token, str)
    return token


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    # A machine that stands still for a while must not fail a test of something else.
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 60.0)
    async with httpx.AsyncClient(timeout=60) as client:
        yield client


async def test_tokens_of_a_real_provider_are_believed_by_their_own_audience_only(client: httpx.AsyncClient) -> None:
    async with provider() as port:
        ours = verifier(issuer(port), client, Clock())
        others = verifier(issuer(port, audience="https://other.test"), client, Clock())
        for algorithm in ALGORITHMS:
            token = await fetch_token(client, port, algorithm)
            claims = await ours.verify(token)
            assert claims is not None
            assert (claims.subject, claims.kind, claims.organization) == (algorithm, PrincipalKind.SERVICE, "org_9")
            assert (claims.role, claims.scopes) == (Role.MEMBER, frozenset({"intent:read"}))
            assert await others.verify(token) is None


async def test_a_provider_that_changed_its_keys_is_followed(client: httpx.AsyncClient) -> None:
    clock = Clock()
    async with provider() as port:
        tokens = verifier(issuer(port), client, clock)
        old = await fetch_token(client, port, "ES256")
        assert await tokens.verify(old) is not None
    async with provider(port):
        new = await fetch_token(client, port, "ES256")
        assert await tokens.verify(new) is None, "the keys were fetched within thirty seconds"
        clock.seconds += 60
        assert await tokens.verify(new) is not None
        assert await tokens.verify(old) is None, "its key was withdrawn and its verdict forgotten"


async def test_callers_of_a_real_provider_are_let_in_as_users_or_as_service_accounts(
    client: httpx.AsyncClient, pool: Pool
) -> None:
    tenant = await a_tenant(pool)
    organization = tenant.account.organization_id
    await pool.execute("update organizations set external_id = 'org_9' where organization_id = $1", organization)
    lookup = "/v1/organizations/by-provider/dev/org_9"
    async with provider() as port, workos() as loopback:
        loopback.add_member("ES256", "org_9")
        identity = WorkOSProvider(client, api_key=API_KEY, client_id="c", base_url=loopback.url)
        bearer = {"authorization": f"Bearer {await fetch_token(client, port, 'ES256')}"}
        machines = verifier(replace(issuer(port), provider="dev"), client, Clock())
        async with rest_api(pool, machines, provider=identity) as api:
            named = bearer | {"x-organization-id": str(organization)}
            assert (await api.client.get(intents_of(tenant), headers=named)).status_code == 200
            assert (await api.client.get(lookup, headers=bearer)).json()["id"] == str(organization)
            assert (await api.client.delete("/v1/users/me", headers=bearer)).text == "unauthorized"
        people = verifier(replace(issuer(port), kind=PrincipalKind.USER, provider="dev"), client, Clock())
        async with rest_api(pool, people, provider=identity) as api:
            assert (await api.client.get(intents_of(tenant), headers=bearer)).status_code == 200
            assert (await api.client.get(lookup, headers=bearer)).json()["id"] == str(organization)
            assert (await api.client.get("/v1/accounts/outbox/health", headers=bearer)).status_code == 403
            assert (await api.client.delete("/v1/users/me", headers=bearer)).status_code == 204
        assert loopback.users == set()

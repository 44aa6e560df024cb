"""What an organization's header and its state do to calls that are about no account."""

from typing import Any

from openbell_server.adapters.postgres.connection import Pool
from support.authorization.world import Members
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_user, external_id_of
from support.identity.identity_provider import PEOPLE
from support.rest.rest_api import RestApi, problem, rest_api


async def test_nobody_but_a_service_account_names_another_organization_whatever_is_called(pool: Pool) -> None:
    ours, theirs = await a_tenant(pool), await a_tenant(pool)
    another = {"x-organization-id": str(theirs.account.organization_id)}
    lookup = f"/v1/organizations/by-provider/{PEOPLE.provider}/{external_id_of(ours.account.organization_id)}"
    members = Members()
    async with rest_api(pool, provider=members) as api:
        problem(await api.client.get(lookup, headers=as_user(ours) | another), 403, "organization_mismatch")
        answer = await api.client.delete("/v1/users/me", headers=as_user(ours) | another)
        assert (answer.status_code, members.deleted) == (403, set())
        answer = await api.client.post(
            "/api/v1/auth/api-key/validate", json={"api_key": ours.key}, headers={"x-api-key": ours.key, **another}
        )
        problem(answer, 403, "organization_mismatch")


async def test_keys_of_a_disabled_organization_are_shown_and_revoked_and_not_changed(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await pool.execute("update organizations set disabled = true")
    path, admin = f"/v1/api-keys/{tenant.principal.id}", as_user(tenant)
    new: dict[str, Any] = {"name": "k", "environment": "paper", "permissions": ["intent:read"]}
    for answer in (
        await api.client.post("/v1/api-keys", json=new, headers=admin),
        await api.client.patch(path, json={"disabled": True}, headers=admin),
    ):
        problem(answer, 409, "organization_disabled")
    shown = await api.client.get(path, headers=admin)
    assert (shown.status_code, shown.json()["disabled"]) == (200, False)
    assert (await api.client.delete(path, headers=admin)).status_code == 204
    assert "revoked_at" in (await api.client.get(path, headers=admin)).json()

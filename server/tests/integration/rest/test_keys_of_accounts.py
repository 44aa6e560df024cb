"""Keys that are limited to accounts: every other account is, for them, one that does not exist."""

from dataclasses import replace
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_tenant, an_account
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi, create_body, intents_of, problem

PERMISSIONS = ["intent:edit", "intent:read", "account:read", "event:read", "control:read"]


async def limited_key(api: RestApi, tenant: Tenant, *accounts: object, **more: object) -> dict[str, Any]:
    body = {"name": "bot", "environment": "paper", "permissions": PERMISSIONS, **more}
    answer = await api.client.post(
        "/v1/api-keys", json={**body, "account_ids": [str(each) for each in accounts]}, headers=as_user(tenant)
    )
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_such_a_key_uses_its_accounts_and_gets_404_for_every_other(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    other = await an_account(pool, tenant.account.organization_id)
    made = await limited_key(api, tenant, tenant.account.id)
    assert made["account_ids"] == [str(tenant.account.id)]
    limited, headers = replace(tenant, key=made["api_key"]), {"x-api-key": made["api_key"]}
    assert (await api.submit(limited, create_body())).status_code == 202
    elsewhere = replace(limited, account=other)
    problem(await api.submit(elsewhere, create_body()), 404, "not_found")
    # Also through the router, which the fast path skips.
    problem(await api.client.post(intents_of(elsewhere) + "/", json=create_body(), headers=headers), 404, "not_found")
    path = f"/v1/accounts/{other.id}"
    for below in ("", "/intents", "/positions", "/balances", "/orders/external"):
        answer = await api.client.get(path + below, headers=headers)
        problem(answer, 404, "not_found")
        assert (
            answer.json()["detail"]
            == (await api.client.get(f"/v1/accounts/{made['id']}{below}", headers=headers)).json()["detail"]
        )
    for query in ("/v1/orders", "/v1/executions", "/v1/events", "/v1/controls/rules"):
        scope = "&scope=ACCOUNT" if query.endswith("rules") else ""
        problem(await api.client.get(f"{query}?account_id={other.id}{scope}", headers=headers), 404, "not_found")


async def test_lists_of_the_organization_have_only_the_accounts_of_the_key(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    other = replace(tenant, account=await an_account(pool, tenant.account.organization_id))
    await api.submit(tenant, create_body())
    await api.submit(other, create_body())
    made = await limited_key(api, tenant, tenant.account.id)
    for path, field in (("accounts", "id"), ("overview", "account_id"), ("orders", "account_id")):
        for key, count in ((tenant.key, 2), (made["api_key"], 1)):
            found = await api.client.get(f"/v1/{path}", headers={"x-api-key": key})
            assert len(found.json()["data"]) == count, (path, found.text)
            assert str(tenant.account.id) in [row[field] for row in found.json()["data"]]


async def test_it_reads_rules_of_its_accounts_and_of_itself_only(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    other = await an_account(pool, tenant.account.organization_id)
    made, another = [await limited_key(api, tenant, tenant.account.id) for _ in range(2)]
    places = [
        {"scope": "ACCOUNT", "account_id": str(tenant.account.id)},
        {"scope": "ACCOUNT", "account_id": str(other.id)},
        {"scope": "KEY", "api_key_id": made["id"]},
        {"scope": "KEY", "api_key_id": another["id"]},
    ]
    for place in places:
        rule = {"mode": "HARD", "parameters": {"quantity": "5"}, "reason": "test"}
        put = await api.client.put("/v1/controls/rules/QTY_MAX", params=place, json=rule, headers=as_user(tenant))
        assert put.status_code == 200, put.text
    headers = {"x-api-key": made["api_key"]}
    for path in ("rules", "changes"):
        found = await api.client.get(f"/v1/controls/{path}", headers=headers)
        listed = [(row["scope"], row.get("account_id", row.get("api_key_id"))) for row in found.json()["data"]]
        assert sorted(listed) == [("ACCOUNT", str(tenant.account.id)), ("KEY", made["id"])], found.text
    refused = await api.client.get("/v1/controls/rules/QTY_MAX", params=places[3], headers=headers)
    problem(refused, 404, "not_found")


async def test_it_lists_promised_heartbeats_of_its_accounts_and_of_itself_only(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    other = await an_account(pool, tenant.account.organization_id)
    made, another = [await limited_key(api, tenant, tenant.account.id) for _ in range(2)]
    places = [("ACCOUNT", "account_id", tenant.account.id), ("ACCOUNT", "account_id", other.id)]
    for scope, name, value in [*places, ("KEY", "api_key_id", made["id"]), ("KEY", "api_key_id", another["id"])]:
        path = f"/v1/controls/heartbeats?scope={scope}&{name}={value}"
        put = await api.client.put(path, json={"timeout_seconds": 300}, headers=as_user(tenant))
        assert put.status_code == 200, put.text
    found = await api.client.get("/v1/controls/heartbeats", headers={"x-api-key": made["api_key"]})
    listed = [(row["scope"], row.get("account_id", row.get("api_key_id"))) for row in found.json()["data"]]
    assert sorted(listed) == [("ACCOUNT", str(tenant.account.id)), ("KEY", made["id"])], found.text


async def test_it_gets_404_for_desk_commands_of_other_accounts(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    other = await an_account(pool, tenant.account.organization_id)
    made = await limited_key(api, tenant, tenant.account.id)
    headers, path = {"x-api-key": made["api_key"]}, f"/v1/accounts/{other.id}/desk-commands"
    problem(await api.client.post(path, json={"type": "CANCEL_ALL"}, headers=headers), 404, "not_found")
    problem(await api.client.get(path, headers=headers), 404, "not_found")


@pytest.mark.parametrize("permission", ["account:edit", "webhook:read", "webhook:edit"])
async def test_it_has_no_permission_that_is_of_every_account(api: RestApi, tenant: Tenant, permission: str) -> None:
    body = {"name": "bot", "environment": "paper", "permissions": [permission], "account_ids": [str(tenant.account.id)]}
    answer = await api.client.post("/v1/api-keys", json=body, headers=as_user(tenant))
    assert permission in str(problem(answer, 422, "invalid_command")["detail"])


async def test_its_accounts_are_open_ones_of_the_organization_and_environment(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    other = await a_tenant(pool)
    for wrong in ([], [str(other.account.id)], [str(tenant.account.organization_id)]):
        body = {"name": "bot", "environment": "paper", "permissions": ["intent:read"], "account_ids": wrong}
        problem(await api.client.post("/v1/api-keys", json=body, headers=as_user(tenant)), 422, "invalid_command")
    body = {"name": "x", "environment": "live", "permissions": ["intent:read"], "account_ids": [str(tenant.account.id)]}
    problem(await api.client.post("/v1/api-keys", json=body, headers=as_user(tenant)), 422, "invalid_command")

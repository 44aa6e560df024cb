"""A key for an agent is created with the rules that limit it, or not at all."""

from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi, pointers, problem

EXPIRES = "2099-01-01T00:00:00Z"


def budget(tenant: Tenant, **more: object) -> dict[str, Any]:
    return {
        "account_ids": [str(tenant.account.id)],
        "symbols": ["AAPL", "MSFT"],
        "order_notional": "1000",
        "day_notional": "5000",
        "day_loss": "200",
        "currency": "USD",
        "orders_per_minute": 10,
        **more,
    }


async def post(api: RestApi, tenant: Tenant, agent: dict[str, Any], **more: object) -> httpx.Response:
    body = {"name": "agent", "expires_at": EXPIRES, "agent": agent, **more}
    return await api.client.post("/v1/api-keys", json=body, headers=as_user(tenant))


async def rules_of(api: RestApi, tenant: Tenant, key: str) -> dict[str, dict[str, Any]]:
    where = {"scope": "KEY", "api_key_id": key}
    found = await api.client.get("/v1/controls/rules", params=where, headers=as_user(tenant))
    assert found.status_code == 200, found.text
    return {rule["code"]: rule for rule in found.json()["data"]}


async def test_the_key_of_an_agent_is_for_paper_with_fixed_permissions_and_has_each_limit_as_a_rule(
    api: RestApi, tenant: Tenant
) -> None:
    made = (await post(api, tenant, budget(tenant))).json()
    assert (made["environment"], made["own_orders_only"]) == ("paper", True)
    assert made["permissions"] == ["account:read", "control:read", "event:read", "intent:edit", "intent:read"]
    assert made["account_ids"] == [str(tenant.account.id)]
    rules = await rules_of(api, tenant, made["id"])
    assert {code: rule["in_force"]["parameters"] for code, rule in rules.items()} == {
        "RESTRICTED": {"list": "ALLOW_ONLY", "symbols": ["AAPL", "MSFT"]},
        "SIDE_NOT_ALLOWED": {"no_short": True},
        "NOTIONAL_MAX": {"value": "1000", "currency": "USD"},
        "DAY_NOTIONAL_MAX": {"value": "5000", "currency": "USD"},
        "DUPLICATE": {"callers_may_override": False},
        "RATE_ORDERS": {"count": 10, "window_millis": 60_000},
        "OPEN_ORDERS_MAX": {"count": 10},
        "LOSS_MAX": {"value": "200", "currency": "USD"},
    }
    for rule in rules.values():
        assert (rule["in_force"]["mode"], rule["in_force"]["on_missing"], rule["version"]) == ("HARD", "DENY", 1)
        assert rule["reason"] == "budget of an agent key"


async def test_each_rule_is_in_the_history_and_in_the_audit_log_and_an_admin_changes_it(
    api: RestApi, tenant: Tenant
) -> None:
    made = (await post(api, tenant, budget(tenant))).json()
    where, admin = {"scope": "KEY", "api_key_id": made["id"]}, as_user(tenant)
    changes = await api.client.get("/v1/controls/changes", params=where, headers=admin)
    assert len(changes.json()["data"]) == 8
    audited = await api.client.get("/v1/audit", params={"order": "desc", "limit": 9}, headers=admin)
    assert [row["operation"] for row in audited.json()["data"]] == ["controls rule"] * 8 + ["keys create"]
    rule = {"mode": "HARD", "on_missing": "DENY", "parameters": {"value": "500", "currency": "USD"}, "reason": "less"}
    put = await api.client.put("/v1/controls/rules/NOTIONAL_MAX", params=where, json=rule, headers=admin)
    assert put.status_code == 200
    refused = await api.client.put(
        "/v1/controls/rules/NOTIONAL_MAX", params=where, json=rule, headers={"x-api-key": made["api_key"]}
    )
    assert refused.status_code == 403


@pytest.mark.parametrize(
    ("agent", "more", "pointer"),
    [
        ({"order_notional": "-1"}, {}, "/agent/order_notional"),
        ({"day_notional": "1e9"}, {}, "/agent/day_notional"),
        ({"currency": "usd"}, {}, "/agent/currency"),
        ({"orders_per_minute": 0}, {}, "/agent/orders_per_minute"),
        ({"timezone": "Mars"}, {}, "/agent/timezone"),
        ({"account_ids": []}, {}, "/account_ids"),
        ({}, {"expires_at": None}, "/expires_at"),
        ({}, {"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({}, {"permissions": ["intent:edit"]}, "/permissions"),
        ({}, {"own_orders_only": False}, "/own_orders_only"),
        ({}, {"environment": "live"}, "/account_ids"),
    ],
)
async def test_a_budget_that_no_rule_can_have_creates_nothing(
    api: RestApi, pool: Pool, tenant: Tenant, agent: dict[str, Any], more: dict[str, Any], pointer: str
) -> None:
    refused = problem(await post(api, tenant, budget(tenant, **agent), **more), 422, "invalid_command")
    assert pointers(refused) == [pointer], refused
    assert await pool.fetchval("select count(*) from control_rules where scope = 'KEY'") == 0


async def test_nobody_but_an_admin_creates_one(api: RestApi, tenant: Tenant) -> None:
    body = {"name": "agent", "expires_at": EXPIRES, "agent": budget(tenant)}
    for headers in ({"x-api-key": tenant.key}, as_user(tenant, "member")):
        assert (await api.client.post("/v1/api-keys", json=body, headers=headers)).status_code == 403

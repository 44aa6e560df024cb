"""The routes of promised heartbeats: a key promises for itself, an admin for any key and account."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.heartbeats import SCOPES
from support.builders.tenant import Tenant, a_key, a_tenant, with_tightening_key
from support.identity.bearers import Headers, as_user
from support.rest.rest_api import RestApi, control_path, create_body, pointers, problem

OWN = "/v1/controls/heartbeats?scope=KEY"
BODY = {"timeout_seconds": 30, "cancel_working": True}


def as_key(tenant: Tenant) -> Headers:
    return {"x-api-key": tenant.key}


async def beat(
    api: RestApi, tenant: Tenant, headers: Headers, scope: Scope = Scope.KEY, **body: object
) -> httpx.Response:
    return await api.client.put(control_path("heartbeats", tenant, scope), json={**BODY, **body}, headers=headers)


async def disarm(api: RestApi, tenant: Tenant, headers: Headers, scope: Scope = Scope.KEY) -> httpx.Response:
    return await api.client.delete(control_path("heartbeats", tenant, scope), headers=headers)


async def listed(api: RestApi, tenant: Tenant, query: str = "") -> list[dict[str, Any]]:
    answer = await api.client.get(f"/v1/controls/heartbeats{query}", headers=as_user(tenant, "member"))
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def trader(pool: Pool, tenant: Tenant) -> Tenant:
    """The tenant with a key that only trades."""
    organization_id = tenant.account.organization_id
    principal, key = await a_key(pool, organization_id, permissions=frozenset({"intent:edit", "intent:read"}))
    return replace(tenant, principal=principal, key=key)


async def test_a_trading_key_arms_renews_and_disarms_a_promise_of_its_own(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    bot = await trader(pool, tenant)
    armed = (await api.client.put(OWN, json=BODY, headers=as_key(bot))).json()
    assert (armed["scope"], armed["api_key_id"], armed["status"]) == ("KEY", bot.principal.id, "ARMED")
    assert (armed["timeout_seconds"], armed["cancel_working"], armed["required"]) == (30, True, False)
    assert (armed["principal_type"], armed["principal_id"]) == ("API_KEY", bot.principal.id)
    renewed = (await beat(api, bot, as_key(bot))).json()
    assert renewed["last_beat_at"] > armed["last_beat_at"]
    assert renewed["expires_at"] > armed["expires_at"]
    assert await listed(api, tenant) == [renewed]
    assert (await api.client.delete(OWN, headers=as_key(bot))).status_code == 204
    assert await listed(api, tenant) == []
    problem(await api.client.delete(OWN, headers=as_key(bot)), 404, "not_found")


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_request_that_comes_too_late_is_refused_and_the_halt_works_like_a_person_s(
    api: RestApi, pool: Pool, tenant: Tenant, scope: Scope
) -> None:
    assert (await beat(api, tenant, as_user(tenant), scope)).status_code == 200
    await pool.execute("update heartbeats set expires_at = now() - interval '1 second'")
    late = problem(await beat(api, tenant, as_key(tenant), scope), 409, "heartbeat_missed")
    assert f"so the {scope.lower()} is halted" in str(late["detail"])
    problem(await disarm(api, tenant, as_user(tenant), scope), 409, "heartbeat_missed")
    (expired,) = await listed(api, tenant)
    assert expired["status"] == "EXPIRED"
    refused = problem(await api.submit(tenant, create_body()), 422, "controls_refused")
    assert "refused by HALTED" in str(refused["detail"])
    switches = await api.client.get(control_path("switches", tenant, scope), headers=as_user(tenant))
    (switch,) = switches.json()["data"]
    assert (switch["status"], switch["cancel_working"], switch["version"]) == ("HALTED", True, 1)
    assert (switch["principal_type"], switch["principal_id"]) == ("SYSTEM", "heartbeat")
    assert switch["reason"].startswith("HEARTBEAT_LOST: no heartbeat for 30 s")
    effective = await api.client.get(
        f"/v1/controls/effective?account_id={tenant.account.id}&api_key_id={tenant.principal.id}",
        headers=as_user(tenant),
    )
    (row,) = [row for row in effective.json()["data"] if row["code"] == "SWITCH"]
    assert row["reason"] == switch["reason"]
    lift = {"status": "ACTIVE", "reason": "the bot runs again"}
    # Latched: a key that only tightens does not lift it.
    bot = await with_tightening_key(pool, tenant)
    path = control_path("switches", tenant, Scope.ACCOUNT)
    if scope is Scope.ACCOUNT:
        problem(await api.client.put(path, json=lift, headers=as_key(bot)), 403, "permission_denied")
    lifted = await api.client.put(control_path("switches", tenant, scope), json=lift, headers=as_user(tenant))
    assert lifted.status_code == 200
    assert (await beat(api, tenant, as_user(tenant), scope)).json()["status"] == "ARMED"


async def test_a_key_promises_for_no_other_key_and_a_user_names_one(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    bot = await trader(pool, tenant)
    for call in (beat(api, tenant, as_key(bot)), disarm(api, tenant, as_key(bot))):
        detail = problem(await call, 403, "permission_denied")["detail"]
        assert "a key promises heartbeats for itself" in str(detail)
    nameless = problem(await api.client.put(OWN, json=BODY, headers=as_user(tenant)), 400, "invalid_parameter")
    assert pointers(nameless) == ["/api_key_id"]
    assert (await beat(api, bot, as_user(tenant))).status_code == 200


async def test_a_key_neither_disarms_nor_lengthens_what_an_admin_requires_of_it(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    bot = await trader(pool, tenant)
    assert (await beat(api, bot, as_user(tenant))).json()["required"]
    renewed = (await beat(api, bot, as_key(bot))).json()
    assert (renewed["required"], renewed["principal_type"]) == (True, "USER")
    for answer, why in (
        (await beat(api, bot, as_key(bot), timeout_seconds=31), "heartbeats could be further apart"),
        (await beat(api, bot, as_key(bot), cancel_working=False), "no longer cancel working orders"),
        (await disarm(api, bot, as_key(bot)), "heartbeats would no longer be required"),
    ):
        detail = str(problem(answer, 403, "permission_denied")["detail"])
        assert why in detail
        assert "control:loosen" in detail
    assert (await disarm(api, bot, as_user(tenant))).status_code == 204


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"timeout_seconds": 4}, "/timeout_seconds"),
        ({"timeout_seconds": 301}, "/timeout_seconds"),
        ({"timeout_seconds": 0}, "/timeout_seconds"),
        ({"timeout_seconds": "30"}, "/timeout_seconds"),
        ({"timeout_seconds": 30, "cancel_working": 1}, "/cancel_working"),
        ({"timeout_seconds": 30, "cancel": True}, "/cancel"),
        ({}, "/timeout_seconds"),
    ],
)
async def test_a_promise_that_cannot_be_kept_names_the_field(
    api: RestApi, tenant: Tenant, body: object, pointer: str
) -> None:
    answer = await api.client.put(OWN, json=body, headers=as_key(tenant))
    assert pointers(problem(answer, 422, "invalid_command")) == [pointer]


async def test_the_list_is_the_organization_s_by_pages_and_filters(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    bot, stranger = await trader(pool, tenant), await a_tenant(pool)
    for whose in (bot, tenant):
        assert (await beat(api, whose, as_user(tenant))).status_code == 200
    assert (await beat(api, tenant, as_user(tenant), Scope.ACCOUNT)).status_code == 200
    assert (await beat(api, stranger, as_user(stranger))).status_code == 200
    pages, _ = await api.read_pages("/v1/controls/heartbeats", as_user(tenant), 1)
    places = [(each["scope"], each.get("api_key_id"), each.get("account_id")) for each in pages]
    mine, account_id = tenant.principal.id, str(tenant.account.id)
    assert places == [("KEY", bot.principal.id, None), ("KEY", mine, None), ("ACCOUNT", None, account_id)]
    assert [each["scope"] for each in await listed(api, tenant, "?scope=KEY")] == ["KEY", "KEY"]
    assert [each["api_key_id"] for each in await listed(api, tenant, f"?api_key_id={mine}")] == [mine]
    assert [each["scope"] for each in await listed(api, tenant, f"?account_id={account_id}")] == ["ACCOUNT"]

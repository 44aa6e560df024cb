"""The founding contract on symbol controls: shapes, what a PUT and a PATCH leave and remove, and who may."""

from datetime import datetime
from uuid import UUID

import httpx

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import TRADING_LIVE, Environment
from support.builders.tenant import Tenant, a_key, a_tenant
from support.identity.bearers import Headers, as_service, as_user
from support.rest.rest_api import RestApi, problem

MANUAL = {"account_id", "organization_id", "symbol", "manually_disabled", "created_at", "updated_at", "version"}
TIME = {
    "account_id",
    "organization_id",
    "symbol",
    "trading_start",
    "trading_end",
    "stale_order_millis",
    "created_at",
    "updated_at",
    "version",
}


def control_of(tenant: Tenant, symbol: str = "AAPL") -> str:
    return f"/v1/controls/accounts/{tenant.account.id}/symbols/{symbol}"


async def put(api: RestApi, tenant: Tenant, body: object, headers: Headers | None = None) -> httpx.Response:
    return await api.client.put(control_of(tenant), json=body, headers=headers or as_user(tenant))


async def patch(api: RestApi, tenant: Tenant, body: object, headers: Headers | None = None) -> httpx.Response:
    return await api.client.patch(f"{control_of(tenant)}/time", json=body, headers=headers or as_user(tenant))


async def test_a_put_creates_or_replaces_and_clears_what_it_leaves_out(api: RestApi, tenant: Tenant) -> None:
    first = await put(api, tenant, {"manually_disabled": True, "manual_reason": "earnings"})
    assert first.status_code == 200, first.text
    made = first.json()
    assert set(made) == MANUAL | {"manual_reason"}
    assert (made["manually_disabled"], made["manual_reason"], made["symbol"]) == (True, "earnings", "AAPL")
    assert made["account_id"] == str(UUID(made["account_id"])) == str(tenant.account.id)
    assert made["organization_id"] == str(UUID(made["organization_id"])) == str(tenant.account.organization_id)
    replaced = (await put(api, tenant, {"manually_disabled": False})).json()
    assert set(replaced) == MANUAL
    assert replaced["manually_disabled"] is False
    assert (type(made["version"]), replaced["version"]) == (int, made["version"] + 1)
    assert replaced["created_at"] == made["created_at"]
    assert datetime.fromisoformat(replaced["updated_at"]) > datetime.fromisoformat(made["updated_at"])


async def test_a_patch_creates_or_patches_and_leaves_what_is_omitted_or_null(api: RestApi, tenant: Tenant) -> None:
    first = await patch(
        api, tenant, {"trading_start": "09:30:00", "trading_end": "16:00:00", "stale_order_millis": 5000}
    )
    assert first.status_code == 200, first.text
    made = first.json()
    assert set(made) >= TIME
    window = {"trading_start": "09:30:00", "trading_end": "16:00:00", "stale_order_millis": 5000}
    assert {name: made[name] for name in window} == window
    for body in ({}, {"trading_start": None, "trading_end": None, "stale_order_millis": None}):
        left = (await patch(api, tenant, body)).json()
        assert {name: left[name] for name in window} == window
    later = (await patch(api, tenant, {"trading_start": "10:00:00"})).json()
    assert (later["trading_start"], later["trading_end"]) == ("10:00:00", "16:00:00")
    assert (type(later["version"]), later["created_at"]) == (int, made["created_at"])


async def test_names_in_clear_are_removed_and_stale_order_millis_is_one(api: RestApi, tenant: Tenant) -> None:
    await patch(api, tenant, {"trading_start": "09:30:00", "trading_end": "16:00:00", "stale_order_millis": 5000})
    cleared = (await patch(api, tenant, {"clear": ["stale_order_millis"]})).json()
    assert (cleared["stale_order_millis"], cleared["trading_start"]) == (None, "09:30:00")
    opened = (await patch(api, tenant, {"clear": ["trading_start", "trading_end"]})).json()
    assert not {"trading_start", "trading_end"} & set(opened)
    problem(await patch(api, tenant, {"clear": ["nothing"]}), 422, "invalid_command")


async def test_a_time_of_day_is_hours_minutes_and_seconds(api: RestApi, tenant: Tenant) -> None:
    for wrong in ("9:30:00", "09:30", "25:00:00", "09:30:00Z", "09:30:00.5", 930, ""):
        problem(await patch(api, tenant, {"trading_start": wrong}), 422, "invalid_command")


async def test_a_put_leaves_the_window_and_a_patch_the_switch(api: RestApi, tenant: Tenant) -> None:
    await put(api, tenant, {"manually_disabled": True, "manual_reason": "halt"})
    await patch(api, tenant, {"trading_start": "09:30:00"})
    again = (await put(api, tenant, {"manually_disabled": True, "manual_reason": "halt"})).json()
    assert again["version"] == 2
    window = (await patch(api, tenant, {})).json()
    assert window["trading_start"] == "09:30:00"


async def test_controls_need_controls_premium_and_who_edits_them_must_be_allowed_to(api: RestApi, pool: Pool) -> None:
    plain = await a_tenant(pool, entitlements=frozenset({TRADING_LIVE}))
    problem(await put(api, plain, {"manually_disabled": True}), 403, "entitlement_required")
    problem(await patch(api, plain, {"trading_start": "09:30:00"}), 403, "entitlement_required")
    tenant = await a_tenant(pool)
    for call, body in ((put, {"manually_disabled": True}), (patch, {"trading_start": "09:30:00"})):
        assert (await call(api, tenant, body, as_user(tenant, "admin"))).status_code == 200
        for role in ("member", "read_only"):
            problem(await call(api, tenant, body, as_user(tenant, role)), 403, "permission_denied")
        problem(
            await call(api, tenant, body, as_service("control:read", tenant=tenant)), 403, "principal_kind_not_allowed"
        )
        assert (await call(api, tenant, body, {"x-api-key": tenant.key})).status_code == 200


async def test_a_key_needs_control_edit_for_the_environment_of_the_account(api: RestApi, pool: Pool) -> None:
    live = await a_tenant(pool, environment=Environment.LIVE)
    organization = live.account.organization_id
    for environment, permissions, status in (
        (Environment.LIVE, {"control:edit:live"}, 200),
        (Environment.LIVE, {"control:edit:paper"}, 403),
        (Environment.LIVE, {"intent:edit", "control:read"}, 403),
        (Environment.PAPER, {"control:edit:paper"}, 403),
    ):
        _, key = await a_key(pool, organization, environment, frozenset(permissions))
        for call, body in ((put, {"manually_disabled": True}), (patch, {"trading_start": "09:30:00"})):
            answer = await call(api, live, body, {"x-api-key": key})
            assert answer.status_code == status, (environment, permissions, answer.text)


async def test_a_control_is_set_only_on_an_account_of_the_callers_organization(api: RestApi, pool: Pool) -> None:
    ours, theirs = await a_tenant(pool), await a_tenant(pool)
    problem(await put(api, theirs, {"manually_disabled": True}, as_user(ours)), 404, "not_found")
    problem(await patch(api, theirs, {"trading_start": "09:30:00"}, as_user(ours)), 404, "not_found")

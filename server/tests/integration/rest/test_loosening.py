"""Who may loosen over REST: keys tighten, admins and keys with control:loosen also loosen."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import TRADING_LIVE, Environment
from openbell_server.domain.controls.findings import Scope
from support.builders.tenant import Tenant, a_tenant, an_account, with_tightening_key
from support.identity.bearers import Headers, as_user
from support.rest.rest_api import RestApi, cancel_body, control_path, create_body, problem, replace_body

QTY = {"quantity": "10"}
RACES = 20


def as_key(tenant: Tenant) -> Headers:
    return {"x-api-key": tenant.key}


async def put_rule(
    api: RestApi, tenant: Tenant, headers: Headers, parameters: object = None, code: str = "QTY_MAX", **more: Any
) -> httpx.Response:
    body = {"mode": "HARD", "parameters": QTY if parameters is None else parameters, "reason": "tests", **more}
    return await api.client.put(control_path(f"rules/{code}", tenant), json=body, headers=headers)


async def halt(api: RestApi, tenant: Tenant, state: str = "HALTED", scope: Scope = Scope.ACCOUNT) -> httpx.Response:
    body = {"status": state, "reason": "tests"}
    return await api.client.put(control_path("switches", tenant, scope), json=body, headers=as_user(tenant))


async def open_one(api: RestApi, headers: Headers, environment: str = "paper") -> httpx.Response:
    body = {"name": "fresh", "broker": "paper", "environment": environment}
    return await api.client.post("/v1/accounts", json=body, headers=headers)


async def patch_account(api: RestApi, tenant: Tenant, headers: Headers, **body: object) -> httpx.Response:
    return await api.client.patch(f"/v1/accounts/{tenant.account.id}", json=body, headers=headers)


def refusal_of(answer: httpx.Response) -> str:
    return str(problem(answer, 403, "permission_denied")["detail"])


async def test_a_key_tightens_a_rule_and_is_refused_every_way_to_loosen_it(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    key, admin = await with_tightening_key(pool, tenant), as_user(tenant)
    assert (await put_rule(api, tenant, admin)).status_code == 200
    assert (await put_rule(api, tenant, as_key(key), {"quantity": "9"}, on_missing="DENY")).status_code == 200
    ways: list[dict[str, Any]] = [
        {"parameters": {"quantity": "9.5"}},
        {"parameters": {"quantity": "9"}, "mode": "SHADOW"},
        {"parameters": {"quantity": "9"}, "on_missing": "ALLOW"},
        {"parameters": {"quantity": "9"}},
        {"parameters": {"quantity": "11"}, "on_missing": "DENY", "expires_at": "2036-01-05T21:00:00Z"},
    ]
    for way in ways:
        detail = refusal_of(await put_rule(api, tenant, as_key(key), **way))
        assert "of QTY_MAX would be less strict" in detail
        assert "control:loosen" in detail
    gone = await api.client.delete(control_path("rules/QTY_MAX", tenant), headers=as_key(key))
    assert "QTY_MAX would no longer apply" in refusal_of(gone)
    shown = await api.client.get(control_path("rules/QTY_MAX", tenant), headers=admin)
    assert (shown.json()["version"], shown.json()["in_force"]["parameters"]) == (2, {"quantity": "9"})
    # The tenant's own key has control:loosen.
    assert (await put_rule(api, tenant, as_key(tenant), {"quantity": "20"})).status_code == 200
    assert (await api.client.delete(control_path("rules/QTY_MAX", tenant), headers=admin)).status_code == 204


async def test_a_change_is_classified_against_the_rule_that_it_replaces_and_not_against_an_earlier_read(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    """A key lowers 10 to 8 while an admin lowers it to 5: whoever is first, 8 never replaces 5."""
    key, admin = await with_tightening_key(pool, tenant), as_user(tenant)
    refused = 0
    for _ in range(RACES):
        assert (await put_rule(api, tenant, admin)).status_code == 200
        by_admin, *by_key = await asyncio.gather(
            put_rule(api, tenant, admin, {"quantity": "5"}),
            *(put_rule(api, tenant, as_key(key), {"quantity": "8"}) for _ in range(3)),
        )
        assert by_admin.status_code == 200
        assert {answer.status_code for answer in by_key} <= {200, 403}
        refused += sum(answer.status_code == 403 for answer in by_key)
        shown = await api.client.get(control_path("rules/QTY_MAX", tenant), headers=admin)
        assert shown.json()["in_force"]["parameters"] == {"quantity": "5"}
    assert refused > 0


async def put_symbol(api: RestApi, tenant: Tenant, headers: Headers, *, off: bool) -> httpx.Response:
    path = f"/v1/controls/accounts/{tenant.account.id}/symbols/AAPL"
    return await api.client.put(path, json={"manually_disabled": off}, headers=headers)


async def patch_time(api: RestApi, tenant: Tenant, headers: Headers, **body: object) -> httpx.Response:
    return await api.client.patch(
        f"/v1/controls/accounts/{tenant.account.id}/symbols/AAPL/time", json=body, headers=headers
    )


async def test_a_key_enables_a_symbol_that_a_key_disabled_and_not_one_that_a_user_disabled(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    key, admin = as_key(await with_tightening_key(pool, tenant)), as_user(tenant)
    for who in (as_key(tenant), key):
        assert (await put_symbol(api, tenant, who, off=True)).status_code == 200
        assert (await put_symbol(api, tenant, key, off=False)).status_code == 200
    assert (await put_symbol(api, tenant, admin, off=True)).status_code == 200
    # Disabling it once more does not make it the key's.
    assert (await put_symbol(api, tenant, key, off=True)).status_code == 200
    assert "the symbol would be enabled again" in refusal_of(await put_symbol(api, tenant, key, off=False))
    assert (await put_symbol(api, tenant, as_key(tenant), off=False)).status_code == 200


async def test_a_key_undoes_trading_times_that_a_key_set_and_not_those_of_a_user(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    key, admin = as_key(await with_tightening_key(pool, tenant)), as_user(tenant)
    assert (await patch_time(api, tenant, key, trading_start="09:30:00", stale_order_millis=5)).status_code == 200
    assert (await patch_time(api, tenant, key, clear=["trading_start", "stale_order_millis"])).status_code == 200
    assert (await patch_time(api, tenant, admin, trading_start="09:30:00")).status_code == 200
    assert (await patch_time(api, tenant, key, trading_start="10:00:00", stale_order_millis=5)).status_code == 200
    assert (await patch_time(api, tenant, key, clear=["stale_order_millis"])).status_code == 200
    for body in ({"clear": ["trading_start"]}, {"trading_start": "09:30:00"}, {"timezone": "Asia/Tokyo"}):
        assert "the trading window" in refusal_of(await patch_time(api, tenant, key, **body))
    assert (await patch_time(api, tenant, as_key(tenant), clear=["trading_start"])).status_code == 200


async def test_a_key_disables_an_account_and_does_not_enable_it(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    key = as_key(await with_tightening_key(pool, tenant))
    assert (await patch_account(api, tenant, key, name="mine")).status_code == 200
    assert "windows without a zone" in refusal_of(await patch_account(api, tenant, key, timezone="Asia/Tokyo"))
    assert (await patch_account(api, tenant, key, disabled=True)).status_code == 200
    assert "enabled again" in refusal_of(await patch_account(api, tenant, key, disabled=False))
    assert (await patch_account(api, tenant, as_user(tenant), disabled=False)).status_code == 200


async def test_a_key_opens_no_account_while_one_of_its_environment_is_stopped(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    key, admin = as_key(await with_tightening_key(pool, tenant)), as_user(tenant)
    assert (await open_one(api, key)).status_code == 201
    for state in ("HALTED", "REDUCE_ONLY"):
        assert (await halt(api, tenant, state)).status_code == 200
        assert "another account of this environment" in refusal_of(await open_one(api, key))
        assert (await open_one(api, as_key(tenant))).status_code == 201
        assert (await open_one(api, admin)).status_code == 201
    assert (await halt(api, tenant, "ACTIVE")).status_code == 200
    assert (await open_one(api, key)).status_code == 201
    await patch_account(api, tenant, admin, disabled=True)
    refusal_of(await open_one(api, key))
    await patch_account(api, tenant, admin, disabled=False)
    await pool.execute("update account_counters set halt_code = 'X' where account_id = $1", tenant.account.id)
    refusal_of(await open_one(api, key))
    await pool.execute("update account_counters set halt_code = null where account_id = $1", tenant.account.id)
    # A closed account stops nobody, and neither does one of the other environment.
    closed = (await open_one(api, admin)).json()["id"]
    assert (await api.client.delete(f"/v1/accounts/{closed}", headers=admin)).status_code == 204
    other = replace(tenant, account=await an_account(pool, tenant.account.organization_id, Environment.LIVE))
    assert (await halt(api, other)).status_code == 200
    assert (await open_one(api, key)).status_code == 201


async def test_no_account_is_opened_by_a_key_after_a_halt_of_another_was_committed(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    key = as_key(await with_tightening_key(pool, tenant))
    for _ in range(RACES):
        assert (await halt(api, tenant, "ACTIVE")).status_code == 200
        halted, *opened = await asyncio.gather(halt(api, tenant), *(open_one(api, key) for _ in range(3)))
        assert halted.status_code == 200
        assert {answer.status_code for answer in opened} <= {201, 403}
        late = [answer for answer in opened if answer.status_code == 201]
        assert all(answer.json()["created_at"] < halted.json()["updated_at"] for answer in late)


async def test_a_new_account_starts_under_every_halt_and_rule_of_its_organization(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    admin = as_user(tenant)
    path = control_path("rules/QTY_MAX", tenant, Scope.ORGANIZATION)
    body = {"mode": "HARD", "parameters": {"quantity": "5"}, "reason": "tests"}
    assert (await api.client.put(path, json=body, headers=admin)).status_code == 200
    assert (await halt(api, tenant, scope=Scope.ORGANIZATION)).status_code == 200
    key = as_key(await with_tightening_key(pool, tenant))
    # The halt covers the new account too, so opening it loosens nothing.
    fresh = (await open_one(api, key)).json()["id"]
    answer = await api.client.post(f"/v1/accounts/{fresh}/intents", json=create_body(), headers=as_key(tenant))
    receipt: Any = problem(answer, 422, "controls_refused")["receipt"]
    assert [line["code"] for line in receipt["rules"] if line["verdict"] == "REFUSED"] == ["HALTED", "QTY_MAX"]


@pytest.mark.parametrize(("environment", "status"), [(Environment.PAPER, 202), (Environment.LIVE, 422)])
async def test_allow_duplicate_is_honoured_on_paper_and_on_live_only_if_the_rule_permits_it(
    api: RestApi, pool: Pool, environment: Environment, status: int
) -> None:
    tenant = await a_tenant(pool, entitlements=frozenset({"controls_premium", TRADING_LIVE}), environment=environment)
    admin, meant = as_user(tenant), create_body() | {"allow_duplicate": True}
    window = {"window_millis": 60_000}
    assert (await put_rule(api, tenant, admin, window, "DUPLICATE")).status_code == 200
    assert (await api.submit(tenant, create_body())).status_code == 202
    second = await api.submit(tenant, meant)
    assert second.status_code == status
    if status == 422:
        (line,) = [rule for rule in second.json()["receipt"]["rules"] if rule["code"] == "DUPLICATE"]
        assert line["inputs"]["callers_may_override"] == "false"
        assert second.json()["receipt"]["command"]["allow_duplicate"] is True
    permits = window | {"callers_may_override": status != 202}
    assert (await put_rule(api, tenant, admin, permits, "DUPLICATE")).status_code == 200
    assert (await api.submit(tenant, meant)).status_code == (422 if status == 202 else 202)


async def a_stop(api: RestApi, tenant: Tenant) -> str:
    body: Any = create_body("Stop", stop_price="90")
    body["command"]["payload"]["order_side"] = "SELL"
    answer = await api.submit(tenant, body)
    assert answer.status_code == 202
    return str(answer.json()["intent_id"])


@pytest.mark.parametrize(("position", "status"), [(10, 422), (0, 202), (-10, 202)])
async def test_a_stop_that_protects_a_position_is_not_made_smaller_while_the_account_is_halted(
    api: RestApi, pool: Pool, tenant: Tenant, position: int, status: int
) -> None:
    where = (tenant.account.organization_id, tenant.account.id)
    await pool.execute(
        "insert into positions (organization_id, account_id, symbol, quantity, updated_at)"
        " values ($1, $2, 'AAPL', $3, now())",
        *where,
        position,
    )
    await pool.execute("update account_counters set positions_as_of = now() where account_id = $1", tenant.account.id)
    intent = await a_stop(api, tenant)
    assert (await halt(api, tenant)).status_code == 200
    smaller = await api.submit(tenant, replace_body(intent, "Stop", quantity="1", stop_price="90"))
    assert smaller.status_code == status
    if status == 422:
        receipt = smaller.json()["receipt"]
        assert receipt["command"]["protects_position"] is True
        assert [line["code"] for line in receipt["rules"] if line["verdict"] == "REFUSED"] == ["HALTED"]
    assert (await api.submit(tenant, cancel_body(intent))).status_code == 202

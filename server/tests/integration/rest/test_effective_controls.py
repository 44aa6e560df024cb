"""The controls in force at a place: every scope, the strictest marked, as the evaluation of a command uses them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import PLATFORM_ID, Address, RuleTerms
from support.builders.tenant import Tenant, a_key, a_tenant
from support.identity.bearers import as_user
from support.rest.openapi_conformance import Conformance
from support.rest.rest_api import SCOPES, RestApi, control_path, create_body, pointers, problem
from support.tenancy.halts import OLGA

PATH = "/v1/controls/effective"


def wanted(quantity: str, **more: object) -> dict[str, object]:
    return {"mode": "HARD", "parameters": {"quantity": quantity}, "reason": "fat fingers", **more}


async def put(
    api: RestApi, tenant: Tenant, scope: Scope, body: object, code: str = "QTY_MAX", **query: object
) -> dict[str, Any]:
    what = "switches" if code == "SWITCH" else f"rules/{code}"
    answer = await api.client.put(control_path(what, tenant, scope, **query), json=body, headers=as_user(tenant))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def platform_rule(pool: Pool, code: str, mode: Mode = Mode.HARD, **parameters: object) -> None:
    address = Address(organization_id=PLATFORM_ID, scope=Scope.PLATFORM)
    terms = RuleTerms(mode=mode, parameters=parameters)
    await PostgresRuleStore(pool).save_rule(address, code, terms, "for all", OLGA, None)


async def get(api: RestApi, tenant: Tenant, **query: object) -> httpx.Response:
    url = httpx.URL(PATH).copy_merge_params({name: str(value) for name, value in query.items()})
    return await api.client.get(url, headers=as_user(tenant, "read_only"))


async def in_force(api: RestApi, tenant: Tenant, **query: object) -> list[tuple[str, str, bool]]:
    """Scope, code and whether it is the strictest, of every rule."""
    answer = await get(api, tenant, **query)
    assert answer.status_code == 200, answer.text
    return [(row["scope"], row["code"], row["is_strictest"]) for row in answer.json()["data"]]


async def test_every_scope_is_listed_the_widest_first_and_the_strictest_is_marked(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await platform_rule(pool, "QTY_MAX", quantity="100")
    for scope, quantity in zip(SCOPES, ("50", "20", "30", "40"), strict=True):
        await put(api, tenant, scope, wanted(quantity))
    account, key = tenant.account.id, tenant.principal.id
    platform, organization = ("PLATFORM", "QTY_MAX", False), ("ORGANIZATION", "QTY_MAX", False)
    assert await in_force(api, tenant) == [platform, ("ORGANIZATION", "QTY_MAX", True)]
    assert await in_force(api, tenant, api_key_id=key) == [platform, organization, ("KEY", "QTY_MAX", True)]
    of_account = [platform, organization, ("ACCOUNT", "QTY_MAX", True), ("SYMBOL", "QTY_MAX", False)]
    for more in ({}, {"symbol": "aapl"}):
        assert await in_force(api, tenant, account_id=account, **more) == of_account
    assert await in_force(api, tenant, account_id=account, symbol="MSFT") == of_account[:3]
    with_key = await in_force(api, tenant, account_id=account, symbol="AAPL", api_key_id=key)
    assert with_key == [*of_account, ("KEY", "QTY_MAX", False)]


async def test_a_rule_of_a_symbol_is_the_strictest_there_and_that_of_the_account_elsewhere(
    api: RestApi, tenant: Tenant
) -> None:
    await put(api, tenant, Scope.ACCOUNT, wanted("20"))
    await put(api, tenant, Scope.SYMBOL, wanted("5"))
    account = tenant.account.id
    assert await in_force(api, tenant, account_id=account) == [
        ("ACCOUNT", "QTY_MAX", True),
        ("SYMBOL", "QTY_MAX", True),
    ]
    assert await in_force(api, tenant, account_id=account, symbol="AAPL") == [
        ("ACCOUNT", "QTY_MAX", False),
        ("SYMBOL", "QTY_MAX", True),
    ]


async def test_lists_that_cannot_be_compared_are_both_the_strictest_and_a_shadow_never_is(
    api: RestApi, tenant: Tenant
) -> None:
    for scope, symbol in ((Scope.ORGANIZATION, "AAPL"), (Scope.ACCOUNT, "MSFT")):
        await put(api, tenant, scope, wanted("", parameters={"list": "DENY", "symbols": [symbol]}), "RESTRICTED")
    await put(api, tenant, Scope.ORGANIZATION, wanted("9"))
    await put(api, tenant, Scope.ACCOUNT, wanted("1", mode="SHADOW"))
    assert await in_force(api, tenant, account_id=tenant.account.id) == [
        ("ORGANIZATION", "RESTRICTED", True),
        ("ORGANIZATION", "QTY_MAX", True),
        ("ACCOUNT", "RESTRICTED", True),
        ("ACCOUNT", "QTY_MAX", False),
    ]


async def test_a_row_has_the_terms_in_force_and_who_set_them_and_no_operator(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await platform_rule(pool, "SWITCH", status="REDUCE_ONLY")
    base = await put(api, tenant, Scope.ACCOUNT, wanted("5", on_missing="DENY"))
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    override = await put(api, tenant, Scope.ACCOUNT, wanted("9", expires_at=until))
    assert base["terms"] == override["terms"]
    switch, rule = (await get(api, tenant, account_id=tenant.account.id)).json()["data"]
    assert (switch["parameters"], switch["reason"]) == ({"status": "REDUCE_ONLY", "cancel_working": False}, "for all")
    assert (switch["principal_type"], "principal_id" in switch) == ("OPERATOR", False)
    assert (rule["parameters"], rule["version"], rule["reason"]) == ({"quantity": "9"}, 2, "fat fingers")
    assert rule["expires_at"] == override["override"]["expires_at"]
    same = ("scope", "account_id", "updated_at", "principal_type", "principal_id")
    assert {name: rule[name] for name in same} == {name: override[name] for name in same}


async def test_the_controls_of_a_symbol_are_rules_too_and_a_default_is_shown_until_a_rule_replaces_it(
    api: RestApi, pool: Pool
) -> None:
    tenant = await a_tenant(pool, environment=Environment.LIVE)
    account, control = tenant.account.id, f"/v1/controls/accounts/{tenant.account.id}/symbols/AAPL"
    (default,) = (await get(api, tenant, account_id=account)).json()["data"]
    assert (default["scope"], default["code"], default["parameters"]) == (
        "PLATFORM",
        "STALE_ORDER",
        {"max_age_millis": 60_000},
    )
    assert "version" not in default
    await api.client.put(control, json={"manually_disabled": True}, headers=as_user(tenant))
    times = {"trading_start": "09:30:00", "stale_order_millis": 1500}
    await api.client.patch(f"{control}/time", json=times, headers=as_user(tenant))
    await put(api, tenant, Scope.ACCOUNT, wanted("", parameters={"max_age_millis": 5000}), "STALE_ORDER")
    answer = (await get(api, tenant, account_id=account, symbol="AAPL")).json()
    assert [(row["scope"], row["code"], row["is_strictest"]) for row in answer["data"]] == [
        ("ACCOUNT", "STALE_ORDER", False),
        ("SYMBOL", "SYMBOL_DISABLED", True),
        ("SYMBOL", "OUTSIDE_TRADING_WINDOW", True),
        ("SYMBOL", "STALE_ORDER", True),
    ]
    assert answer["symbol_control"]["manually_disabled"] is True
    assert (answer["symbol_times"]["trading_start"], answer["symbol_times"]["timezone"]) == ("09:30:00", "UTC")
    elsewhere = (await get(api, tenant, account_id=account)).json()
    assert {"symbol_control", "symbol_times"} & set(elsewhere) == set()
    assert [row["code"] for row in elsewhere["data"]] == [row["code"] for row in answer["data"]]


async def test_what_is_listed_is_what_refuses_a_command(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await platform_rule(pool, "QTY_MAX", quantity="9")
    for scope in SCOPES:
        await put(api, tenant, scope, wanted("5"))
    receipt = (await api.submit(tenant, create_body())).json()["receipt"]
    query = {"account_id": tenant.account.id, "symbol": "AAPL", "api_key_id": tenant.principal.id}
    listed = (await get(api, tenant, **query)).json()["data"]
    assert [(row["scope"], row["version"]) for row in listed] == [
        (row["scope"], row["control_version"]) for row in receipt["rules"]
    ]


async def test_pages_join_and_a_cursor_is_of_one_version_of_the_rules(api: RestApi, tenant: Tenant) -> None:
    for symbol in ("A", "B", "C", "D", "E"):
        await put(api, tenant, Scope.SYMBOL, wanted("5"), symbol=symbol)
    path = f"{PATH}?account_id={tenant.account.id}"
    rows, _ = await api.read_pages(path, as_user(tenant), 2)
    assert [row["symbol"] for row in rows] == ["A", "B", "C", "D", "E"]
    first = (await get(api, tenant, account_id=tenant.account.id, limit=2)).json()
    await put(api, tenant, Scope.ACCOUNT, wanted("5"))
    after = await get(api, tenant, account_id=tenant.account.id, limit=2, next_cursor=first["next_cursor"])
    problem(after, 400, "invalid_cursor")


async def test_a_shadow_organization_is_shown_as_watching_and_the_answer_is_as_described(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    conformance = Conformance((await api.client.get("/openapi.json")).json())
    await put(api, tenant, Scope.ACCOUNT, wanted("5", on_missing="ALLOW"))
    for enforcement, watched in (("ENFORCE", False), ("SHADOW", True)):
        await pool.execute(
            "update organizations set paper_enforcement = $1, control_epoch = control_epoch + 1", enforcement
        )
        answer = await get(api, tenant, account_id=tenant.account.id, symbol="AAPL")
        assert (answer.json()["watched_only"], conformance.breaks(answer)) == (watched, [])


@pytest.mark.parametrize(
    ("query", "pointer"),
    [({"symbol": "AAPL"}, "/account_id"), ({"account_id": "a"}, "/account_id"), ({"api_key_id": "k"}, "/api_key_id")],
)
async def test_a_query_that_names_no_place_is_refused(
    api: RestApi, tenant: Tenant, query: dict[str, str], pointer: str
) -> None:
    assert pointers(problem(await get(api, tenant, **query), 400, "invalid_parameter")) == [pointer]


async def test_a_key_of_the_other_environment_is_not_shown_to_a_key(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    live, _ = await a_key(pool, tenant.account.organization_id, Environment.LIVE)
    answer = await api.client.get(PATH, params={"api_key_id": live.id}, headers={"x-api-key": tenant.key})
    problem(answer, 403, "environment_mismatch")

"""The worst case of a key is computed from the rules in force, and what is accepted reaches and never passes it."""

from decimal import Decimal
from typing import Any

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_key, a_tenant
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi, create_body, problem

from .test_agent_keys import budget, post


async def worst(api: RestApi, tenant: Tenant, key: str) -> dict[str, Any]:
    found = await api.client.get(f"/v1/api-keys/{key}/worst-case", headers=as_user(tenant))
    assert found.status_code == 200, found.text
    case: dict[str, Any] = found.json()
    return case


async def test_the_value_that_is_left_of_the_day_is_what_is_still_accepted(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    await pool.execute(
        "insert into instruments (organization_id, broker, symbol, asset_class, quote_currency, tradable, fractional,"
        " multiplier, as_of) values ($1, 'paper', 'AAPL', 'us_equity', 'USD', true, true, 1, now())",
        tenant.account.organization_id,
    )
    await pool.execute(
        "insert into loss_marks (organization_id, account_id, currency, timezone, day, opening, highest, profit,"
        " lost_from_opening, lost_from_highest, as_of, announced)"
        " values ($1, $2, 'USD', 'UTC', current_date, 0, 0, 0, 0, 0, now() + interval '20 seconds', '{}')",
        tenant.account.organization_id,
        tenant.account.id,
    )
    made = (await post(api, tenant, budget(tenant, day_notional="2500", timezone="UTC"))).json()
    of_agent = {"x-api-key": made["api_key"]}
    for quantity, left in ((1, 2500), (2, 1500), (4, 500)):
        [account] = (await worst(api, tenant, made["id"]))["accounts"]
        [day] = account["day_values"]
        assert (day["left_today"], day["accepted_today"]) == (str(left), str(2500 - left))
        in_all = left + Decimal(day["per_day"]) * int(day["later_days"])
        assert day["left_in_all"] == str(in_all)
        value = min(left, 1000)
        too_much = await api.submit(tenant, create_body("Limit", quantity="1", price=str(left + 1)), headers=of_agent)
        problem(too_much, 422, "controls_refused")
        exact = create_body("Limit", quantity=str(quantity), price=str(Decimal(value) / quantity))
        accepted = await api.submit(tenant, exact, headers=of_agent)
        assert accepted.status_code == 202, accepted.text
    nothing_left = await worst(api, tenant, made["id"])
    assert nothing_left["days"][0]["left_today"] == "0"


async def test_a_key_without_rules_is_unlimited_and_says_so(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    case = await worst(api, tenant, str(tenant.principal.id))
    text = " ".join(case["sentences"])
    for unlimited in ("The value of one order is unlimited.", "No loss stops it.", "every symbol", "never expires"):
        assert unlimited in text
    [account] = case["accounts"]
    assert "symbols" not in account
    assert (account["order_values"], account["day_values"], case["days"]) == ([], [], [])
    assert case["can_change_orders_of_others"]


async def test_a_key_that_may_not_trade_or_is_revoked_can_do_nothing(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    reader, _ = await a_key(pool, tenant.account.organization_id, permissions=frozenset({"intent:read"}))
    case = await worst(api, tenant, reader.id)
    assert not case["can_trade"]
    assert "lacks intent:edit" in case["sentences"][0]
    await api.client.delete(f"/v1/api-keys/{reader.id}", headers=as_user(tenant))
    assert (await worst(api, tenant, reader.id))["sentences"] == ["The key is revoked: it can do nothing."]


async def test_only_admins_of_the_key_s_organization_read_it(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    path = f"/v1/api-keys/{tenant.principal.id}/worst-case"
    assert (await api.client.get(path, headers={"x-api-key": tenant.key})).status_code == 403
    assert (await api.client.get(path, headers=as_user(tenant, "member"))).status_code == 403
    problem(await api.client.get(path, headers=as_user(await a_tenant(pool))), 404, "not_found")

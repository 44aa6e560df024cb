"""The value of the orders that are accepted in a day: exact under races, and only of what was accepted."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import Address, OnMissing, RuleTerms
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, an_account
from support.rest.rest_api import RestApi, create_body, replace_body, rest_api

VALUE: dict[str, Any] = {"value": "1000", "currency": "USD"}


@pytest.fixture
async def api(pool: Pool) -> AsyncIterator[RestApi]:
    async with rest_api(pool) as api:
        yield api


async def limit_day(pool: Pool, tenant: Tenant, scope: Scope = Scope.ACCOUNT, mode: Mode = Mode.HARD) -> None:
    """Instruments are not known in these tests: each is taken for a share in dollars."""
    account = tenant.account
    address = Address(
        organization_id=account.organization_id,
        scope=scope,
        account_id=account.id if scope is Scope.ACCOUNT else None,
        api_key_id=tenant.principal.id if scope is Scope.KEY else None,
    )
    terms = RuleTerms(mode=mode, on_missing=OnMissing.ALLOW, parameters=VALUE)
    await PostgresRuleStore(pool).save_rule(address, "DAY_NOTIONAL_MAX", terms, None, tenant.principal, None)


def a_buy(price: str, quantity: str = "10") -> dict[str, object]:
    return create_body("Limit", price=price, quantity=quantity)


async def line(api: RestApi, tenant: Tenant, body: dict[str, object]) -> tuple[str, str] | None:
    """The refusal's code and what it observed; None if it was accepted."""
    answer = await api.submit(tenant, body)
    if answer.status_code == 202:
        return None
    assert answer.status_code == 422, answer.text
    [refused] = [rule for rule in answer.json()["receipt"]["rules"] if rule["verdict"] == "REFUSED"]
    return refused["code"], refused["observed"]


async def accepted(pool: Pool) -> list[Decimal]:
    return [row["accepted"] for row in await pool.fetch("select accepted from control_days order by scope, subject")]


async def test_orders_are_accepted_up_to_the_value_of_the_day_and_no_further(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    await limit_day(pool, harness.tenant)
    assert await line(api, harness.tenant, a_buy("60")) is None
    assert await line(api, harness.tenant, a_buy("40.01")) == ("DAY_NOTIONAL_MAX", "1000.1")
    assert await line(api, harness.tenant, a_buy("40")) is None
    assert await line(api, harness.tenant, a_buy("0.01", "1")) == ("DAY_NOTIONAL_MAX", "1000.01")
    assert await accepted(pool) == [1000]


@pytest.mark.parametrize("scope", [Scope.ACCOUNT, Scope.ORGANIZATION, Scope.KEY])
async def test_commands_at_once_of_two_accounts_never_pass_a_limit_together(
    pool: Pool, harness: Harness, api: RestApi, scope: Scope
) -> None:
    await limit_day(pool, harness.tenant, scope)
    tenants = [
        harness.tenant,
        replace(harness.tenant, account=await an_account(pool, harness.tenant.account.organization_id)),
    ]
    orders = [(tenants[number % 2], a_buy("90", str(number % 3 + 1))) for number in range(16)]
    outcomes = await asyncio.gather(*(line(api, tenant, body) for tenant, body in orders))
    taken = [
        (tenant.account.id, 90 * (number % 3 + 1))
        for number, ((tenant, _), outcome) in enumerate(zip(orders, outcomes, strict=True))
        if outcome is None
    ]
    limited = taken if scope is not Scope.ACCOUNT else [each for each in taken if each[0] == harness.tenant.account.id]
    assert await accepted(pool) == [sum(value for _, value in limited)]
    # A further order of one share does not fit, or all were taken.
    assert 1000 - 180 < sum(value for _, value in limited) <= 1000


async def test_a_dry_run_a_replay_and_a_refused_command_count_nothing(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    await limit_day(pool, harness.tenant)
    for _ in range(3):
        assert (await api.submit(harness.tenant, a_buy("50"), key="once")).status_code == 202
    assert await line(api, harness.tenant, a_buy("51")) == ("DAY_NOTIONAL_MAX", "1010")
    asked = {"account_id": str(harness.tenant.account.id), **a_buy("50")}
    answer = await api.client.post("/v1/controls/evaluate", json=asked, headers={"x-api-key": harness.tenant.key})
    assert (answer.status_code, answer.json()["verdict"]) == (200, "PASSED")
    assert await accepted(pool) == [500]


async def test_a_replace_counts_what_it_adds(pool: Pool, harness: Harness, api: RestApi) -> None:
    await limit_day(pool, harness.tenant)
    answer = await api.submit(harness.tenant, a_buy("50"))
    intent_id = answer.json()["intent_id"]
    assert await line(api, harness.tenant, replace_body(intent_id, price="50", quantity="21")) == (
        "DAY_NOTIONAL_MAX",
        "1050",
    )
    assert await line(api, harness.tenant, replace_body(intent_id, price="50", quantity="15")) is None
    assert await accepted(pool) == [750]


async def test_a_new_day_begins_at_zero_and_an_earlier_one_never_comes_back(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    await limit_day(pool, harness.tenant)
    assert await line(api, harness.tenant, a_buy("90")) is None
    await pool.execute("update control_days set day = day - 1")
    assert await line(api, harness.tenant, a_buy("90")) is None
    assert await accepted(pool) == [900]
    await pool.execute("update control_days set day = $1", datetime(2200, 1, 1, tzinfo=UTC).date())
    assert await line(api, harness.tenant, a_buy("90")) == ("DAY_NOTIONAL_MAX", "1800")


async def test_in_shadow_mode_what_is_accepted_counts_beyond_the_limit(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    await limit_day(pool, harness.tenant, mode=Mode.SHADOW)
    for _ in range(2):
        assert await line(api, harness.tenant, a_buy("90")) is None
    assert await accepted(pool) == [1800]


async def test_a_command_that_meets_two_limits_counts_in_both(pool: Pool, harness: Harness, api: RestApi) -> None:
    await limit_day(pool, harness.tenant)
    await limit_day(pool, harness.tenant, Scope.ORGANIZATION)
    assert await line(api, replace(harness.tenant), a_buy("90")) is None
    assert await accepted(pool) == [900, 900]

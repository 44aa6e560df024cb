"""Rules and switches act on the next command: at every scope, for their time, and not a moment longer."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.controls.findings import Scope
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_key, a_tenant
from support.environment.command_line import CommandLine
from support.identity.bearers import as_user
from support.rest.rest_api import SCOPES, RestApi, control_path, create_body


async def put_rule(api: RestApi, tenant: Tenant, scope: Scope, **more: object) -> None:
    body = {"mode": "HARD", "parameters": {"quantity": "5"}, "reason": "fat fingers", **more}
    path = control_path("rules/QTY_MAX", tenant, scope)
    assert (await api.client.put(path, json=body, headers=as_user(tenant))).status_code == 200


async def put_switch(api: RestApi, tenant: Tenant, scope: Scope, state: str) -> None:
    body = {"status": state, "reason": "a runaway strategy"}
    answer = await api.client.put(control_path("switches", tenant, scope), json=body, headers=as_user(tenant))
    assert answer.status_code == 200


def refusing(answer: httpx.Response) -> list[tuple[str, str]]:
    """Which rules refused, and where they are set."""
    assert answer.status_code == 422, answer.text
    rules: list[dict[str, Any]] = answer.json()["receipt"]["rules"]
    return [(rule["code"], rule["scope"]) for rule in rules if rule["verdict"] == "REFUSED"]


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_rule_refuses_the_next_command_until_it_is_removed(api: RestApi, tenant: Tenant, scope: Scope) -> None:
    assert (await api.submit(tenant, create_body())).status_code == 202
    await put_rule(api, tenant, scope)
    assert refusing(await api.submit(tenant, create_body())) == [("QTY_MAX", scope)]
    assert (await api.submit(tenant, create_body(quantity="5"))).status_code == 202
    await api.client.delete(control_path("rules/QTY_MAX", tenant, scope), headers=as_user(tenant))
    assert (await api.submit(tenant, create_body())).status_code == 202


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_halt_refuses_the_next_command_until_it_is_lifted(api: RestApi, tenant: Tenant, scope: Scope) -> None:
    assert (await api.submit(tenant, create_body())).status_code == 202
    await put_switch(api, tenant, scope, "HALTED")
    assert refusing(await api.submit(tenant, create_body())) == [("HALTED", scope)]
    await put_switch(api, tenant, scope, "ACTIVE")
    assert (await api.submit(tenant, create_body())).status_code == 202


async def test_a_rule_of_a_key_holds_that_key_and_no_other(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await put_rule(api, tenant, Scope.KEY)
    _, other = await a_key(pool, tenant.account.organization_id)
    assert refusing(await api.submit(tenant, create_body())) == [("QTY_MAX", "KEY")]
    assert (await api.submit(tenant, create_body(), headers={"x-api-key": other})).status_code == 202


async def test_a_rule_of_a_symbol_holds_that_symbol_and_no_other(api: RestApi, tenant: Tenant) -> None:
    await put_rule(api, tenant, Scope.SYMBOL)
    assert refusing(await api.submit(tenant, create_body())) == [("QTY_MAX", "SYMBOL")]
    assert (await api.submit(tenant, create_body(symbol="MSFT"))).status_code == 202


async def test_a_rule_in_shadow_mode_refuses_nothing(api: RestApi, tenant: Tenant) -> None:
    await put_rule(api, tenant, Scope.ORGANIZATION, mode="SHADOW")
    assert (await api.submit(tenant, create_body())).status_code == 202


async def test_an_override_acts_until_it_expires_without_anybody_s_doing(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await put_rule(api, tenant, Scope.ACCOUNT)
    now: datetime = await pool.fetchval("select clock_timestamp()")
    expires_at = now + timedelta(seconds=2)
    await put_rule(api, tenant, Scope.ACCOUNT, parameters={"quantity": "50"}, expires_at=expires_at.isoformat())
    first = await api.submit(tenant, create_body())
    assert first.status_code == 202 or await pool.fetchval("select clock_timestamp()") > expires_at

    async def it_refuses() -> bool:
        return (await api.submit(tenant, create_body())).status_code == 422

    await until(it_refuses, 60)
    assert await pool.fetchval("select clock_timestamp()") >= expires_at


async def test_a_rule_and_a_halt_of_the_platform_hold_every_organization(
    api: RestApi, tenant: Tenant, pool: Pool, database: str
) -> None:
    operator, other = CommandLine(database), await a_tenant(pool)
    for each in (tenant, other):
        assert (await api.submit(each, create_body())).status_code == 202
    await operator.change("controls", "set", "QTY_MAX", '{"quantity": "5"}', "--reason", "fat fingers")
    for each in (tenant, other):
        assert refusing(await api.submit(each, create_body())) == [("QTY_MAX", "PLATFORM")]
    await operator.change("controls", "remove", "QTY_MAX", "--reason", "over")
    await operator.change("controls", "set", "SWITCH", '{"status": "HALTED"}', "--reason", "an incident")
    for each in (tenant, other):
        assert refusing(await api.submit(each, create_body())) == [("HALTED", "PLATFORM")]


async def test_paper_accounts_that_are_only_watched_are_refused_nothing(
    api: RestApi, tenant: Tenant, database: str
) -> None:
    await put_rule(api, tenant, Scope.ORGANIZATION)
    organization = str(tenant.account.organization_id)
    assert (await api.submit(tenant, create_body())).status_code == 422
    await CommandLine(database).change("organizations", "enforce-paper", organization, "shadow")
    assert (await api.submit(tenant, create_body())).status_code == 202
    await CommandLine(database).change("organizations", "enforce-paper", organization, "enforce")
    assert (await api.submit(tenant, create_body())).status_code == 422

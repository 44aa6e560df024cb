"""Keys for their own orders only: they cancel and replace what they created, and nothing else."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_key
from support.identity.bearers import Headers, as_user
from support.rest.rest_api import RestApi, cancel_body, control_path, create_body, problem, replace_body

PERMISSIONS = ["intent:edit", "intent:read", "control:read"]


async def make_key(api: RestApi, tenant: Tenant, **more: object) -> dict[str, Any]:
    body = {"name": "bot", "environment": "paper", "permissions": PERMISSIONS, **more}
    answer = await api.client.post("/v1/api-keys", json=body, headers=as_user(tenant))
    assert answer.status_code == 201
    made: dict[str, Any] = answer.json()
    return made


def of_key(tenant: Tenant, made: dict[str, Any]) -> Tenant:
    principal = replace(tenant.principal, id=made["id"], own_orders_only=made["own_orders_only"])
    return replace(tenant, key=made["api_key"], principal=principal)


async def created(api: RestApi, tenant: Tenant) -> str:
    answer = await api.submit(tenant, create_body("Limit", price="3"))
    assert answer.status_code == 202
    return str(answer.json()["intent_id"])


def commands_on(intent: str) -> list[dict[str, object]]:
    return [cancel_body(intent), replace_body(intent, price="4"), replace_body(intent, price="2", quantity="1")]


async def rows(pool: Pool) -> tuple[object, ...]:
    counted: tuple[object, ...] = tuple(
        await pool.fetchrow(
            "select (select count(*) from intent_actions), (select count(*) from receipts),"
            " (select count(*) from idempotency_keys), (select sum(event_no) from account_counters)"
        )
        or ()
    )
    return counted


async def test_such_a_key_changes_its_own_orders_and_not_those_of_another_key(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    own = of_key(tenant, await make_key(api, tenant, own_orders_only=True))
    theirs, mine = await created(api, tenant), await created(api, own)
    before = await rows(pool)
    for command in commands_on(theirs):
        refusal = problem(await api.submit(own, command, key="one"), 403, "permission_denied")
        assert "own_orders_only" in str(refusal["detail"])
    assert await rows(pool) == before
    assert (await api.submit(own, replace_body(mine, price="4"))).status_code == 202
    assert (await api.submit(own, cancel_body(mine))).status_code == 202
    # A key without the attribute changes what others created.
    assert (await api.submit(tenant, cancel_body(mine))).status_code == 202
    problem(await api.submit(own, cancel_body(str(own.principal.id))), 404, "not_found")


async def test_a_refused_replace_of_another_s_order_leaves_no_receipt_even_if_a_rule_would_refuse_it(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    own, theirs = of_key(tenant, await make_key(api, tenant, own_orders_only=True)), await created(api, tenant)
    path = control_path("switches", tenant)
    await api.client.put(path, json={"status": "HALTED", "reason": "tests"}, headers=as_user(tenant))
    before = await rows(pool)
    for command in commands_on(theirs):
        problem(await api.submit(own, command), 403, "permission_denied")
        asked = {"account_id": str(tenant.account.id), **command}
        headers: Headers = {"x-api-key": own.key}
        problem(await api.client.post("/v1/controls/evaluate", json=asked, headers=headers), 403, "permission_denied")
    assert await rows(pool) == before


async def test_a_replayed_cancel_of_another_caller_is_refused_too(api: RestApi, tenant: Tenant) -> None:
    own, theirs = of_key(tenant, await make_key(api, tenant, own_orders_only=True)), await created(api, tenant)
    assert (await api.submit(tenant, cancel_body(theirs), key="k")).status_code == 202
    problem(await api.submit(own, cancel_body(theirs), key="k"), 403, "permission_denied")


async def test_in_a_batch_each_command_is_decided_for_its_own_caller(api: RestApi, tenant: Tenant) -> None:
    own = of_key(tenant, await make_key(api, tenant, own_orders_only=True))
    theirs = [await created(api, tenant) for _ in range(10)]
    mine = [await created(api, own) for _ in range(10)]
    answers = await asyncio.gather(
        *(api.submit(own, cancel_body(intent)) for intent in theirs),
        *(api.submit(own, cancel_body(intent)) for intent in mine),
        *(api.submit(tenant, create_body()) for _ in range(10)),
    )
    assert [answer.status_code for answer in answers] == [403] * 10 + [202] * 20


async def test_an_admin_sets_and_lifts_it_and_lists_show_it(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    made = await make_key(api, tenant)
    assert made["own_orders_only"] is False
    path, admin = f"/v1/api-keys/{made['id']}", as_user(tenant)
    for wanted in (True, False):
        changed = await api.client.patch(path, json={"own_orders_only": wanted}, headers=admin)
        assert changed.json()["own_orders_only"] is wanted
        assert (await api.client.get(path, headers=admin)).json() == changed.json()
    problem(await api.client.patch(path, json={"own_orders_only": None}, headers=admin), 422, "invalid_command")
    facts = await pool.fetch("select after from audit_log where object_id = $1 order by occurred_at", made["id"])
    assert len(facts) == 3


@pytest.mark.parametrize("body", [{"disabled": False}, {"own_orders_only": False}, {"name": "wider"}])
async def test_a_key_cannot_change_itself_nor_make_another(
    api: RestApi, pool: Pool, tenant: Tenant, body: dict[str, object]
) -> None:
    principal, text = await a_key(pool, tenant.account.organization_id)
    headers = {"x-api-key": text}
    answer = await api.client.patch(f"/v1/api-keys/{principal.id}", json=body, headers=headers)
    problem(answer, 403, "principal_kind_not_allowed")
    wanted = {"name": "x", "environment": "paper", "permissions": ["control:loosen"]}
    problem(await api.client.post("/v1/api-keys", json=wanted, headers=headers), 403, "principal_kind_not_allowed")
    for role in ("member", "read_only"):
        made = await api.client.post("/v1/api-keys", json=wanted, headers=as_user(tenant, role))
        problem(made, 403, "permission_denied")

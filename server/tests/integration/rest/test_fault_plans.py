"""Fault plans over REST: which accounts may have one, what a plan may say, and what is written down."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.access.ports.fault_plans import FaultPlan, PlansUnavailable
from openbell_server.brokers.paper.fault_client import fault_plans
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.access.accounts import broker_and_profile
from openbell_server.domain.identifiers import AccountId
from support.builders.tenant import Tenant
from support.rest.managed_accounts import create
from support.rest.rest_api import RememberedPlans, RestApi, problem

PLAN = {"seed": 7, "faults": {"accept_then_hang": 0.5, "late_ms": 2000}}


async def call(api: RestApi, tenant: Tenant, method: str, body: object = None) -> httpx.Response:
    path = f"/v1/accounts/{tenant.account.id}/paper/faults"
    return await api.client.request(method, path, json=body, headers={"x-api-key": tenant.key})


async def test_a_plan_is_set_shown_and_removed_and_each_change_is_audited(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    assert (await call(api, tenant, "GET")).json() == {"seed": 0, "faults": {}}
    kept = await call(api, tenant, "PUT", PLAN)
    assert kept.status_code == 200, kept.json()
    assert {name: kept.json()[name] for name in PLAN} == PLAN
    assert (await call(api, tenant, "GET")).json() == kept.json()
    assert (await call(api, tenant, "DELETE")).status_code == 204
    assert (await call(api, tenant, "DELETE")).status_code == 204
    assert (await call(api, tenant, "GET")).json() == {"seed": 0, "faults": {}}
    rows = await pool.fetch("select operation, object_id, before, after from audit_log order by occurred_at")
    assert {(row["operation"], row["object_id"]) for row in rows} == {("accounts faults", str(tenant.account.id))}
    empty = {"seed": 0, "faults": {}}
    facts = [(json.loads(row["before"]), json.loads(row["after"])) for row in rows]
    assert facts == [(empty, PLAN), (PLAN, empty), (empty, empty)]


@pytest.mark.parametrize(
    ("plan", "pointer"),
    [
        ({"faults": {"explode": 1}}, "/faults/explode"),
        ({"faults": {"hang": 1.5}}, "/faults/hang"),
        ({"faults": {"hang": -0.1}}, "/faults/hang"),
        ({"faults": {"late_ms": 0.5}}, "/faults/late_ms"),
        ({"faults": {"mute_ms": 600_001}}, "/faults/mute_ms"),
        ({"faults": {"hang": 0.6, "refuse": 0.6}}, "/faults"),
        ({"faults": {}, "seed": -1}, "/seed"),
        ({"faults": {}, "seed": 2**63}, "/seed"),
        ({"faults": {"hang": "often"}}, "/faults/hang"),
        ({"faults": {"hang": True}}, "/faults/hang"),
        ({"faults": {"a/b": 1}}, "/faults/a~1b"),
        ({"seed": 1}, "/faults"),
    ],
)
async def test_a_plan_that_cannot_be_meant_says_what_would_pass(
    api: RestApi, pool: Pool, tenant: Tenant, plan: object, pointer: str
) -> None:
    refusal = problem(await call(api, tenant, "PUT", plan), 422, "invalid_command")
    assert [error["pointer"] for error in refusal["errors"]] == [pointer]  # type: ignore[attr-defined]
    assert await pool.fetchval("select count(*) from audit_log") == 0


async def test_a_broker_that_does_not_misbehave_on_request_takes_no_plan(
    api: RestApi, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RememberedPlans, "is_for", lambda *_: False)
    for method, body in (("GET", None), ("PUT", PLAN), ("DELETE", None)):
        problem(await call(api, tenant, method, body), 422, "faults_not_supported")


async def test_a_paper_broker_that_does_not_answer_is_said_to_do_so(
    api: RestApi, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fault_plans(f"http://127.0.0.1:{free_port()}", "secret") as nobody:
        with pytest.raises(PlansUnavailable):
            await nobody.set(AccountId(uuid4()), FaultPlan(0, {}))
        monkeypatch.setattr(RememberedPlans, "read", lambda _, account_id: nobody.read(account_id))
        for method, body in (("GET", None), ("PUT", PLAN), ("DELETE", None)):
            problem(await call(api, tenant, method, body), 503, "paper_broker_unavailable")


@pytest.mark.parametrize("broker", list(BROKERS))
async def test_an_account_can_be_opened_at_every_broker(api: RestApi, tenant: Tenant, broker: str) -> None:
    name, profile = broker_and_profile(broker)
    more: Any = {} if profile is None else {"profile": profile}
    answer = await create(api, tenant, broker=name, **more)
    assert (answer.status_code, answer.json()["broker"], answer.json().get("profile")) == (201, name, profile)

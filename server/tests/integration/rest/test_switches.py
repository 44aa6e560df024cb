"""The routes of switches: everybody who may edit can halt, and only a person lets it go on."""

import asyncio
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.controls.findings import Scope
from support.builders.tenant import Tenant, with_tightening_key
from support.identity.bearers import Headers, as_user
from support.rest.rest_api import SCOPES, RestApi, control_path, pointers, problem


def as_key(tenant: Tenant) -> Headers:
    return {"x-api-key": tenant.key}


async def set_switch(
    api: RestApi,
    tenant: Tenant,
    state: str,
    headers: Headers | None = None,
    scope: Scope = Scope.ACCOUNT,
    **more: Any,
) -> httpx.Response:
    sent = as_user(tenant) if headers is None else headers
    body = {"status": state, "reason": "a runaway strategy", **more}
    return await api.client.put(control_path("switches", tenant, scope), json=body, headers=sent)


async def shown(api: RestApi, tenant: Tenant, scope: Scope = Scope.ACCOUNT) -> Any:
    answer = await api.client.get(control_path("switches", tenant, scope), headers=as_user(tenant, "member"))
    (switch,) = answer.json()["data"]
    return switch


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_switch_is_active_until_it_is_set_and_has_its_history(
    api: RestApi, tenant: Tenant, scope: Scope
) -> None:
    untouched = await shown(api, tenant, scope)
    assert (untouched["status"], untouched["version"], untouched["scope"]) == ("ACTIVE", 0, scope)
    halted = await set_switch(api, tenant, "HALTED", scope=scope, cancel_working=True)
    body = halted.json()
    assert (halted.status_code, halted.headers["etag"]) == (200, '"1"')
    assert (body["status"], body["cancel_working"], body["reason"]) == ("HALTED", True, "a runaway strategy")
    assert (await shown(api, tenant, scope)) == body
    lifted = (await set_switch(api, tenant, "ACTIVE", scope=scope, reason="fixed")).json()
    assert (lifted["status"], lifted["cancel_working"], lifted["version"]) == ("ACTIVE", False, 2)
    changes, _ = await api.read_pages(control_path("changes", tenant, scope, code="SWITCH"), as_user(tenant), 1)
    assert [(change["version"], change["reason"]) for change in changes] == [(2, "fixed"), (1, "a runaway strategy")]
    assert (await api.client.get(control_path("rules", tenant, scope), headers=as_user(tenant))).json()["data"] == []


@pytest.mark.parametrize("scope", [Scope.ACCOUNT, Scope.SYMBOL])
async def test_a_key_makes_a_switch_stricter_and_never_lifts_it(
    api: RestApi, pool: Pool, tenant: Tenant, scope: Scope
) -> None:
    tenant = await with_tightening_key(pool, tenant)
    for state in ("ACTIVE", "REDUCE_ONLY", "REDUCE_ONLY", "HALTED", "HALTED"):
        assert (await set_switch(api, tenant, state, as_key(tenant), scope)).status_code == 200, state
    for state in ("ACTIVE", "REDUCE_ONLY"):
        refused = problem(await set_switch(api, tenant, state, as_key(tenant), scope), 403, "permission_denied")
        assert "status of SWITCH would be less strict" in str(refused["detail"])
        assert "control:loosen" in str(refused["detail"])
    assert (await shown(api, tenant, scope))["status"] == "HALTED"
    assert (await set_switch(api, tenant, "REDUCE_ONLY", scope=scope)).status_code == 200
    problem(await set_switch(api, tenant, "ACTIVE", as_key(tenant), scope), 403, "permission_denied")


async def test_a_key_that_races_a_halt_never_lifts_it(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    tenant = await with_tightening_key(pool, tenant)
    for _ in range(10):
        await set_switch(api, tenant, "ACTIVE")
        answers = await asyncio.gather(
            set_switch(api, tenant, "HALTED"),
            *(set_switch(api, tenant, "REDUCE_ONLY", as_key(tenant)) for _ in range(3)),
        )
        assert answers[0].status_code == 200
        assert {answer.status_code for answer in answers[1:]} <= {200, 403}
        assert (await shown(api, tenant))["status"] == "HALTED"


async def test_a_switch_is_set_only_from_the_version_that_was_read(api: RestApi, tenant: Tenant) -> None:
    first = await set_switch(api, tenant, "HALTED", as_user(tenant) | {"if-match": '"0"'})
    assert first.status_code == 200
    for who in (as_user(tenant), as_key(tenant)):
        stale = await set_switch(api, tenant, "HALTED", who | {"if-match": '"0"'})
        problem(stale, 412, "version_mismatch")
    again = await set_switch(api, tenant, "HALTED", as_key(tenant) | {"if-match": first.headers["etag"]})
    assert again.headers["etag"] == '"2"'


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"status": "HALTED"}, "/reason"),
        ({"reason": "r"}, "/status"),
        ({"status": "OFF", "reason": "r"}, "/status"),
        ({"status": "HALTED", "reason": ""}, "/reason"),
        ({"status": "HALTED", "reason": "r", "cancel_working": "yes"}, "/cancel_working"),
        ({"status": "ACTIVE", "reason": "r", "cancel_working": True}, "/cancel_working"),
        ({"status": "HALTED", "reason": "r", "expires_at": "2036-01-05T21:00:00Z"}, "/expires_at"),
    ],
)
async def test_a_body_that_is_no_switch_is_refused(
    api: RestApi, tenant: Tenant, body: dict[str, object], pointer: str
) -> None:
    answer = await api.client.put(control_path("switches", tenant), json=body, headers=as_user(tenant))
    assert pointers(problem(answer, 422, "invalid_command")) == [pointer]
    assert (await shown(api, tenant))["version"] == 0

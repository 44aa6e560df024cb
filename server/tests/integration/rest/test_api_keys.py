"""API keys on REST: admins make, change and revoke them; each change acts within a second and is audited."""

import asyncio
import itertools
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore, add_api_key
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import OrganizationId
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant, new_id
from support.identity.bearers import as_service, as_user
from support.rest.rest_api import RestApi, intents_of, problem, rest_api

URL = "/v1/api-keys"
READER = {"name": "reader", "environment": "paper", "permissions": ["intent:read"]}


async def create(api: RestApi, tenant: Tenant, **fields: Any) -> httpx.Response:
    return await api.client.post(URL, json={**READER, **fields}, headers=as_user(tenant))


async def created(api: RestApi, tenant: Tenant, **fields: Any) -> dict[str, Any]:
    answer = await create(api, tenant, **fields)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def status_with(api: RestApi, tenant: Tenant, key: str) -> int:
    return (await api.client.get(intents_of(tenant), headers={"x-api-key": key})).status_code


async def audited(pool: Pool) -> list[tuple[str, str, str, Any, Any]]:
    rows = await pool.fetch(
        "select principal_type, principal_id, operation, before, after from audit_log order by occurred_at"
    )
    return [(*row[:3], row[3] and json.loads(row[3]), json.loads(row[4])) for row in rows]


async def test_an_admin_makes_a_key_that_works_and_whose_text_is_shown_once(api: RestApi, tenant: Tenant) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    answer = await create(api, tenant, expires_at=later.isoformat())
    body = answer.json()
    assert answer.status_code == 201, body
    assert answer.headers["location"] == f"{URL}/{body['id']}"
    assert answer.headers["cache-control"] == "no-store"
    text = body.pop("api_key")
    assert body == {
        "id": body["id"],
        "organization_id": str(tenant.account.organization_id),
        "key_id": text.split("_")[3],
        "name": "reader",
        "environment": "paper",
        "permissions": ["intent:read"],
        "own_orders_only": False,
        "disabled": False,
        "created_at": body["created_at"],
        "expires_at": body["expires_at"],
    }
    assert datetime.fromisoformat(body["expires_at"]) == later
    shown = await api.client.get(f"{URL}/{body['id']}", headers=as_user(tenant))
    listed = await api.client.get(URL, headers=as_user(tenant))
    assert shown.json() == listed.json()["data"][-1] == body
    assert await status_with(api, tenant, text) == 200


async def test_a_key_may_do_what_it_was_given_and_no_more(api: RestApi, tenant: Tenant) -> None:
    key = (await created(api, tenant, permissions=["intent:edit"]))["api_key"]
    assert await status_with(api, tenant, key) == 403


async def test_nobody_but_an_admin_manages_keys(api: RestApi, tenant: Tenant) -> None:
    key_id = (await created(api, tenant))["id"]
    service = as_service("intent:read") | {"x-organization-id": str(tenant.account.organization_id)}
    for headers, code in (
        (as_user(tenant, "member"), "permission_denied"),
        (as_user(tenant, "read_only"), "permission_denied"),
        ({"x-api-key": tenant.key}, "principal_kind_not_allowed"),
        (service, "principal_kind_not_allowed"),
    ):
        for method, path in (
            ("POST", URL),
            ("GET", URL),
            *((method, f"{URL}/{key_id}") for method in ("GET", "PATCH", "DELETE")),
        ):
            problem(await api.client.request(method, path, json=READER, headers=headers), 403, code)


@pytest.mark.parametrize(
    ("fields", "pointer", "says"),
    [
        ({"permissions": ["intent:write"]}, "/permissions", "control:edit:paper, control:loosen, control:read"),
        ({"permissions": []}, "/permissions", "must be one or more of"),
        ({"permissions": ["control:edit:live"]}, "/permissions", "for a key of paper accounts"),
        ({"permissions": ["control:edit:paper"], "environment": "live"}, "/permissions", "control:edit:live"),
        ({"environment": "test"}, "/environment", "one of live, paper"),
        ({"name": " "}, "/name", "not only spaces"),
        ({"name": "x" * 129}, "/name", "1 to 128"),
        ({"name": None}, "/name", "str"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at", "later than now"),
        ({"expires_at": "2099-01-01T00:00:00"}, "/expires_at", "with an offset"),
        ({"expires_at": "0001-01-01T00:00:00+23:59"}, "/expires_at", "years 1 to 9999"),
        ({"expires_at": "9999-12-31T23:59:59-23:59"}, "/expires_at", "years 1 to 9999"),
        ({"disabled": True}, "/disabled", "not a field here"),
    ],
    ids=str,
)
async def test_a_key_that_cannot_be_is_refused_with_what_would_pass(
    api: RestApi, pool: Pool, tenant: Tenant, fields: dict[str, Any], pointer: str, says: str
) -> None:
    body = problem(await create(api, tenant, **fields), 422, "invalid_command")
    assert isinstance(body["errors"], list)
    (error,) = body["errors"]
    assert error["pointer"] == pointer
    assert says in error["message"]
    assert await pool.fetchval("select count(*) from api_keys") == 1
    assert await audited(pool) == []


async def test_a_disabled_key_is_refused_by_every_replica_until_it_is_enabled(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    body = await created(api, tenant)
    async with rest_api(pool) as replica:
        for disabled, status in ((True, 401), (False, 200)):
            assert {await status_with(each, tenant, body["api_key"]) for each in (api, replica)} == {
                401 if status == 200 else 200
            }
            changed = await api.client.patch(
                f"{URL}/{body['id']}", json={"disabled": disabled}, headers=as_user(tenant)
            )
            assert changed.json()["disabled"] is disabled
            for each in (api, replica):

                async def acts(each: RestApi = each, status: int = status) -> bool:
                    return await status_with(each, tenant, body["api_key"]) == status

                await until(acts, 60)


async def test_a_revoked_key_never_comes_back(api: RestApi, tenant: Tenant) -> None:
    body = await created(api, tenant)
    for _ in range(2):
        ended = await api.client.delete(f"{URL}/{body['id']}", headers=as_user(tenant))
        assert (ended.status_code, ended.content) == (204, b"")

    async def refused() -> bool:
        return await status_with(api, tenant, body["api_key"]) == 401

    await until(refused, 60)
    back = await api.client.patch(f"{URL}/{body['id']}", json={"disabled": False}, headers=as_user(tenant))
    problem(back, 409, "key_revoked")
    shown = (await api.client.get(f"{URL}/{body['id']}", headers=as_user(tenant))).json()
    assert "revoked_at" in shown


@pytest.mark.parametrize("change", [{}, {"name": ""}, {"disabled": None}, {"permissions": ["intent:edit"]}], ids=str)
async def test_a_change_that_cannot_be_is_refused(api: RestApi, tenant: Tenant, change: dict[str, Any]) -> None:
    body = await created(api, tenant)
    refused = await api.client.patch(f"{URL}/{body['id']}", json=change, headers=as_user(tenant))
    problem(refused, 422, "invalid_command")


async def test_another_organization_s_key_answers_as_one_that_is_not_there(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    other = await a_tenant(pool)
    theirs = (await created(api, other))["id"]
    for method in ("GET", "PATCH", "DELETE"):
        answers = set()
        for key_id in (theirs, uuid4()):
            headers = as_user(tenant) | {"x-request-id": "same"}
            answer = await api.client.request(method, f"{URL}/{key_id}", json={"name": "mine"}, headers=headers)
            assert answer.status_code == 404
            answers.add(answer.content)
        assert len(answers) == 1
    listed = (await api.client.get(URL, headers=as_user(tenant))).json()["data"]
    assert theirs not in {key["id"] for key in listed}
    assert (await api.client.get(f"{URL}/{theirs}", headers=as_user(other))).json()["name"] == "reader"


async def test_pages_show_every_key_once_and_cursors_are_for_this_list(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    names = [f"key {number}" for number in range(5)]
    for name in names:
        await created(api, tenant, name=name)
    seen, last = await api.read_pages(URL, as_user(tenant), 2)
    assert [each["name"] for each in seen] == ["test", *names]
    later = await api.client.get(URL, params={"next_cursor": last}, headers=as_user(tenant))
    assert later.json() == {"data": [], "next_cursor": None, "last_cursor": last}
    other = as_user(await a_tenant(pool))
    problem(await api.client.get(URL, params={"next_cursor": last}, headers=other), 400, "invalid_cursor")
    problem(await api.client.get(URL, params={"limit": 101}, headers=other), 400, "invalid_parameter")


async def test_keys_made_at_once_are_listed_in_the_order_in_which_they_came_to_be(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    organization = OrganizationId(tenant.account.organization_id)
    _, presented = api_keys.mint(Environment.PAPER, os.urandom(api_keys.ENTROPY_BYTES))

    async def waits() -> bool:
        return bool(await pool.fetchval("select count(*) from pg_locks where locktype = 'advisory' and not granted"))

    async with transaction(pool, Role.TENANT, organization) as connection:
        await add_api_key(
            connection,
            organization,
            new_id(),
            presented,
            name="slow",
            environment=Environment.PAPER,
            permissions=["intent:read"],
        )
        quick = asyncio.ensure_future(created(api, tenant, name="quick"))
        await until(waits, 60)
    await quick
    listed = (await api.client.get(URL, headers=as_user(tenant))).json()["data"]
    assert [key["name"] for key in listed] == ["test", "slow", "quick"]


async def test_every_change_is_audited_once_and_without_a_secret(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    body = await created(api, tenant)
    headers = as_user(tenant)
    for change in ({"name": "writer"}, {"name": "writer"}, {"disabled": True}):
        await api.client.patch(f"{URL}/{body['id']}", json=change, headers=headers)
    for _ in range(2):
        await api.client.delete(f"{URL}/{body['id']}", headers=headers)
    rows = await audited(pool)
    assert [row[:3] for row in rows] == [
        ("USER", "auth|7", operation) for operation in ("keys create", "keys change", "keys change", "keys revoke")
    ]
    assert rows[0][3] is None
    for (*_, after), (_, _, _, before, _) in itertools.pairwise(rows):
        assert after == before
    assert (rows[1][4]["name"], rows[2][4]["disabled"], rows[3][4]["revoked_at"] is None) == ("writer", True, False)
    written = str(rows)
    assert body["api_key"].split("_")[4] not in written
    assert "hash" not in written


async def test_a_login_that_may_only_what_it_needs_manages_keys(login_pool: Pool) -> None:
    tenant = await a_tenant(login_pool)
    async with rest_api(login_pool) as api:
        body = await created(api, tenant)
        changed = await api.client.patch(f"{URL}/{body['id']}", json={"disabled": True}, headers=as_user(tenant))
        assert changed.status_code == 200
        assert (await api.client.delete(f"{URL}/{UUID(body['id'])}", headers=as_user(tenant))).status_code == 204


async def test_the_use_of_a_key_is_noted_by_one_statement_for_many_requests(
    api: RestApi, tenant: Tenant, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await created(api, tenant)
    assert "last_used_at" not in key
    ran: list[str] = []
    in_order = named_queries._PlainAdapter._in_order

    def counted(adapter: Any, query_name: str, parameters: Any) -> Any:
        ran.append(query_name)
        return in_order(adapter, query_name, parameters)

    monkeypatch.setattr(named_queries._PlainAdapter, "_in_order", counted)
    for _ in range(20):
        assert await status_with(api, tenant, key["api_key"]) == 200

    async def noted() -> bool:
        return bool(await pool.fetchval("select count(*) from api_key_uses where api_key_id = $1", UUID(key["id"])))

    await until(noted)
    assert ran.count("note_key_uses_across_organizations") == 1
    shown = (await api.client.get(f"{URL}/{key['id']}", headers=as_user(tenant))).json()
    assert shown["created_at"] <= shown.pop("last_used_at")
    assert [row[2] for row in await audited(pool)] == ["keys create"]
    assert "last_used_at" not in (await audited(pool))[0][4]


async def test_a_use_is_noted_while_somebody_changes_the_key_and_a_change_of_nothing_is_still_none(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    key = await created(api, tenant)
    store = PostgresOrganizationStore(pool)
    async with transaction(pool, Role.TENANT, tenant.account.organization_id) as connection:
        await connection.execute("select from api_keys where key_id = $1 for no key update", key["key_id"])
        await store.note_key_uses_across_organizations([key["key_id"]])
    same = await api.client.patch(f"{URL}/{key['id']}", json={"disabled": False}, headers=as_user(tenant))
    assert "last_used_at" in same.json()
    assert [row[2] for row in await audited(pool)] == ["keys create"]

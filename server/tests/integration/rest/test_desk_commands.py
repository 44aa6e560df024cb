"""Desk commands over REST: accepted once per key, readable with the outcome of each order, and only by who may."""

from uuid import UUID

import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_limit_create, a_tenant, accept, new_id
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi, pointers, problem


def path(tenant: Tenant) -> str:
    return f"/v1/accounts/{tenant.account.id}/desk-commands"


async def test_a_member_cancels_all_and_reads_the_outcome_of_each_order_page_by_page(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    accepted = await accept(pool, *(tenant.submission(a_limit_create()) for _ in range(5)))
    member = as_user(tenant, role="member")
    answer = await api.client.post(path(tenant), json={"type": "CANCEL_ALL"}, headers=member)
    assert answer.status_code == 202, answer.text
    command = answer.json()
    assert (command["status"], command["orders"], command["principal_type"]) == ("WORKING", 5, "USER")
    assert answer.headers["location"] == f"{path(tenant)}/{command['id']}"
    shown = (await api.client.get(answer.headers["location"], headers=member)).json()
    assert shown == command | {"outcomes": {"CANCELING": 5}}
    assert (await api.client.get(path(tenant), headers=member)).json()["data"] == [command]
    seen, cursor = list[str](), ""
    while True:
        query = f"?limit=2{cursor}"
        page = (await api.client.get(f"{path(tenant)}/{command['id']}/orders{query}", headers=member)).json()
        seen += [order["intent_id"] for order in page["data"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&next_cursor={page['next_cursor']}"
    assert sorted(seen) == sorted(str(each.intent_id) for each in accepted)


async def test_the_same_key_records_one_command(api: RestApi, tenant: Tenant) -> None:
    headers = {"x-api-key": tenant.key, "idempotency-key": "k"}
    answers = [await api.client.post(path(tenant), json={"type": "CANCEL_ALL"}, headers=headers) for _ in range(2)]
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true"]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    other = await api.client.post(path(tenant), json={"type": "CANCEL_ALL", "symbol": "AAPL"}, headers=headers)
    problem(other, 422, "idempotency_key_reused")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"type": "CLOSE_POSITION"}, "/symbol"),
        ({"type": "CLOSE_POSITION", "symbol": "AAPL", "api_key_id": str(UUID(int=1))}, "/api_key_id"),
        ({"type": "CANCEL"}, "/type"),
        ({"type": "CANCEL_ALL", "symbols": ["AAPL"]}, "/symbols"),
    ],
)
async def test_a_wrong_body_is_refused_with_the_field(
    api: RestApi, tenant: Tenant, body: dict[str, object], pointer: str
) -> None:
    answer = await api.client.post(path(tenant), json=body, headers={"x-api-key": tenant.key})
    assert pointer in pointers(problem(answer, 422, "invalid_command"))[0]


async def test_nothing_disabled_stops_a_desk_command_but_the_role_does(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    await pool.execute("update accounts set disabled = true; update organizations set disabled = true")
    refused = await api.client.post(
        path(tenant), json={"type": "CANCEL_ALL"}, headers=as_user(tenant, role="read_only")
    )
    problem(refused, 403, "permission_denied")
    answer = await api.client.post(path(tenant), json={"type": "CANCEL_ALL"}, headers={"x-api-key": tenant.key})
    assert answer.status_code == 202


async def test_a_command_of_another_organization_is_not_found(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    other = await a_tenant(pool)
    theirs = (await api.client.post(path(other), json={"type": "CANCEL_ALL"}, headers={"x-api-key": other.key})).json()[
        "id"
    ]
    ours = {"x-api-key": tenant.key}
    for place in (f"{path(other)}/{theirs}", f"{path(tenant)}/{theirs}", f"{path(tenant)}/{new_id()}"):
        for suffix in ("", "/orders"):
            problem(await api.client.get(place + suffix, headers=ours), 404, "not_found")
    problem(await api.client.post(path(other), json={"type": "CANCEL_ALL"}, headers=ours), 404, "not_found")

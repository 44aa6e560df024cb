"""Users cancel orders, which no key's submit is for."""

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_limit_create, a_tenant, accept, new_id
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi, pointers, problem


async def test_a_member_cancels_several_orders_at_once_and_learns_what_became_of_each(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    accepted = await accept(pool, *(tenant.submission(a_limit_create()) for _ in range(3)))
    nobodys, other_organization = new_id(), await a_tenant(pool)
    (foreign,) = await accept(pool, other_organization.submission(a_limit_create()))
    ids = [str(each) for each in (accepted[0].intent_id, nobodys, accepted[2].intent_id, foreign.intent_id)]
    url, member = f"/v1/accounts/{tenant.account.id}/orders/cancel", as_user(tenant, role="member")
    answer = await api.client.post(url, json={"intent_ids": ids}, headers=member)
    assert answer.status_code == 200, answer.text
    rows = answer.json()["data"]
    assert [row["intent_id"] for row in rows] == ids
    assert [row.get("code") for row in rows] == [None, "not_found", None, "not_found"]
    recorded = await pool.fetch(
        "select action_id::text, principal_type from intent_actions where action_type = 'CANCEL' order by action_no"
    )
    assert [row["action_id"] for row in recorded] == [row["action_id"] for row in rows if "action_id" in row]
    assert {row["principal_type"] for row in recorded} == {"USER"}


async def test_a_cancel_is_not_stopped_by_what_is_disabled_but_by_the_role(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    (accepted,) = await accept(pool, tenant.submission(a_limit_create()))
    url, body = f"/v1/accounts/{tenant.account.id}/orders/cancel", {"intent_ids": [str(accepted.intent_id)]}
    for headers, code in (
        (as_user(tenant, role="read_only"), "permission_denied"),
        ({"x-api-key": tenant.key}, "principal_kind_not_allowed"),
    ):
        problem(await api.client.post(url, json=body, headers=headers), 403, code)
    wrong: list[list[str]] = [[], ["7"], [str(new_id())] * 101]
    for ids in wrong:
        answer = await api.client.post(url, json={"intent_ids": ids}, headers=as_user(tenant))
        refused = problem(answer, 422, "invalid_command")
        assert pointers(refused)[0].startswith("/intent_ids")
    await pool.execute("update accounts set disabled = true; update organizations set disabled = true")
    (row,) = (await api.client.post(url, json=body, headers=as_user(tenant))).json()["data"]
    assert "action_id" in row

"""What is going on in every account, in one answer."""

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_report, a_tenant, accept, an_account, an_execution
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi


async def test_the_overview_counts_what_each_account_has_open(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    harness = Harness(pool, tenant)
    intent, name = await harness.working()
    await harness.report(a_report(ReportStatus.WORKING, [an_execution(1, 4, 2)], client_order_id=name))
    await harness.working()
    await pool.execute("update orders set certainty = 'UNKNOWN' where order_id = $1", intent)
    await accept(pool, tenant.submission())
    live = await an_account(pool, tenant.account.organization_id, Environment.LIVE)
    closed = await an_account(pool, tenant.account.organization_id)
    await pool.execute("update accounts set closed_at = now(), disabled = true where account_id = $1", closed.id)
    other_organization = await a_tenant(pool)

    async def read(headers: dict[str, str]) -> list[dict[str, object]]:
        seen, _ = await api.read_pages("/v1/overview", headers, 1)
        return seen

    (row,) = await read({"x-api-key": tenant.key})
    queued_at = row.pop("oldest_queued_at")
    assert queued_at is not None
    assert row == {
        "account_id": str(tenant.account.id),
        "name": row["name"],
        "environment": "paper",
        "disabled": False,
        "switch": "ACTIVE",
        "open_orders": 3,
        "unknown_orders": 1,
        "executions_last_minute": 1,
    }
    both = await read(dict(as_user(tenant, role="read_only")))
    assert [each["account_id"] for each in both] == [str(tenant.account.id), str(live.id)]
    assert [each["account_id"] for each in await read({"x-api-key": other_organization.key})] == [
        str(other_organization.account.id)
    ]


async def test_the_overview_shows_the_stricter_switch_and_the_platforms_halt(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    admin, url = as_user(tenant), "/v1/controls/switches"
    for query, status in (({"scope": "ORGANIZATION"}, "REDUCE_ONLY"), ({"scope": "ACCOUNT"}, "HALTED")):
        where = query | ({"account_id": str(tenant.account.id)} if query["scope"] == "ACCOUNT" else {})
        body = {"status": status, "reason": "tests"}
        answer = await api.client.put(url, params=where, json=body, headers=admin)
        assert answer.status_code == 200, answer.text
        (row,) = (await api.client.get("/v1/overview", headers=admin)).json()["data"]
        assert (row["switch"], "halt_code" in row) == (status, False)
    await pool.execute("update account_counters set halt_code = 'OVERFILL', halted_at = now()")
    (row,) = (await api.client.get("/v1/overview", headers=admin)).json()["data"]
    assert row["halt_code"] == "OVERFILL"

"""All queues in one look: exact counts, how long what is due has waited, and a verdict that says what to do."""

from datetime import datetime
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.events.outbox import Queue
from support.builders.outbox_rows import TABLES, queue_row
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_service, as_user, as_user_without_organization
from support.rest.rest_api import RestApi, limited, problem, rest_api

PATH = "/v1/operations/outboxes"
FIELDS = {
    *("name", "verdict", "explanation", "pending", "processing", "failed", "unacknowledged", "completed"),
    *("oldest_pending_at", "oldest_claim_at", "lag_seconds"),
}
STATUSES = ("pending", "processing", "failed", "completed")


async def outboxes(api: RestApi) -> dict[str, Any]:
    answer = await api.client.get(PATH, headers=as_service("credential:read"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert set(body) == {"verdict", "read_at", "queues"}
    assert [queue["name"] for queue in body["queues"]] == ["accounts", "intents", "users"]
    assert all(set(queue) == FIELDS for queue in body["queues"])
    return body


async def test_empty_queues_are_healthy(api: RestApi) -> None:
    body = await outboxes(api)
    assert body["verdict"] == "HEALTHY"
    for queue in body["queues"]:
        assert queue["verdict"] == "HEALTHY"
        assert [queue[name] for name in (*STATUSES, "unacknowledged", "lag_seconds")] == [0] * 6
        assert (queue["oldest_pending_at"], queue["oldest_claim_at"]) == (None, None)


async def test_every_queue_is_counted_exactly_across_organizations(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    tenants = [tenant, await a_tenant(pool)]
    wanted = {
        queue: {status: 1 + (number + place) % 3 for place, status in enumerate(STATUSES)}
        for number, queue in enumerate(Queue)
    }
    for queue, counts in wanted.items():
        for status, count in counts.items():
            for index in range(count):
                await queue_row(pool, tenants[index % 2], queue, status, age=100.0 - index, claimed_since=3)
    for told in (await outboxes(api))["queues"]:
        table = TABLES[Queue(told["name"])]
        assert {status: told[status] for status in STATUSES} == wanted[Queue(told["name"])]
        assert told["unacknowledged"] == told["failed"]
        queued = await pool.fetchval(f"select min(created_at) from {table} where status = 'pending'")
        assert datetime.fromisoformat(told["oldest_pending_at"]) == queued
        claimed = await pool.fetchval(f"select min(claimed_at) from {table}")
        assert datetime.fromisoformat(told["oldest_claim_at"]) == claimed
        assert 100 <= told["lag_seconds"] < 160


@pytest.mark.parametrize(
    ("queue", "row", "verdict"),
    [
        (Queue.ACCOUNTS, {"status": "failed"}, "FAILING"),
        (Queue.INTENTS, {"age": 20.0}, "SLOW"),
        (Queue.INTENTS, {"age": 300.0}, "STUCK"),
        (Queue.USERS, {"status": "processing", "claimed_since": 30.0}, "STUCK"),
        (Queue.USERS, {"age": 300.0, "due_since": -600.0, "attempts": 3}, "HEALTHY"),
    ],
    ids=["failed", "due for 20 s", "due for 5 min", "claimed for 30 s", "waits for its next try"],
)
async def test_the_verdict_on_a_queue_is_the_verdict_on_all(
    api: RestApi, pool: Pool, tenant: Tenant, queue: Queue, row: dict[str, Any], verdict: str
) -> None:
    await queue_row(pool, tenant, queue, **row)
    body = await outboxes(api)
    assert body["verdict"] == verdict
    assert {told["name"]: told["verdict"] for told in body["queues"]} == dict.fromkeys(Queue, "HEALTHY") | {
        queue: verdict
    }


async def test_failed_rows_that_were_acknowledged_stay_counted_and_are_no_reason_to_act(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    for _ in range(2):
        await queue_row(pool, tenant, status="failed")
    acknowledge = (
        "update outbox_failures set acknowledged_by = 'olga', acknowledged_at = now(), acknowledged_reason = 'seen'"
    )
    await pool.execute(f"{acknowledge} where outbox_id = (select min(outbox_id) from outbox_failures)")
    accounts = (await outboxes(api))["queues"][0]
    assert (accounts["verdict"], accounts["failed"], accounts["unacknowledged"]) == ("FAILING", 2, 1)
    await pool.execute(acknowledge)
    accounts = (await outboxes(api))["queues"][0]
    assert (accounts["verdict"], accounts["failed"], accounts["unacknowledged"]) == ("HEALTHY", 2, 0)


async def test_nothing_of_what_the_rows_say_or_whose_they_are_is_answered(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    for queue in Queue:
        await queue_row(pool, tenant, queue, "failed", payload='{"secret": 1}')
    text = (await api.client.get(PATH, headers=as_service("credential:read"))).text
    for hidden in ("secret", str(tenant.account.organization_id), str(tenant.account.id)):
        assert hidden not in text


async def test_it_is_for_operators_and_errors_are_problems(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    internal = await a_tenant(pool)
    await pool.execute(
        "update organizations set internal = true where organization_id = $1", internal.account.organization_id
    )
    assert (await api.client.get(PATH, headers=as_user(internal))).status_code == 200
    for headers, status, code in (
        ({}, 401, "unauthenticated"),
        ({"x-api-key": internal.key}, 403, "principal_kind_not_allowed"),
        (as_user_without_organization(), 403, "organization_required"),
        (as_service("intent:read"), 403, "permission_denied"),
        (as_user(tenant), 403, "permission_denied"),
        (as_user(internal, "member", sub="auth|8"), 403, "permission_denied"),
    ):
        problem(await api.client.get(PATH, headers=headers), status, code)
    problem(await api.client.post(PATH, headers=as_service("credential:read")), 405, "method_not_allowed")
    problem(await api.client.get(f"{PATH}?a=1", headers=as_service("credential:read")), 400, "invalid_parameter")


async def test_whoever_asks_too_often_is_told_when_to_come_again(pool: Pool) -> None:
    async with rest_api(pool, limit=limited(reads_per_minute=1)) as api:
        asked = [await api.client.get(PATH, headers=as_service("credential:read")) for _ in range(2)]
    assert asked[0].status_code == 200
    problem(asked[1], 429, "rate_limited")


@pytest.mark.parametrize("table", [*TABLES.values(), "outbox_failures"])
async def test_the_role_that_counts_reads_nobody_s_ids_and_no_payload(login_pool: Pool, table: str) -> None:
    async with transaction(login_pool, Role.HEALTH) as connection:
        await connection.fetch(f"select created_at from {table}")
        for column in ("organization_id", "account_id", "payload", "action_id"):
            allowed = await connection.fetchval(
                "select has_column_privilege(attrelid, attname, 'select') from pg_attribute"
                " where attrelid = $1::regclass and attname = $2",
                table,
                column,
            )
            assert not allowed, column

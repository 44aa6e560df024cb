"""The founding contract on the outbox health report: its shape, its sums, who may read it, and plain-text errors."""

from datetime import datetime
from itertools import product

import httpx

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import Headers, as_service, as_user, as_user_without_organization
from support.rest.rest_api import RestApi, limited, rest_api

HEALTH = "/v1/accounts/outbox/health"
STATUSES = ("pending", "processing", "completed", "failed")
EVENT_TYPES = (
    "account.created",
    "account.updated",
    "account.deleted",
    "credential.created",
    "credential.updated",
    "credential.deleted",
)
FIELDS = {
    "entries",
    *("pending", "processing", "failed", "completed"),
    *("oldest_claim_at", "oldest_failed_at", "oldest_pending_at"),
}
ENTRY_FIELDS = {"status", "event_type", "count", "oldest_created_at", "max_attempts", "oldest_claimed_at"}
ADD = """
insert into account_outbox (organization_id, account_id, event_type, payload, attempts, available_at, created_at)
values ($1, $2, $3, '{"secret": "payload"}', $4, now(), now() - make_interval(secs => $5)) returning outbox_id
"""
MOVE = """
update account_outbox
set status = $2, claimed_at = case when $2 = 'processing' then now() - make_interval(secs => $3 / 2.0) end,
    resolved_at = case when $2 in ('completed', 'failed') then now() end
where outbox_id = $1 and status <> $2
"""


async def queue(pool: Pool, tenant: Tenant, event_type: str, status: str, attempts: int, age: float) -> None:
    where = tenant.account.organization_id, tenant.account.id
    outbox_id = await pool.fetchval(ADD, *where, event_type, attempts, age)
    await pool.execute(MOVE, outbox_id, status, age)


async def health(api: RestApi, headers: Headers | None = None) -> httpx.Response:
    return await api.client.get(HEALTH, headers=as_service("credential:read") if headers is None else headers)


async def test_an_empty_queue_has_no_entries_and_no_oldest_row(api: RestApi) -> None:
    answer = await health(api)
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) <= FIELDS
    assert (body["entries"], [body[status] for status in STATUSES]) == ([], [0, 0, 0, 0])
    assert {body.get(oldest) for oldest in ("oldest_claim_at", "oldest_failed_at", "oldest_pending_at")} == {None}


async def test_there_is_one_entry_for_each_status_and_type_and_the_totals_are_their_sums_over_all_organizations(
    api: RestApi, pool: Pool
) -> None:
    for tenant in (await a_tenant(pool), await a_tenant(pool)):
        for attempts, (status, event_type) in enumerate(product(STATUSES, EVENT_TYPES)):
            await queue(pool, tenant, event_type, status, attempts % 10, 10.0)
    body = (await health(api)).json()
    entries = body["entries"]
    assert sorted((entry["status"], entry["event_type"]) for entry in entries) == sorted(product(STATUSES, EVENT_TYPES))
    assert {entry["count"] for entry in entries} == {2}
    for status in STATUSES:
        assert body[status] == sum(entry["count"] for entry in entries if entry["status"] == status) == 12


async def test_an_entry_tells_ages_and_attempts_and_never_whose_row_it_is_or_what_it_says(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    for attempts, age in ((3, 100.0), (7, 50.0)):
        for status in STATUSES:
            await queue(pool, tenant, "account.updated", status, attempts, age)
    answer = await health(api)
    body = answer.json()
    for entry in body["entries"]:
        assert set(entry) <= ENTRY_FIELDS
        assert entry["max_attempts"] == 7
        oldest = await pool.fetchval("select min(created_at) from account_outbox where status = $1", entry["status"])
        assert datetime.fromisoformat(entry["oldest_created_at"]) == oldest
        claimed = await pool.fetchval("select min(claimed_at) from account_outbox where status = $1", entry["status"])
        told = entry.get("oldest_claimed_at")
        assert (datetime.fromisoformat(told) if told else None) == claimed
        assert (claimed is not None) == (entry["status"] == "processing")
    for oldest, status in (("oldest_failed_at", "failed"), ("oldest_pending_at", "pending")):
        (entry,) = [entry for entry in body["entries"] if entry["status"] == status]
        assert body[oldest] == entry["oldest_created_at"]
    (processing,) = [entry for entry in body["entries"] if entry["status"] == "processing"]
    assert body["oldest_claim_at"] == processing["oldest_claimed_at"]
    for hidden in (tenant.account.id, tenant.account.organization_id, "payload"):
        assert str(hidden) not in answer.text


async def test_who_may_read_the_report_and_how_everybody_else_is_answered(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    internal = await a_tenant(pool)
    await pool.execute(
        "update organizations set internal = true where organization_id = $1", internal.account.organization_id
    )
    callers: list[tuple[Headers, int]] = [
        (as_service("credential:read"), 200),
        (as_user(internal), 200),
        ({}, 401),
        ({"authorization": "Bearer x.y.z"}, 401),
        ({"x-api-key": internal.key}, 401),
        (as_user_without_organization(), 401),
        (as_service("intent:read"), 403),
        (as_user(tenant), 403),
        (as_user(internal, "member", sub="auth|8"), 403),
    ]
    for headers, status in callers:
        answer = await health(api, headers)
        assert answer.status_code == status, answer.text
        assert status == 200 or answer.headers["content-type"] == "text/plain; charset=utf-8"


async def test_an_unexpected_error_is_500_in_plain_text(api: RestApi, pool: Pool) -> None:
    await pool.execute("revoke select on account_outbox from openbell_health")
    answer = await health(api)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "text/plain; charset=utf-8")


async def test_a_caller_beyond_the_rate_is_429_in_plain_text(pool: Pool) -> None:
    async with rest_api(pool, limit=limited(reads_per_second=1)) as api:
        assert (await health(api)).status_code == 200
        answer = await health(api)
    assert (answer.status_code, answer.headers["content-type"]) == (429, "text/plain; charset=utf-8")
    assert int(answer.headers["retry-after"]) >= 1

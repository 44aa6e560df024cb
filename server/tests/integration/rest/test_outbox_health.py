"""Outbox health: exact figures of the whole queue, for the few who may see them, errors in plain text."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.events.outbox import OutboxStatus
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_service, as_user
from support.rest.rest_api import RestApi, limited, rest_api

PATH = "/v1/accounts/outbox/health"
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
TYPES = [f"{what}.{done}" for what in ("account", "credential") for done in ("created", "updated", "deleted")]
RESPONSE = {
    *("entries", "pending", "processing", "failed", "completed"),
    *("oldest_claim_at", "oldest_failed_at", "oldest_pending_at"),
}
ENTRY = {"status", "event_type", "count", "oldest_created_at", "max_attempts", "oldest_claimed_at"}


async def queue(pool: Pool, tenant: Tenant, status: str, event_type: str, minutes: int, attempts: int = 0) -> None:
    """A row that was queued so many minutes after noon, and claimed or resolved a minute later."""
    at = NOON + timedelta(minutes=minutes)
    outbox_id = await pool.fetchval(
        "insert into account_outbox (organization_id, account_id, event_type, payload, attempts, available_at,"
        " created_at) values ($1, $2, $3, '{\"secret\": 1}', $4, $5, $5) returning outbox_id",
        tenant.account.organization_id,
        tenant.account.id,
        event_type,
        attempts,
        at,
    )
    await pool.execute(
        "update account_outbox set status = $2, claimed_at = case when $2 = 'processing' then $3::timestamptz end,"
        " resolved_at = case when $2 in ('completed', 'failed') then $3 end where outbox_id = $1 and status <> $2",
        outbox_id,
        status,
        at + timedelta(minutes=1),
    )


def at(minutes: int) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def plain(answer: httpx.Response, status: int) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8"), answer.text
    return answer.text


async def test_an_empty_queue_has_no_entries_and_nothing_oldest(api: RestApi) -> None:
    answer = await api.client.get(PATH, headers=as_service("credential:read"))
    assert answer.status_code == 200
    assert answer.json() == {
        "entries": [],
        **dict.fromkeys(("pending", "processing", "failed", "completed"), 0),
        **dict.fromkeys(("oldest_claim_at", "oldest_failed_at", "oldest_pending_at")),
    }


async def test_every_status_and_type_is_counted_exactly_across_organizations(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    tenants = [tenant, await a_tenant(pool)]
    rows = [
        (status, event_type, index)
        for number, status in enumerate(OutboxStatus)
        for place, event_type in enumerate(TYPES)
        for index in range((number + place) % 4)
    ]
    for position, (status, event_type, index) in enumerate(rows):
        await queue(pool, tenants[position % 2], status, event_type, position, attempts=index)
    body = (await api.client.get(PATH, headers=as_service("credential:read"))).json()
    assert set(body) == RESPONSE
    expected: dict[tuple[str, str], dict[str, int]] = {}
    for position, (status, event_type, index) in enumerate(rows):
        entry = expected.setdefault((str(status), event_type), {"first": position, "count": 0, "attempts": 0})
        entry["count"] += 1
        entry["attempts"] = max(entry["attempts"], index)
    assert len(expected) == len(body["entries"]) == len({(e["status"], e["event_type"]) for e in body["entries"]})
    for entry in body["entries"]:
        assert set(entry) == ENTRY
        known = expected[entry["status"], entry["event_type"]]
        assert (entry["count"], entry["max_attempts"]) == (known["count"], known["attempts"])
        assert entry["oldest_created_at"] == at(known["first"])
        claimed = at(known["first"] + 1) if entry["status"] == "processing" else None
        assert entry["oldest_claimed_at"] == claimed
    for status in OutboxStatus:
        entries = [entry["count"] for entry in body["entries"] if entry["status"] == status]
        assert body[status] == sum(entries) == sum(row[0] is status for row in rows) > 0
    assert body["oldest_pending_at"] == at(_first(rows, OutboxStatus.PENDING))
    assert body["oldest_failed_at"] == at(_first(rows, OutboxStatus.FAILED))
    assert body["oldest_claim_at"] == at(_first(rows, OutboxStatus.PROCESSING) + 1)


def _first(rows: Sequence[tuple[OutboxStatus, str, int]], status: OutboxStatus) -> int:
    return [row[0] for row in rows].index(status)


async def test_nothing_of_what_the_rows_say_or_whose_they_are_is_answered(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    await queue(pool, tenant, "failed", "credential.deleted", 1)
    text = (await api.client.get(PATH, headers=as_service("credential:read"))).text
    for hidden in ("secret", str(tenant.account.organization_id), str(tenant.account.id)):
        assert hidden not in text


async def test_an_admin_of_an_internal_organization_sees_it_and_other_users_do_not(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    customer = await a_tenant(pool)
    await pool.execute(
        "update organizations set internal = true where organization_id = $1", tenant.account.organization_id
    )
    assert (await api.client.get(PATH, headers=as_user(tenant))).status_code == 200
    for headers in (
        *(as_user(tenant, role=role) for role in ("member", "read_only", None)),
        as_user(customer),
        as_user(customer, org_id="org_unknown"),
    ):
        plain(await api.client.get(PATH, headers=headers), 403)


async def test_no_scope_but_credential_read_will_do(api: RestApi) -> None:
    plain(await api.client.get(PATH, headers=as_service("intent:read account:read")), 403)
    plain(await api.client.get(PATH, headers=as_service("")), 403)


async def test_keys_strangers_and_users_without_organization_are_not_known_here(api: RestApi, tenant: Tenant) -> None:
    for headers in (
        {"x-api-key": tenant.key},
        {},
        {"authorization": "Bearer a.b.c"},
        {"x-api-key": "ob_paper_nothing"},
        as_user(tenant, org_id=None),
    ):
        assert plain(await api.client.get(PATH, headers=headers), 401) == "unauthorized"


@pytest.mark.parametrize("path", [PATH, f"{PATH}/"])
async def test_errors_around_the_handler_are_plain_as_well(api: RestApi, tenant: Tenant, path: str) -> None:
    plain(await api.client.post(path, headers=as_service("credential:read")), 405)
    two = as_service("credential:read") | {"x-api-key": tenant.key}
    plain(await api.client.get(path, headers=two), 400)


async def test_a_queue_that_cannot_be_read_answers_500_in_plain_text(pool: Pool) -> None:
    async with rest_api(pool) as api:
        await pool.execute("revoke select (status) on account_outbox from openbell_health")
        plain(await api.client.get(PATH, headers=as_service("credential:read")), 500)


async def test_it_does_not_stand_in_the_way_of_an_account_s_routes(api: RestApi, tenant: Tenant) -> None:
    answer = await api.client.get(f"/v1/accounts/{tenant.account.id}/intents", headers={"x-api-key": tenant.key})
    assert answer.status_code == 200


async def test_the_role_sees_no_row_s_content(login_pool: Pool, tenant: Tenant) -> None:
    for column in ("payload", "organization_id", "account_id", "outbox_id", "claim_token"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with transaction(login_pool, Role.HEALTH) as connection:
                await connection.fetch(f"select {column} from account_outbox")
    async with rest_api(login_pool) as api:
        assert (await api.client.get(PATH, headers=as_service("credential:read"))).status_code == 200


@pytest.mark.parametrize("event_type", ["intent.created", "user.deleted", "account.disabled", ""])
async def test_the_queue_takes_the_six_types_and_no_other(pool: Pool, tenant: Tenant, event_type: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await queue(pool, tenant, "pending", event_type, 0)


async def test_whoever_asks_too_often_is_told_so_in_plain_text(pool: Pool) -> None:
    async with rest_api(pool, limit=limited(reads_per_minute=1)) as api:
        asked = [await api.client.get(PATH, headers=as_service("credential:read")) for _ in range(2)]
        assert asked[0].status_code == 200
        plain(asked[1], 429)
        assert asked[1].headers["retry-after"] == "60"

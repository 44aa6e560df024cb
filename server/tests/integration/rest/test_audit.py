"""The audit log on REST: an organization's admins read their own, in pages, and can verify it."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from openbell.access.audit import AuditEntry, export_lines
from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.application.access import read_audit_log
from openbell_server.cli.audit_lines import read_parts
from openbell_server.domain.access.audit_chain import Verification
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_service, as_user
from support.rest.rest_api import RestApi, problem
from support.tenancy.altered_audit_logs import an_audit_log, append_some

URL = "/v1/audit"
ENTRIES = 20
_READ = "select sum(seq_tup_read + idx_tup_fetch)::bigint from pg_stat_xact_user_tables where schemaname = 'openbell'"


async def listed(api: RestApi, tenant: Tenant, **parameters: object) -> list[dict[str, Any]]:
    """Every page; a page that is not the last may be short."""
    rows, cursor = [], None
    while True:
        asked = {name: str(value) for name, value in parameters.items()} | ({"next_cursor": cursor} if cursor else {})
        answer = await api.client.get(URL, params=asked, headers=as_user(tenant))
        assert answer.status_code == 200, answer.text
        rows += answer.json()["data"]
        if (cursor := answer.json()["next_cursor"]) is None:
            return rows


async def test_an_admin_reads_the_organization_s_entries_in_both_orders_and_no_other(api: RestApi, pool: Pool) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    await append_some(pool, await a_tenant(pool), 3)
    rows = await listed(api, tenant, limit=7)
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["organization_id"] for row in rows} == {str(tenant.account.organization_id)}
    assert len(rows) >= ENTRIES
    for limit in (1, 7, len(rows)):
        assert await listed(api, tenant, limit=limit, order="desc") == rows[::-1]
    assert await listed(api, await a_tenant(pool)) == []


async def test_what_an_admin_exports_is_verified_like_an_operator_s_export(
    api: RestApi, pool: Pool, tmp_path: Path
) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    rows = await listed(api, tenant)
    for changed, holds in (({}, True), ({"object_id": "another"}, False)):
        rows[3] |= changed
        lines = export_lines(AuditEntry(**row) for row in rows)
        (tmp_path / "audit.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        result = Verification()
        for part in read_parts(tmp_path / "audit.jsonl"):
            result.take(part)
        result.end()
        assert (result.entries, result.holds) == (len(rows), holds)


async def test_a_filter_lists_what_matches_however_few_numbers_a_page_scans(
    api: RestApi, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    rows = await listed(api, tenant)
    monkeypatch.setattr(read_audit_log, "NUMBERS_MAX", 3)
    for order, every in (("asc", rows), ("desc", rows[::-1])):
        for operation in {row["operation"] for row in rows}:
            found = await listed(api, tenant, operation=operation, order=order, limit=2)
            assert found == [row for row in every if row["operation"] == operation]
        for who in {row["principal_id"] for row in rows}:
            assert await listed(api, tenant, principal_id=who, order=order) == [
                row for row in every if row["principal_id"] == who
            ]
        since, until = rows[4]["occurred_at"], rows[9]["occurred_at"]
        assert await listed(api, tenant, since=since, until=until, order=order) == [
            row for row in every if since <= row["occurred_at"] < until
        ]
        assert await listed(api, tenant, since=until, until=since, order=order) == []


async def test_a_program_that_asks_again_later_gets_the_entries_since(api: RestApi, pool: Pool) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    first = (await api.client.get(URL, params={"limit": "100"}, headers=as_user(tenant))).json()
    asked = {"next_cursor": first["last_cursor"]}
    nothing = (await api.client.get(URL, params=asked, headers=as_user(tenant))).json()
    assert (first["next_cursor"], nothing["data"], nothing["last_cursor"]) == (None, [], first["last_cursor"])
    await append_some(pool, tenant, 2)
    later = (await api.client.get(URL, params=asked, headers=as_user(tenant))).json()
    assert [row["number"] for row in later["data"]] == [first["data"][-1]["number"] + n for n in (1, 2)]


async def test_keys_service_accounts_and_other_users_are_refused(api: RestApi, tenant: Tenant) -> None:
    for headers in ({"x-api-key": tenant.key}, as_service("account:read", tenant=tenant)):
        problem(await api.client.get(URL, headers=headers), 403, "principal_kind_not_allowed")
    problem(await api.client.get(URL, headers=as_user(tenant, "member")), 403, "permission_denied")
    for wrong in ({"order": "newest"}, {"operation": ""}, {"principal_id": "\t"}, {"since": "today"}):
        problem(await api.client.get(URL, params=wrong, headers=as_user(tenant)), 400, "invalid_parameter")


async def test_a_page_of_a_long_log_reads_as_many_rows_as_it_shows(pool: Pool, login_pool: Pool) -> None:
    tenant = await a_tenant(pool)
    await append_some(pool, tenant, 400)
    await append_some(pool, await a_tenant(pool), 50)
    await pool.execute("vacuum analyze")
    organization_id, queries = tenant.account.organization_id, named_queries.load("audit_log")
    nothing = {"of_operation": None, "of_principal": None, "organization_id": organization_id}
    when = "select occurred_at from audit_log where organization_id = $1 and entry_no = 200"
    middle = await pool.fetchval(when, organization_id)

    async def read(name: str, **values: Any) -> tuple[Any, int]:
        async with transaction(login_pool, Role.TENANT, organization_id) as connection:
            # Of an earlier transaction, if its numbers are not passed on yet.
            before = await connection.fetchval(_READ) or 0
            asked = getattr(queries, name)(connection, **values)
            found = [row["entry_no"] async for row in asked] if hasattr(asked, "__aiter__") else await asked
            return found, await connection.fetchval(_READ) - before

    for name, numbers in (("oldest_entries", range(11, 31)), ("newest_entries", range(390, 370, -1))):
        found, rows = await read(name, **nothing, after=10, last=390, row_limit=20)
        assert (found, rows) == (list(numbers), 20)
    assert isinstance(middle, datetime)
    found, rows = await read("first_entry_since", organization_id=organization_id, moment=middle)
    assert found == 200
    assert 0 < rows <= (400).bit_length() + 2

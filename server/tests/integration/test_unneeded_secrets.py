"""Sealed secrets are destroyed when no credential needs them any more, and not before."""

from uuid import UUID

import pytest

from openbell_server.adapters.postgres.access.accounts import PostgresAccountRecords
from openbell_server.adapters.postgres.access.orphaned_secrets import destroy_orphaned_across_organizations
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from support.builders.tenant import Tenant, a_tenant, new_id


async def a_credential(pool: Pool, tenant: Tenant, version: int) -> UUID:
    account, credential_id = tenant.account, new_id()
    await pool.execute(
        "insert into credentials (organization_id, account_id, credential_id, broker, kind, hint, version, asked_at,"
        " created_at, updated_at) values ($1, $2, $3, 'paper', 'key', '1234', $4, now(), now(), now())",
        *(account.organization_id, account.id, credential_id, version),
    )
    return credential_id


async def seal(pool: Pool, tenant: Tenant, credential_id: UUID, version: int) -> None:
    account = tenant.account
    await pool.execute(
        "insert into vault_objects (organization_id, account_id, credential_id, version, key_id, wrapped_key, sealed)"
        " values ($1, $2, $3, $4, 'k', '', '')",
        *(account.organization_id, account.id, credential_id, version),
    )


@pytest.mark.parametrize("current", [1, 2, 3])
async def test_older_versions_go_and_the_current_and_newer_ones_stay(pool: Pool, current: int) -> None:
    tenant = await a_tenant(pool)
    credential_id = await a_credential(pool, tenant, current)
    for version in (1, 2, 3):
        await seal(pool, tenant, credential_id, version)
    for _ in range(2):
        await destroy_orphaned_across_organizations(pool, [tenant.account.id])
        left = await pool.fetch("select version from vault_objects order by 1")
        assert [row["version"] for row in left] == [version for version in (1, 2, 3) if version >= current]


async def test_those_of_a_credential_that_is_gone_go_and_other_accounts_keep_theirs(pool: Pool) -> None:
    one, other = [await a_tenant(pool) for _ in range(2)]
    kept = await a_credential(pool, one, 1)
    await seal(pool, one, kept, 1)
    # The account had another credential before this one.
    await seal(pool, one, new_id(), 7)
    await seal(pool, other, new_id(), 1)
    await destroy_orphaned_across_organizations(pool, [one.account.id])
    left = {row["account_id"]: row["credential_id"] for row in await pool.fetch("select * from vault_objects")}
    assert left.keys() == {one.account.id, other.account.id}
    assert left[one.account.id] == kept
    await destroy_orphaned_across_organizations(pool, [other.account.id])
    assert await pool.fetchval("select count(*) from vault_objects") == 1


async def test_an_account_that_is_closed_keeps_no_credential_and_no_secrets(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    await seal(pool, tenant, await a_credential(pool, tenant, 1), 1)
    await pool.execute("update accounts set credential_status = 'VALID', credential_version = 1")
    assert await PostgresAccountRecords(pool, DatabaseClock(pool)).close(tenant.principal, tenant.account.id, None)
    await destroy_orphaned_across_organizations(pool, [tenant.account.id])
    left = "select (select count(*) from credentials), (select count(*) from vault_objects)"
    assert tuple(await pool.fetchrow(left) or ()) == (0, 0)
    standing = await pool.fetchrow("select credential_status, credential_version from accounts")
    assert tuple(standing or ()) == ("NOT_REQUIRED", None)

"""Credentials that run out: who is told when, exactly once however many tell, and what stops at the end."""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from openbell_server.adapters.postgres.access.credentials import PostgresCredentialStore
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.application.access.ports.credentials import RunningOut
from openbell_server.application.access.warn_before_expiry import BATCH_MAX, WarnOfExpiry
from openbell_server.domain.access.credentials import NewCredential, SealedSecrets, SecretPlace
from support.builders.tenant import Tenant, a_tenant, new_id
from support.rest.rest_api import RecordedHints

Published = list[tuple[str, str, int]]


def store_of(pool: Pool) -> PostgresCredentialStore:
    return PostgresCredentialStore(pool, DatabaseClock(pool))


async def a_credential(pool: Pool, tenant: Tenant) -> None:
    """One that never runs out, with its account's first version."""
    standing = await store_of(pool).read(tenant.account.organization_id, tenant.account.id)
    place = SecretPlace(tenant.account.organization_id, tenant.account.id, new_id(), standing.versions + 1)
    new = NewCredential(broker="paper", kind="paper_key", hint="K7Q2", expires_at=None)
    assert await store_of(pool).save(tenant.principal, place, new, SealedSecrets("k", b"w", b"s"))


async def runs_out_in(pool: Pool, tenant: Tenant, left: timedelta) -> None:
    """Move the end and every warning alike, as if time had passed."""
    await pool.execute(
        "update credentials set expires_at = clock_timestamp() + $2,"
        " warned_at = warned_at + (clock_timestamp() + $2 - expires_at) where account_id = $1",
        tenant.account.id,
        left,
    )


async def told(pool: Pool, tenant: Tenant) -> Published:
    """Reason, status and version of the account, of every event since the credential was made."""
    rows = await pool.fetch(
        "select body from account_events where account_id = $1 and event_no > 1 order by event_no", tenant.account.id
    )
    bodies = [json.loads(row["body"]) for row in rows]
    return [(body["reason"]["code"], body["credential_status"], body["version"]) for body in bodies]


@pytest.fixture
async def tenant(login_pool: Pool) -> Tenant:
    made = await a_tenant(login_pool)
    await a_credential(login_pool, made)
    return made


@dataclass
class Relay:
    """A relay's own loop, round by round."""

    pool: Pool
    hints: RecordedHints = field(default_factory=RecordedHints)

    async def round(self) -> bool:
        return await WarnOfExpiry(store_of(self.pool), self.hints)()


async def test_each_warning_comes_once_and_in_its_time(pool: Pool, login_pool: Pool, tenant: Tenant) -> None:
    relay, warned, seen = Relay(login_pool), ("CREDENTIAL_EXPIRING", "UNVERIFIED", 2), []
    days = [20, 14.01, 13.99, 5, 3.01, 2.99, 1.01, 0.99, 0.5, -0.01, -3]
    for left in days:
        await runs_out_in(pool, tenant, timedelta(days=left))
        for _ in range(2):
            await relay.round()
        seen.append(len(await told(pool, tenant)))
    assert seen == [0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4]
    assert await told(pool, tenant) == [warned, warned, warned, ("CREDENTIAL_EXPIRED", "EXPIRED", 3)]
    assert relay.hints.accounts == [tenant.account.id] * 4


async def test_what_was_due_more_than_once_is_told_once_with_the_latest(
    pool: Pool, login_pool: Pool, tenant: Tenant
) -> None:
    await runs_out_in(pool, tenant, timedelta(hours=2))
    await Relay(login_pool).round()
    await Relay(login_pool).round()
    assert len(await told(pool, tenant)) == 1


async def test_the_end_is_queued_audited_and_evaluated_anew(pool: Pool, login_pool: Pool, tenant: Tenant) -> None:
    await runs_out_in(pool, tenant, timedelta(seconds=-1))
    await Relay(login_pool).round()
    account = await pool.fetchrow(
        "select a.credential_status, a.credential_version, a.version, c.control_epoch"
        " from accounts a join account_counters c using (account_id)"
    )
    assert tuple(account or ()) == ("EXPIRED", 1, 3, 3)
    queued = await pool.fetch("select event_type, payload from account_outbox order by outbox_id")
    assert [row["event_type"] for row in queued] == ["credential.created", "credential.updated"]
    assert json.loads(queued[1]["payload"]) == json.loads(queued[0]["payload"])
    audited = await pool.fetchrow(
        "select principal_type, operation, before, after from audit_log order by audit_id desc limit 1"
    )
    assert audited is not None
    assert (audited["principal_type"], audited["operation"]) == ("SYSTEM", "credentials expire")
    assert json.loads(audited["before"])["status"] == "UNVERIFIED"
    assert json.loads(audited["after"])["status"] == "EXPIRED"


async def test_of_many_relays_one_tells(pool: Pool, login_pool: Pool, tenant: Tenant) -> None:
    relays = [Relay(login_pool) for _ in range(6)]
    for left in (timedelta(days=2), timedelta(seconds=-1)):
        await runs_out_in(pool, tenant, left)
        await asyncio.gather(*(relay.round() for relay in relays))
    assert [reason for reason, _, _ in await told(pool, tenant)] == ["CREDENTIAL_EXPIRING", "CREDENTIAL_EXPIRED"]
    assert sum(len(relay.hints.accounts) for relay in relays) == 2


@pytest.mark.parametrize("change", ["replaced", "removed", "given more time"])
async def test_what_changed_since_it_was_found_is_left_alone(
    pool: Pool, login_pool: Pool, tenant: Tenant, change: str
) -> None:
    store = store_of(login_pool)
    await runs_out_in(pool, tenant, timedelta(seconds=-1))
    (found,) = await store.running_out_across_organizations(10)
    if change == "replaced":
        await a_credential(login_pool, tenant)
    elif change == "removed":
        await pool.execute("delete from credentials")
    else:
        await pool.execute("update credentials set expires_at = clock_timestamp() + interval '1 year'")
    events = await pool.fetchval("select count(*) from account_events")
    assert not await store.record_warning(found)
    assert await pool.fetchval("select count(*) from account_events") == events
    assert await pool.fetchval("select credential_status from accounts") == "UNVERIFIED"


async def test_a_new_credential_is_warned_of_anew(pool: Pool, login_pool: Pool, tenant: Tenant) -> None:
    for _ in range(2):
        await runs_out_in(pool, tenant, timedelta(days=2))
        await Relay(login_pool).round()
        await a_credential(login_pool, tenant)
    codes = await pool.fetch("select body::json -> 'reason' ->> 'code' as code from account_events order by event_no")
    assert [row["code"] for row in codes] == [None, *["CREDENTIAL_EXPIRING", None] * 2]


async def test_an_end_that_the_broker_told_before_is_not_told_again(
    pool: Pool, login_pool: Pool, tenant: Tenant
) -> None:
    await pool.execute("update accounts set credential_status = 'EXPIRED'")
    await runs_out_in(pool, tenant, timedelta(seconds=-1))
    for _ in range(2):
        await Relay(login_pool).round()
    assert await told(pool, tenant) == []
    assert await pool.fetchval("select version from accounts") == 2


async def test_what_fails_for_one_account_holds_up_no_other(pool: Pool, login_pool: Pool, tenant: Tenant) -> None:
    other = await a_tenant(login_pool)
    await a_credential(login_pool, other)
    for each in (tenant, other):
        await runs_out_in(pool, each, timedelta(seconds=-1))
    store = store_of(login_pool)

    class Failing:
        async def running_out_across_organizations(self, limit: int) -> list[RunningOut]:
            assert limit == BATCH_MAX
            return await store.running_out_across_organizations(limit)

        async def record_warning(self, credential: RunningOut) -> bool:
            if credential.account_id == tenant.account.id:
                raise RuntimeError("broken")
            return await store.record_warning(credential)

    with pytest.raises(RuntimeError, match="broken"):
        await WarnOfExpiry(Failing(), RecordedHints())()
    assert (await told(pool, tenant), len(await told(pool, other))) == ([], 1)

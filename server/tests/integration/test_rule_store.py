"""Rules as the database keeps them: versions, history, overrides that end by themselves, epochs, and shut doors."""

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.application.controls.ports.rules import RuleFilter
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import PLATFORM_ID, Address, OnMissing, Override, RuleTerms, StoredRule
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import Symbol
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant

CODE = "QTY_MAX"
# Of this database: the server has others, at work on tests of their own.
WAITING = """
select min(pid) from pg_locks
where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())
"""
OLGA = Principal(
    kind=PrincipalKind.OPERATOR, id="olga", organization_id=PLATFORM_ID, environment=None, permissions=frozenset()
)


@pytest.fixture
async def tenant(pool: Pool) -> Tenant:
    return await a_tenant(pool)


def terms(quantity: int, **more: Any) -> RuleTerms:
    return RuleTerms(parameters={"quantity": str(quantity)}, **more)


def address(tenant: Tenant, scope: Scope) -> Address:
    organization_id = tenant.account.organization_id
    match scope:
        case Scope.PLATFORM:
            return Address(organization_id=PLATFORM_ID, scope=scope)
        case Scope.ORGANIZATION:
            return Address(organization_id=organization_id, scope=scope)
        case Scope.ACCOUNT:
            return Address(organization_id=organization_id, scope=scope, account_id=tenant.account.id)
        case Scope.SYMBOL:
            account_id = tenant.account.id
            return Address(organization_id=organization_id, scope=scope, account_id=account_id, symbol=Symbol("AAPL"))
        case Scope.KEY:
            return Address(organization_id=organization_id, scope=scope, api_key_id=tenant.principal.id)


async def rules_at(pool: Pool, where: Address) -> list[StoredRule]:
    wanted = RuleFilter(
        organization_id=where.organization_id,
        scope=where.scope,
        account_id=where.account_id,
        subject=where.subject,
    )
    return [rule for _, rule in await PostgresRuleStore(pool).list_rules(wanted, 0, 100)]


async def save(
    pool: Pool,
    tenant: Tenant,
    change: RuleTerms | Override | None,
    scope: Scope = Scope.ACCOUNT,
    expected: Collection[int] | None = None,
    reason: str | None = None,
) -> StoredRule | None:
    who = OLGA if scope is Scope.PLATFORM else tenant.principal
    return await PostgresRuleStore(pool).save_rule(address(tenant, scope), CODE, change, reason, who, expected)


async def epochs(pool: Pool, tenant: Tenant) -> tuple[int, int]:
    row = await pool.fetchrow(
        "select o.control_epoch, c.control_epoch from openbell.organizations o join openbell.account_counters c"
        " using (organization_id) where account_id = $1",
        tenant.account.id,
    )
    assert row is not None
    return tuple(row)


async def database_now(pool: Pool) -> datetime:
    now: datetime = await pool.fetchval("select clock_timestamp()")
    return now


@pytest.mark.parametrize("scope", list(Scope))
async def test_a_rule_is_found_as_it_was_set_at_every_scope(pool: Pool, tenant: Tenant, scope: Scope) -> None:
    wanted = terms(5, mode=Mode.SHADOW, on_missing=OnMissing.DENY)
    kept = await save(pool, tenant, wanted, scope, reason="small")
    store = PostgresRuleStore(pool)
    found = await store.find_rule(address(tenant, scope), CODE)
    assert found is not None
    assert found == kept
    assert (found.terms, found.override, found.version, found.reason) == (wanted, None, 1, "small")
    assert found.principal == (("OPERATOR", "olga") if scope is Scope.PLATFORM else ("API_KEY", tenant.principal.id))
    assert await rules_at(pool, address(tenant, scope)) == [found]
    elsewhere = [other for other in Scope if other is not scope]
    assert [await rules_at(pool, address(tenant, other)) for other in elsewhere] == [[]] * len(elsewhere)


@pytest.mark.parametrize(
    ("scope", "begun"),
    [
        (Scope.PLATFORM, (1, 0)),
        (Scope.ORGANIZATION, (1, 0)),
        (Scope.KEY, (1, 0)),
        (Scope.ACCOUNT, (0, 1)),
        (Scope.SYMBOL, (0, 1)),
    ],
)
async def test_a_change_begins_an_epoch_of_whom_it_concerns(
    pool: Pool, tenant: Tenant, scope: Scope, begun: tuple[int, int]
) -> None:
    other = await a_tenant(pool)
    before, others_before = await epochs(pool, tenant), await epochs(pool, other)
    for change in (terms(5), None):
        await save(pool, tenant, change, scope)
    after, others_after = await epochs(pool, tenant), await epochs(pool, other)
    assert tuple(b - a for a, b in zip(before, after, strict=True)) == tuple(2 * one for one in begun)
    assert (others_after != others_before) == (scope is Scope.PLATFORM)


async def test_versions_go_on_after_a_rule_was_removed_and_its_history_has_every_change(
    pool: Pool, tenant: Tenant
) -> None:
    store, where = PostgresRuleStore(pool), address(tenant, Scope.ACCOUNT)
    await save(pool, tenant, terms(5), reason="first")
    assert await save(pool, tenant, None, reason="not needed") is None
    assert await store.find_rule(where, CODE) is None
    again = await save(pool, tenant, terms(7), reason="again")
    assert again is not None
    assert (again.version, again.created_at) == (3, again.updated_at)
    wanted = RuleFilter(organization_id=where.organization_id, scope=where.scope, subject=where.subject, code=CODE)
    numbered = await store.list_changes(wanted, None, 10)
    changes = [change for _, change in numbered]
    told = [(change.version, change.before, change.after, change.reason) for change in changes]
    first = changes[2].after
    assert first is not None
    assert first.terms == terms(5)
    assert told == [(3, None, again, "again"), (2, first, None, "not needed"), (1, None, first, "first")]
    assert await store.list_changes(wanted, numbered[0][0], 1) == [numbered[1]]
    assert {change.principal for change in changes} == {("API_KEY", tenant.principal.id)}


async def test_to_remove_what_is_not_there_is_not_found_and_changes_nothing(pool: Pool, tenant: Tenant) -> None:
    before = await epochs(pool, tenant)
    with pytest.raises(Problem, match="no rule QTY_MAX is set here"):
        await save(pool, tenant, None)
    assert await epochs(pool, tenant) == before


async def test_an_override_is_in_force_until_it_expires_and_then_the_terms_of_before_are(
    pool: Pool, tenant: Tenant
) -> None:
    store, where = PostgresRuleStore(pool), address(tenant, Scope.ORGANIZATION)
    await save(pool, tenant, terms(5), Scope.ORGANIZATION)
    expires_at = await database_now(pool) + timedelta(seconds=1)
    kept = await save(pool, tenant, Override(terms=terms(9), expires_at=expires_at), Scope.ORGANIZATION)
    assert kept is not None
    assert kept.terms == terms(5)
    assert kept.override == Override(terms=terms(9), expires_at=expires_at)

    async def it_expired() -> bool:
        found = await store.find_rule(where, CODE)
        assert found is not None
        assert found.version == 2
        assert found.override is not None or await database_now(pool) >= expires_at
        return found.override is None and found.terms == terms(5)

    await until(it_expired, 60)
    listed = await rules_at(pool, where)
    assert [rule.override for rule in listed] == [None]


async def test_a_rule_that_was_only_for_a_time_is_not_there_after_it(pool: Pool, tenant: Tenant) -> None:
    store, where = PostgresRuleStore(pool), address(tenant, Scope.SYMBOL)
    soon = await database_now(pool) + timedelta(milliseconds=500)
    kept = await save(pool, tenant, Override(terms=terms(9), expires_at=soon), Scope.SYMBOL)
    assert kept is not None

    async def it_is_gone() -> bool:
        return await store.find_rule(where, CODE) is None and await rules_at(pool, where) == []

    await until(it_is_gone, 60)
    with pytest.raises(Problem, match="the rule is not set"):
        await save(pool, tenant, terms(1), Scope.SYMBOL, expected={1})


async def test_plain_terms_end_an_override(pool: Pool, tenant: Tenant) -> None:
    later = await database_now(pool) + timedelta(hours=1)
    await save(pool, tenant, Override(terms=terms(9), expires_at=later))
    after = await save(pool, tenant, terms(5))
    assert after is not None
    assert (after.terms, after.override) == (terms(5), None)


async def test_an_override_that_would_be_over_is_refused_and_not_kept(pool: Pool, tenant: Tenant) -> None:
    with pytest.raises(InvalidCommand, match="expires_at must be later than now"):
        await save(pool, tenant, Override(terms=terms(9), expires_at=await database_now(pool)))
    every = RuleFilter(organization_id=tenant.account.organization_id)
    assert await PostgresRuleStore(pool).list_changes(every, None, 10) == []


@pytest.mark.parametrize("scope", list(Scope))
async def test_of_writers_at_once_that_expect_one_version_one_wins(pool: Pool, tenant: Tenant, scope: Scope) -> None:
    await save(pool, tenant, terms(1), scope)
    answers = await asyncio.gather(
        *(save(pool, tenant, terms(number), scope, expected={1}) for number in range(2, 7)), return_exceptions=True
    )
    kept = [answer for answer in answers if isinstance(answer, StoredRule)]
    refused = [answer.code for answer in answers if isinstance(answer, Problem)]
    assert (len(kept), refused) == (1, ["version_mismatch"] * 4)
    assert await PostgresRuleStore(pool).find_rule(address(tenant, scope), CODE) == kept[0]


@pytest.mark.parametrize("scope", list(Scope))
async def test_of_writers_at_once_that_expect_no_rule_one_wins(pool: Pool, tenant: Tenant, scope: Scope) -> None:
    answers = await asyncio.gather(
        *(save(pool, tenant, terms(number), scope, expected={0}) for number in range(1, 5)), return_exceptions=True
    )
    assert sum(isinstance(answer, StoredRule) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, Problem)} == {"version_mismatch"}


@pytest.mark.parametrize(
    ("scope", "waits"),
    [(Scope.PLATFORM, True), (Scope.ORGANIZATION, True), (Scope.KEY, True), (Scope.ACCOUNT, False)],
)
async def test_a_change_for_many_accounts_is_committed_only_when_no_door_is_open(
    pool: Pool, tenant: Tenant, scope: Scope, *, waits: bool
) -> None:
    where = address(tenant, scope)
    shared = "select pg_advisory_xact_lock_shared(hashtextextended($1::text, 7))"

    async def it_waits() -> bool:
        return await pool.fetchval(WAITING) is not None

    async with transaction(pool, Role.TENANT, tenant.account.organization_id) as door:
        await door.execute(shared, str(where.organization_id))
        saving = asyncio.ensure_future(save(pool, tenant, terms(5), scope))
        if waits:
            await until(it_waits, 60)
            assert await PostgresRuleStore(pool).find_rule(where, CODE) is None
        else:
            await saving
    kept = await saving
    assert kept is not None
    assert await PostgresRuleStore(pool).find_rule(where, CODE) == kept


@pytest.mark.usefixtures("limits_as_they_are")
async def test_a_door_that_stays_open_for_longer_than_a_lock_may_take_does_not_undo_a_change(
    pool: Pool, tenant: Tenant
) -> None:
    organization_id = tenant.account.organization_id
    began = "select count(*) from pg_stat_activity where pid = $1 and xact_start > $2"

    async def waits() -> bool:
        return await pool.fetchval(WAITING) is not None

    async with transaction(pool, Role.TENANT, organization_id) as door:
        shared = "select pg_advisory_xact_lock_shared(hashtextextended($1::text, 7))"
        await door.execute(shared, str(organization_id))
        saving = asyncio.create_task(save(pool, tenant, terms(5), Scope.ORGANIZATION))
        await until(waits, 60)
        first = await pool.fetchval("select clock_timestamp()")

        async def tries_again() -> bool:
            pid = await pool.fetchval(WAITING)
            return pid is not None and bool(await pool.fetchval(began, pid, first))

        await until(tries_again, 60)
    saved = await asyncio.wait_for(saving, 60)
    assert saved is not None
    assert saved.version == 1


async def test_a_change_is_audited_with_what_was_before(pool: Pool, tenant: Tenant) -> None:
    for change in (terms(5), terms(6), None):
        await save(pool, tenant, change, Scope.SYMBOL)
    rows = await pool.fetch(
        "select operation, object_id, before::jsonb #>> '{terms,parameters,quantity}',"
        " after::jsonb #>> '{terms,parameters,quantity}' from openbell.audit_log order by occurred_at"
    )
    object_id = f"SYMBOL {tenant.account.id} AAPL QTY_MAX"
    assert [tuple(row) for row in rows] == [
        ("controls rule", object_id, None, "5"),
        ("controls rule", object_id, "5", "6"),
        ("controls rule remove", object_id, "6", None),
    ]


async def test_an_account_of_another_organization_is_not_found(pool: Pool, tenant: Tenant) -> None:
    other = await a_tenant(pool)
    theirs = Address(organization_id=tenant.account.organization_id, scope=Scope.ACCOUNT, account_id=other.account.id)
    with pytest.raises(Problem, match="there is no such account"):
        await PostgresRuleStore(pool).save_rule(theirs, CODE, terms(1), None, tenant.principal, None)

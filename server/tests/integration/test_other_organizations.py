"""Whoever names what is another organization's is answered as if it were not there, and changes nothing of it."""

import json
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from openbell_server.adapters.postgres.access.accounts import open_account
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.application.ports.accept_step import Acceptance, Submission
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.accounts import Environment, NewAccount
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.intents import Command
from support.builders.tenant import a_cancel, a_market_create, a_replace, accept, new_id
from support.environment.logins import TENANT_ROLES
from support.tenancy.populated_tenant import PopulatedTenant, rows_of
from support.tenancy.statements import Owner

NEW_KEYS = {
    "event_no": 10_000,
    "execution_id": "new",
    "symbol": "NEW",
    "action_id": "00000000-0000-7000-8000-000000000001",
}


async def tables_where(owner: Owner, privilege: str) -> set[tuple[Role, str]]:
    """Tables of organizations in which a role for one organization may do this."""
    rows = await owner.fetch(
        "select r.rolname, c.relname from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and a.attname = 'organization_id'"
        " join pg_roles r on r.rolname = any($2) and has_table_privilege(r.oid, c.oid, $1)"
        " where c.relnamespace = 'openbell'::regnamespace and c.relkind = 'r'",
        privilege,
        list(TENANT_ROLES),
    )
    return {(Role(row["rolname"]), row["relname"]) for row in rows}


async def a_row(owner: Owner, table: str, whose: PopulatedTenant) -> dict[str, Any]:
    """One of their rows, without what the database makes by itself."""
    found = await owner.fetchval(
        f"select to_jsonb(t) - '{{command_digest,outbox_id,change_no,adjustment_no,command_no}}'::text[] from {table} t"
        " where organization_id = $1 limit 1",
        whose.organization_id,
    )
    return dict(json.loads(found))


async def insert(
    pool: Pool, role: Role, as_whom: PopulatedTenant, table: str, row: dict[str, Any]
) -> tuple[str | None, str]:
    """What the database answers."""
    columns = ", ".join(row)
    try:
        async with transaction(pool, role, as_whom.organization_id) as connection:
            await connection.execute(
                f"insert into {table} ({columns}) select {columns} from jsonb_populate_record(null::{table}, $1)",
                json.dumps(row),
            )
    except asyncpg.PostgresError as error:
        return error.sqlstate, str(error)
    return None, ""


@pytest.fixture
async def found(owner: Owner, them: PopulatedTenant) -> None:
    """An order that their broker has and our record does not: so that they have a row in every table."""
    await owner.execute(
        "insert into forgotten_orders (organization_id, account_id, action_id, found_at) values ($1, $2, $3, now())",
        them.organization_id,
        them.tenant.account.id,
        new_id(),
    )


@pytest.mark.usefixtures("found")
async def test_no_row_is_inserted_for_another_organization(
    owner: Owner, login_pool: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    tables = await tables_where(owner, "insert")
    assert tables >= {(Role.TENANT, "api_keys"), (Role.EXECUTION, "executions"), (Role.DELIVERY, "account_outbox")}
    nobody_s = {"organizations", "account_events", "intent_actions", "action_states", "orders", "intent_outbox"}
    assert {table for _, table in tables} & nobody_s == set()
    before = await rows_of(owner, them)
    for role, table in tables:
        row = await a_row(owner, table, them) | {"organization_id": str(them.organization_id)}
        code, text = await insert(login_pool, role, us, table, row)
        assert (code, "violates row-level security policy" in text) == ("42501", True), (table, text)
    assert await rows_of(owner, them) == before


async def test_no_row_is_moved_to_another_organization(
    owner: Owner, login_pool: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    tables = await tables_where(owner, "update")
    own: dict[Role, tuple[str, ...]] = {
        Role.EXECUTION: ("positions", "orders", "action_states", "external_orders", "account_halts", "instruments")
    }
    own[Role.TENANT] = ("symbol_controls", "symbol_time_controls", "credentials", "control_rules", "control_rates")
    own[Role.TENANT] += ("control_days", "heartbeats")
    # The halt of a missed heartbeat.
    own[Role.EXECUTION] += ("control_rules",)
    own[Role.EXECUTION] += ("control_rates", "control_days", "wanted_symbols")
    own[Role.EXECUTION] += ("account_balances", "books", "book_heads", "profit_figures", "loss_marks")
    own[Role.TENANT] += ("exchange_rates", "wanted_symbols", "wanted_balances")
    both = {(role, "reference_prices") for role in own}
    assert tables == both | {(role, table) for role, written in own.items() for table in written}
    for role, table in tables:
        assert await a_row(owner, table, us)
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="violates row-level security policy"):
            async with transaction(login_pool, role, us.organization_id) as connection:
                await connection.execute(f"update {table} set organization_id = $1", them.organization_id)
        async with transaction(login_pool, role, us.organization_id) as connection:
            taken = await connection.execute(
                f"update {table} set organization_id = $1 where organization_id = $2",
                us.organization_id,
                them.organization_id,
            )
        assert taken == "UPDATE 0"


@pytest.mark.usefixtures("found")
async def test_an_insert_that_names_another_s_account_answers_as_for_one_that_is_not_there(
    owner: Owner, login_pool: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    """Neither keys that are taken there nor keys that are free there may show."""
    before = await rows_of(owner, them)
    others = {"api_keys", "accounts", "audit_log", "user_deletions"}
    # Their keys begin with the organization, and name accounts only as texts.
    others |= {"control_rules", "control_changes", "control_rates", "control_days", "heartbeats"}
    others |= {"instruments", "reference_prices", "exchange_rates", "webhooks"}
    for role, table in await tables_where(owner, "insert"):
        if table in others:
            continue
        theirs = await a_row(owner, table, them) | {"organization_id": str(us.organization_id)}
        free = theirs | {name: value for name, value in NEW_KEYS.items() if name in theirs}
        nobody_s = {"account_id": str(new_id())}
        answers = {
            await insert(login_pool, role, us, table, row) for row in (theirs, free, theirs | nobody_s, free | nobody_s)
        }
        assert [code for code, _ in answers] == ["42501"], (table, answers)
    assert await rows_of(owner, them) == before


async def test_a_taken_id_is_refused_without_a_word_about_whose_it_is(
    login_pool: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    new = NewAccount(name="Mine", broker="paper", environment=Environment.PAPER)
    with pytest.raises(asyncpg.UniqueViolationError) as refused:
        async with transaction(login_pool, Role.TENANT, us.organization_id) as connection:
            await open_account(connection, us.organization_id, them.tenant.account.id, new)
    assert refused.value.detail is None


async def test_the_accept_step_answers_for_another_s_account_as_for_one_that_is_not_there(
    owner: Owner, login_pool: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    await accept(login_pool, them.tenant.submission(key="k"))
    before = await rows_of(owner, them)

    def foreign(submission: Submission, account_id: AccountId) -> Submission:
        return replace(submission, account=replace(us.tenant.account, id=account_id))

    def bare(answer: Acceptance) -> Acceptance:
        return replace(answer, intent_id=them.waiting, created_at=first.created_at)

    commands: list[tuple[Command, str | None]] = [
        (a_market_create(), None),
        (a_market_create(), "k"),
        (a_cancel(them.waiting), None),
        (a_replace(them.waiting), None),
        (a_replace(them.waiting), "k"),
    ]
    answers = []
    for account_id in (them.tenant.account.id, AccountId(new_id())):
        alone = [
            (await accept(login_pool, foreign(us.tenant.submission(*command), account_id)))[0] for command in commands
        ]
        mixed = await accept(
            login_pool,
            *(foreign(us.tenant.submission(*command), account_id) for command in commands),
            us.tenant.submission(),
        )
        assert mixed.pop().status == "ACCEPTED"
        answers.append([*alone, *mixed])
    first = answers[0][0]
    assert {answer.status for answer in answers[0]} == {"NOT_FOUND"}
    assert [bare(answer) for answer in answers[0]] == [bare(answer) for answer in answers[1]]
    assert await rows_of(owner, them) == before


async def test_an_intruder_in_the_set_takes_nothing_from_the_account_s_own_command(
    owner: Owner, login_pool: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    count_keys = "select count(*) from idempotency_keys"
    keys = await owner.fetchval(count_keys)
    intruder = replace(us.tenant.submission(key="fresh"), account=replace(us.tenant.account, id=them.tenant.account.id))
    (_, own) = await accept(login_pool, intruder, them.tenant.submission())
    assert own.status == "ACCEPTED"
    recorded = await owner.fetchrow(
        "select organization_id, principal_id from intent_actions where intent_id = $1", own.intent_id
    )
    assert recorded is not None
    assert tuple(recorded) == (them.organization_id, them.tenant.principal.id)
    assert await owner.fetchval(count_keys) == keys


async def test_no_read_of_a_store_finds_what_is_another_s(
    login_pool: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    account, intents = them.tenant.account, PostgresIntentStore(login_pool)
    where = (us.organization_id, account.id, them.waiting)
    assert await PostgresOrganizationStore(login_pool).find_account(us.organization_id, account.id) is None
    assert await intents.find_action(*where) is None
    assert await intents.find_execution(*where) is None
    assert await intents.list_actions(us.organization_id, account.id, 0, 100) == []
    assert await intents.list_actions_of_intent(*where, 0, 100) == []


@pytest.mark.parametrize("of", ["theirs", "nobody's"])
async def test_no_transaction_is_opened_on_another_s_account(
    owner: Owner, login_pool: Pool, us: PopulatedTenant, them: PopulatedTenant, of: str
) -> None:
    account_id = them.tenant.account.id if of == "theirs" else AccountId(new_id())
    before = await rows_of(owner, them)
    with pytest.raises(AssertionError, match="no such account"):
        async with PostgresExecutionStore(login_pool).account_transaction(
            BrokerAccount(us.organization_id, account_id, "paper", 0)
        ):
            pass
    assert await rows_of(owner, them) == before

"""Organizations are kept apart by the database itself: what its catalogue says, and which role may do what."""

import asyncio
import contextlib
import re
from collections.abc import Collection

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import LOGIN_ROLES, Pool, Role, open_pool, transaction
from openbell_server.adapters.postgres.migrate import allow_logins
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import LOGINS
from support.environment.logins import PROCESSES, TENANT_ROLES, TEST_ROLES
from support.tenancy.populated_tenant import ID_PARAMETERS, PopulatedTenant, fresh_values, rows_of, values_of
from support.tenancy.statement_roles import MAY_RUN
from support.tenancy.statements import Owner, all_statements, faults_of_catalogue, run

# Roles whose transactions name an organization.
NAMING = (*TENANT_ROLES, Role.OPERATOR, Role.VAULT)


class Undone(Exception):
    """Ends a transaction without a trace."""


async def test_the_catalogue_keeps_organizations_apart(owner: Owner) -> None:
    assert await faults_of_catalogue(owner) == []


HOLES = [
    ("create table secrets (organization_id uuid)", "secrets has no row security"),
    (
        "create table secrets (organization_id uuid); alter table secrets enable row level security",
        "secrets has not the policy of the template",
    ),
    ("create table notes (body text)", "notes names no organization"),
    ("alter table orders no force row level security", "orders shows its owner everything"),
    ("alter table orders disable row level security", "orders has no row security"),
    ("drop policy tenant on orders", "orders has not the policy of the template"),
    ("alter policy tenant on orders using (true)", "orders has not the policy of the template"),
    ("alter policy tenant on orders with check (true)", "orders has not the policy of the template"),
    ("alter policy tenant on orders to public", "orders has not the policy of the template"),
    ("drop policy own_account on account_events", "account_events takes rows for the accounts of others"),
    (
        "alter policy own_account on account_events with check (true)",
        "account_events takes rows for the accounts of others",
    ),
    ("create policy more on orders using (true)", "('orders', 'more') opens ALL to ['public']"),
    (
        "alter policy operator on api_keys using (true)",
        "('api_keys', 'operator') lets operators do more than to the organization they name",
    ),
    (
        "alter policy operator on audit_log with check (true)",
        "('audit_log', 'operator') lets operators do more than to the organization they name",
    ),
    (
        "alter policy vault on audit_log with check (true)",
        "('audit_log', 'vault') lets the vault say more than of the organization it names",
    ),
    (
        "alter policy chain on audit_heads using (true)",
        "('audit_heads', 'chain') lets an entry move another organization's head",
    ),
    (
        "create policy operator on orders to openbell_operator using (true)",
        "('orders', 'operator') lets operators do more than to the organization they name",
    ),
    (
        "drop policy find_key on api_keys; create policy find_key on api_keys to openbell_keys using (true)",
        "('api_keys', 'find_key') opens ALL to ['openbell_keys']",
    ),
    ("create view all_orders as select 1 from tracked_actions", "all_orders shows rows by its owner's rights"),
    ("create materialized view copies as select * from orders", "copies shows rows by its owner's rights"),
    (
        "create function peek() returns bigint security definer language sql as 'select 1::bigint'",
        "peek acts with its owner's rights",
    ),
    (
        "alter function accept_commands set search_path = openbell, pg_catalog",
        "accept_commands can be led to another table by its caller",
    ),
    ("grant execute on function accept_commands to public", "accept_commands may be called by anybody"),
    ("alter role openbell_tenant bypassrls", "openbell_tenant may do more than its grants say"),
    ("grant openbell_writer to openbell_accept", "openbell_accept may act as the accept step"),
    ("alter role openbell_writer login", "openbell_writer may do more than its grants say"),
]


async def test_every_hole_in_the_catalogue_is_found(owner: Owner) -> None:
    missed = []
    for change, fault in HOLES:
        undone = owner.transaction()
        await undone.start()
        await owner.execute(change)
        if fault not in await faults_of_catalogue(owner):
            missed.append(change)
        await undone.rollback()
    assert missed == []


async def test_a_new_table_that_calls_the_template_is_sound(owner: Owner) -> None:
    await owner.execute("create table notes (organization_id uuid, body text)")
    await owner.execute("call protect_tenant_table('notes')")
    assert await faults_of_catalogue(owner) == []


async def test_the_login_by_itself_reads_nothing_and_runs_nothing(owner: Owner, login_pool: Pool) -> None:
    relations = await owner.fetch(
        "select relname from pg_class where relnamespace = 'openbell'::regnamespace and relkind in ('r', 'v')"
    )
    assert len(relations) > 15
    for (name,) in relations:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await login_pool.fetch(f"select 1 from openbell.{name}")
    async with login_pool.acquire() as connection:
        for statement in all_statements():
            if MAY_RUN[statement.name] != set(Role):
                # Without a right to look into the schema not even its names are there.
                with pytest.raises((asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError)):
                    await connection.prepare(statement.sql)


LOGIN = """
select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication, rolinherit,
    (select count(*) from pg_shdepend where refobjid = r.oid and deptype = 'o') as owned,
    array(
        select m.rolname::text from pg_roles m where m.oid <> r.oid and pg_has_role(r.oid, m.oid, 'usage')
    ) as inherited,
    array(
        select m.rolname::text from pg_roles m where m.oid <> r.oid and pg_has_role(r.oid, m.oid, 'member') order by 1
    ) as taken
from pg_roles r where rolname = $1
"""


async def assert_powerless(owner: Owner, login: str, roles: Collection[Role]) -> None:
    row = await owner.fetchrow(LOGIN, login)
    assert row is not None
    assert tuple(row) == (*[False] * 6, 0, [], sorted(roles))


@pytest.mark.parametrize("process", PROCESSES)
async def test_the_login_of_a_process_owns_nothing_inherits_nothing_and_takes_its_roles_only(
    owner: Owner, login_pool: Pool, process: str
) -> None:
    await login_pool.fetchval("select 1")
    await assert_powerless(owner, f"{LOGINS}_{process}", LOGIN_ROLES[process])


async def test_a_login_that_was_there_before_inherits_nothing_either_however_many_migrators_say_so(
    database: str, owner: Owner
) -> None:
    await owner.execute("create role old_login login inherit")
    try:
        # It is also rid of what is no business of its processes.
        await owner.execute("grant openbell_executor, openbell_vault, openbell_operator to old_login")
        for process in ("stream", "executor"):
            logins = {"old_login": LOGIN_ROLES[process]}
            await asyncio.gather(*(asyncio.to_thread(allow_logins, database, logins) for _ in range(4)))
            await assert_powerless(owner, "old_login", LOGIN_ROLES[process])
    finally:
        await owner.execute("drop role old_login")


async def test_each_role_runs_its_statements_and_no_other(
    owner: Owner, pool: Pool, login_pool: Pool, us: PopulatedTenant
) -> None:
    values = await values_of(owner, us)
    seen: dict[str, set[Role]] = {statement.name: set() for statement in all_statements()}
    refusals = set()
    for statement in all_statements():
        for role in Role:
            called_with = values | fresh_values(statement.name)
            organization = called_with["organization_id"] if role in NAMING else None
            try:
                async with transaction(login_pool if role in TEST_ROLES else pool, role, organization) as connection:
                    await run(connection, statement, called_with)
                    raise Undone
            # A row that is there already stops only one who was allowed to try.
            except (Undone, asyncpg.UniqueViolationError):
                seen[statement.name].add(role)
            except asyncpg.InsufficientPrivilegeError as error:
                refusals.add(str(error).partition(" for ")[0])
    assert seen == MAY_RUN
    # The audit log takes from each role its own kind of principal, and rules from executors only halts.
    names = ("processes", "rotation", "heartbeats_insert")
    policies = {f'new row violates row-level security policy "{name}"' for name in names}
    assert refusals == {"permission denied", *policies}


def test_no_statement_takes_a_role_or_names_an_organization_for_the_transaction() -> None:
    changing = re.compile(r"set_config|\bset\s+(local|session|role)\b|\breset\b|\bdiscard\b", re.IGNORECASE)
    assert [statement.name for statement in all_statements() if changing.search(statement.sql)] == []


QUEUES = ("account_outbox", "intent_outbox", "user_outbox")
HEARTBEATS = {"organization_id", "scope", "subject", "of_account", "status", "expires_at"}
# What a role reads beside the tenant's, which row security bounds.
READS: dict[Role, dict[str, set[str]]] = {
    Role.ACCEPT: {},
    Role.KEYS: {
        "api_keys": {"*"},
        "organizations": {"organization_id", "provider", "external_id", "internal"},
        **{table: {"*"} for table in ("stream_counts", "api_key_uses", "denied_users")},
    },
    Role.RELAY: {
        "credentials": {"organization_id", "account_id", "credential_id", "version", "expires_at", "warned_at"},
        "vault_objects": {"organization_id", "account_id", "credential_id", "version"},
        **{table: {"*"} for table in (*QUEUES, "user_deletions", "outbox_roll_ups", "webhook_lanes")},
        "webhooks": {"organization_id", "webhook_id", "kinds", "account_ids", "environment", "status", "created_at"},
        "webhook_attempts": {"organization_id", "webhook_id", "attempt_no", "attempted_at"},
        "accounts": {"organization_id", "account_id", "environment"},
        "account_counters": {"organization_id", "account_id", "event_no"},
        "organizations": {"organization_id", "disabled"},
        "action_states": {"account_id", "action_id", "state"},
    },
    Role.VAULT: {"vault_objects": {"*"}},
    Role.CONSOLE: {"console_sessions": {"*"}},
    Role.HEALTH: {
        **{
            table: {"status", "event_type", "created_at", "attempts", "claimed_at", "available_at", "resolved_at"}
            for table in QUEUES
        },
        **{table: {"*"} for table in ("outbox_roll_ups", "executors", "slot_leases", "switches_in_force")},
        "action_states": {
            *("organization_id", "account_id", "action_no", "state", "queued_at", "settled_at"),
            *("unknown_since", "flagged_at"),
        },
        "account_counters": {"organization_id", "account_id", "event_no", "halt_code"},
        "control_rules": {
            *("organization_id", "scope", "subject", "code", "of_account", "version", "updated_at", "terms"),
            *("override_terms", "override_expires_at"),
        },
        "heartbeats": HEARTBEATS,
        "vault_objects": {"credential_id"},
        "webhooks": {"organization_id", "webhook_id", "status"},
        "webhook_lanes": {"organization_id", "webhook_id", "account_id", "position", "parked_at"},
        "outbox_failures": {
            *("queue", "outbox_id", "event_type", "created_at", "attempts", "failed_at", "acknowledged_by"),
            *("acknowledged_at", "acknowledged_reason", "requeued_as"),
        },
    },
    Role.OPERATOR: {
        "organizations": {"*"},
        "api_keys": {
            *("organization_id", "api_key_id", "key_id", "name", "environment", "permissions", "disabled"),
            *("own_orders_only", "account_ids", "revoked_at", "expires_at", "created_at"),
        },
        "accounts": {
            *("organization_id", "account_id", "name", "broker", "environment", "credential_status", "version"),
            *("created_at", "slot"),
        },
        "account_counters": {
            *("organization_id", "account_id", "event_no", "halt_code", "halt_detail", "halted_at", "resumed_at"),
            "control_epoch",
        },
        "action_states": {
            *("organization_id", "account_id", "action_id", "intent_id", "seq", "action_type", "state"),
            *("send_started_at", "unknown_since", "flagged_at", "resends", "probes", "settled_at"),
        },
        **{table: {"*"} for table in (*QUEUES, "outbox_failures", "outbox_roll_ups", "switches_in_force")},
        **{
            table: {"*"}
            for table in ("this_incarnation", "denied_users", "audit_log", "audit_heads", "calendar_overrides")
        },
        **{table: {"*"} for table in ("control_rules", "control_changes")},
    },
    Role.EXECUTOR: {
        "accounts": {"organization_id", "account_id", "broker", "slot"},
        "account_counters": {
            *("account_id", "slot", "recovered_epoch", "halt_code", "event_no", "reconciled_event_no"),
            "positions_as_of",
        },
        "action_states": {
            *("organization_id", "account_id", "action_id", "intent_id", "seq", "slot", "state", "queued_at"),
            *("send_started_at", "updated_at", "settled_at", "probes", "known_as", "flagged_at", "unknown_since"),
        },
        "orders": {"organization_id", "account_id", "order_id", "standing", "created_at"},
        "symbol_time_controls": {"organization_id", "account_id", "max_resting_millis", "on_close"},
        "forgotten_orders": {"account_id", "action_id", "found_at"},
        "api_keys": {"organization_id", "api_key_id", "account_ids", "revoked_at", "expires_at"},
        "control_rules": {"override_terms", "override_expires_at"}
        | {"organization_id", "scope", "subject", "code", "of_account", "version", "updated_at", "terms"},
        **{t: {"*"} for t in ("wanted_symbols", "wanted_balances", "account_halts", "book_heads", "switches_in_force")},
        "heartbeats": HEARTBEATS,
        "account_balances": {"organization_id", "account_id", "read_at"},
        "desk_commands": {"organization_id", "account_id", "ended_at"},
        "calendar_overrides": {"*"},
        "credentials": {"organization_id", "account_id", "credential_id", "version", "asked_at", "answered_at"},
        **{table: {"*"} for table in ("executors", "slot_leases", "broker_feeds", "incarnation", "this_incarnation")},
    },
}


@pytest.mark.parametrize("role", list(READS))
async def test_a_role_that_crosses_organizations_reads_its_columns_and_no_other(owner: Owner, role: Role) -> None:
    columns = await owner.fetch(
        "select table_name, column_name,"
        " has_column_privilege($1, format('openbell.%I', table_name), column_name, 'select') as is_read"
        " from information_schema.columns where table_schema = 'openbell'",
        role,
    )
    assert len(columns) > 100
    written = READS[role]
    wrong = [
        (row["table_name"], row["column_name"])
        for row in columns
        if row["is_read"] != bool({"*", row["column_name"]} & written.get(row["table_name"], set()))
    ]
    assert wrong == []


@pytest.mark.parametrize("process", PROCESSES)
async def test_the_login_of_a_process_takes_no_other_role(
    services: LocalServices, login_pool: Pool, process: str
) -> None:
    await login_pool.fetchval("select 1")
    url = services.postgres.url("openbell_test", f"{LOGINS}_{process}")
    async with await open_pool(url) as pool:
        for role in set(Role) - set(LOGIN_ROLES[process]):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied to set role"):
                async with transaction(pool, role):
                    pass


# Ids of all organizations may be looked up; changing is for the one that is named.
LOOKING_UP = {
    "api_key_records.has_more_keys",
    # Switches only, which operators list.
    "control_rules.list_rules",
    "rule_books.rules_of_account",
    "token_callers.find_caller_across_organizations",
    "token_callers.find_organization_across_organizations",
    "events.heads",
    "events.list_followed",
    "organizations.read_organization",
    *("control_rules.organization_standing", "rule_books.organization_of_book"),
    "operators.find_organization_of_account_across_organizations",
    "operators.find_organization_of_key_across_organizations",
    "operators.list_accounts_across_organizations",
    "action_operators.find_action_across_organizations",
    "execution.find_account_across_organizations",
    *("execution.one_queued", "execution.one_queued_cancel"),
    "operators.list_api_keys",
    "webhooks.known_accounts",
    "audit_log.chained_entries_across_organizations",
    *("audit_log.oldest_entries", "audit_log.newest_entries", "audit_log.first_entry_since"),
    "operators.list_audit_log_across_organizations",
    "outbox_operators.find_row_across_organizations",
}


async def test_an_operator_changes_the_organization_it_names_and_no_other(
    owner: Owner, pool: Pool, us: PopulatedTenant, them: PopulatedTenant
) -> None:
    before = await rows_of(owner, them)
    values = await values_of(owner, them) | {"disabled": True, "revoked": True}
    reached = []
    for statement in all_statements():
        if Role.OPERATOR in MAY_RUN[statement.name] and ID_PARAMETERS & set(statement.parameters):
            with contextlib.suppress(asyncpg.InsufficientPrivilegeError):
                async with transaction(pool, Role.OPERATOR, us.organization_id) as connection:
                    if (await run(connection, statement, values | fresh_values(statement.name)))[1]:
                        reached.append(statement.name)
    assert set(reached) == LOOKING_UP
    assert await rows_of(owner, them) == before


@pytest.mark.parametrize("table", ["orders", "intent_actions", "tracked_actions"])
async def test_an_executor_reads_no_terms_of_an_order(login_pool: Pool, table: str) -> None:
    for column in ("symbol", "quantity", "limit_price", "order_side", "client_reference_id"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
            async with transaction(login_pool, Role.EXECUTOR) as connection:
                await connection.fetch(f"select {column} from {table}")


async def test_only_the_accept_role_calls_the_accept_step_and_no_other_function_reads_a_table(owner: Owner) -> None:
    rows = await owner.fetch(
        "select p.proname, r.rolname from pg_proc p, pg_roles r where p.pronamespace = 'openbell'::regnamespace"
        " and p.prosecdef and r.rolname = any($1) and has_function_privilege(r.oid, p.oid, 'execute')",
        list(Role),
    )
    assert {tuple(row) for row in rows} == {
        ("accept_commands", Role.ACCEPT),
        ("append_events", Role.EXECUTION),
        *(("append_change", role) for role in (Role.TENANT, Role.EXECUTION, Role.DELIVERY, Role.OPERATOR)),
        ("begin_every_epoch", Role.OPERATOR),
        ("prune_events", Role.RELAY),
        *((function, Role.EXECUTOR) for function in ("work_tick", "door_terms")),
    }


@pytest.mark.parametrize("call", ["call protect_tenant_table('orders')", "select * from this_incarnation"])
async def test_the_accept_role_gets_nothing_out_of_what_anybody_may_call(login_pool: Pool, call: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with transaction(login_pool, Role.ACCEPT) as connection:
            await connection.execute(call)

"""What keeps organizations apart: the rules of the catalogue, every named statement, and which role may run which."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from openbell_server.adapters import postgres
from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role

if TYPE_CHECKING:
    Owner = asyncpg.Connection[asyncpg.Record]
else:  # generic in its stubs only
    Owner = asyncpg.Connection

FILES = sorted(path.stem for path in Path(postgres.__path__[0]).glob("*.sql"))

# Tables of the platform; every other one belongs to organizations.
PLATFORM_TABLES = {"executors", "slot_leases", "incarnation", "write_checks", "denied_users"}
DEFINERS = {"accept_commands", "count_actions", "count_outcome", "count_refusal"}
TENANT_POLICY = "(organization_id = (NULLIF(current_setting('openbell.organization_id'::text, true), ''::text))::uuid)"
OWN_ACCOUNT_POLICY = "(EXISTS ( SELECT 1 FROM accounts a WHERE (a.account_id = {}.account_id)))"
# Policies that show a role the rows of all organizations, each with the commands it is for.
CROSSING = {
    **{
        (table, "accept_step"): ("openbell_writer", "ALL")
        for table in (
            "organizations",
            "account_counters",
            "orders",
            "intent_actions",
            "action_states",
            "receipts",
            "intent_outbox",
            "account_events",
            "idempotency_keys",
            "intent_counts",
        )
    },
    **{
        (table, "find_work"): ("openbell_executor", "SELECT")
        for table in ("accounts", "account_counters", "orders", "action_states", "forgotten_orders")
    },
    ("organizations", "find_caller"): ("openbell_keys", "SELECT"),
    ("api_keys", "find_key"): ("openbell_keys", "SELECT"),
    ("api_keys", "find_key_to_change"): ("openbell_operator", "SELECT"),
    ("organizations", "list_organizations"): ("openbell_operator", "SELECT"),
    **{
        (table, "relay"): ("openbell_relay", "ALL")
        for table in ("intent_outbox", "account_outbox", "user_deletions", "user_outbox")
    },
    ("account_outbox", "health"): ("openbell_health", "SELECT"),
}
# Where an operator works on the organization that the transaction names, and how.
OPERATING = {
    "organizations": "ALL",
    "api_keys": "ALL",
    "accounts": "INSERT",
    "account_counters": "INSERT",
    "audit_log": "INSERT",
}

_RELATIONS = """
with recursive reads as (
    select r.ev_class as reader, d.refobjid as relation
    from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
        and d.refclassid = 'pg_class'::regclass and d.refobjid <> r.ev_class
    union
    select reads.reader, d.refobjid
    from reads join pg_rewrite r on r.ev_class = reads.relation
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
        and d.refclassid = 'pg_class'::regclass and d.refobjid <> r.ev_class
),
relations as (
    select c.*, exists (
        select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = 'organization_id' and not a.attisdropped
    ) as is_tenant,
    exists (
        select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped
    ) as has_account
    from pg_class c where c.relnamespace = 'openbell'::regnamespace and c.relkind in ('r', 'p', 'f', 'v', 'm')
)
select t.relname, t.relkind::text, t.is_tenant, t.has_account, t.relrowsecurity, t.relforcerowsecurity,
    coalesce('security_invoker=true' = any(t.reloptions), false) as is_invoker,
    exists (
        select 1 from reads join relations r on r.oid = reads.relation
        where reads.reader = t.oid and r.is_tenant and r.relkind in ('r', 'p', 'f')
    ) as reads_tenants
from relations t order by t.relname
"""
_POLICIES = """
select tablename, policyname, permissive, roles::text[], cmd, qual, with_check
from pg_policies where schemaname = 'openbell' order by 1, 2
"""
_FUNCTIONS = """
select proname, prosecdef, proowner::regrole::text as owner, proconfig,
    exists (select 1 from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0) as is_public
from pg_proc where pronamespace = 'openbell'::regnamespace order by 1
"""
_ROLES = """
select rolname from pg_roles
where rolname = any($1) and (rolsuper or rolbypassrls or rolcanlogin or rolcreaterole or rolcreatedb or rolreplication)
"""
# Since PostgreSQL 16 whoever makes a role may grant it, which alone is no right to act as it.
_WRITERS = """
select member::regrole::text as member from pg_auth_members m, to_jsonb(m) as facts
where roleid = 'openbell_writer'::regrole
    and 'true' in (coalesce(facts ->> 'inherit_option', 'true'), coalesce(facts ->> 'set_option', 'true'))
"""


async def faults_of_catalogue(connection: Owner) -> list[str]:
    """Everything in the schema that could show one organization another's rows; empty when it is sound."""
    relations = await connection.fetch(_RELATIONS)
    policies = await connection.fetch(_POLICIES)
    functions = await connection.fetch(_FUNCTIONS)
    powerful = await connection.fetch(_ROLES, [*Role, "openbell_writer"])
    return [
        *(fault for row in relations if row["relkind"] in "rpf" for fault in _faults_of_table(row, policies)),
        *(fault for row in policies for fault in _faults_of_policy(row)),
        *(
            f"{row['relname']} shows rows by its owner's rights"
            for row in relations
            if row["relkind"] in "vm" and row["reads_tenants"] and not row["is_invoker"]
        ),
        *(fault for row in functions if row["prosecdef"] for fault in _faults_of_definer(row)),
        *(f"{row['rolname']} may do more than its grants say" for row in powerful),
        *(f"{row['member']} may act as the accept step" for row in await connection.fetch(_WRITERS)),
    ]


def _faults_of_table(table: asyncpg.Record, policies: list[asyncpg.Record]) -> Iterator[str]:
    name = table["relname"]
    if not table["is_tenant"]:
        if name not in PLATFORM_TABLES:
            yield f"{name} names no organization"
        return
    if not table["relrowsecurity"]:
        yield f"{name} has no row security"
    if not table["relforcerowsecurity"]:
        yield f"{name} shows its owner everything"
    if _policy(name, "tenant", policies) != ("PERMISSIVE", [Role.TENANT], "ALL", TENANT_POLICY, None):
        yield f"{name} has not the policy of the template"
    if not table["has_account"] or name == "accounts":
        return
    own_account = ("RESTRICTIVE", [Role.TENANT], "INSERT", None, OWN_ACCOUNT_POLICY.format(name))
    if _policy(name, "own_account", policies) != own_account:
        yield f"{name} takes rows for the accounts of others"


def _policy(table: str, policy: str, policies: list[asyncpg.Record]) -> tuple[object, ...]:
    for row in policies:
        if (row["tablename"], row["policyname"]) == (table, policy):
            # As it is written, whatever the reader's search path.
            check = row["with_check"] and " ".join(row["with_check"].replace("openbell.", "").split())
            return row["permissive"], row["roles"], row["cmd"], row["qual"], check
    return ()


def _faults_of_policy(policy: asyncpg.Record) -> Iterator[str]:
    """Permissive policies add up, so any beside the template's must be one of those written down here."""
    place = (policy["tablename"], policy["policyname"])
    if policy["permissive"] != "PERMISSIVE" or policy["policyname"] == "tenant":
        return
    if policy["policyname"] == "operator":
        rules = {policy["qual"], policy["with_check"]} - {None}
        command = OPERATING.get(policy["tablename"])
        if (policy["roles"], policy["cmd"], rules) != ([Role.OPERATOR], command, {TENANT_POLICY}):
            yield f"{place} lets operators do more than to the organization they name"
        return
    role, command = CROSSING.get(place, (None, None))
    if (policy["roles"], policy["cmd"]) != ([role], command):
        yield f"{place} opens {policy['cmd']} to {policy['roles']}"


def _faults_of_definer(function: asyncpg.Record) -> Iterator[str]:
    name = function["proname"]
    if name not in DEFINERS:
        yield f"{name} acts with its owner's rights"
    if function["owner"] != "openbell_writer":
        yield f"{name} acts with the rights of {function['owner']}"
    if function["proconfig"] != ["search_path=pg_catalog, openbell, pg_temp"]:
        yield f"{name} can be led to another table by its caller"
    if function["is_public"]:
        yield f"{name} may be called by anybody"


@dataclass(frozen=True, slots=True)
class Statement:
    """A named statement, with its parameters in the order the driver wants them."""

    name: str
    sql: str
    parameters: tuple[str, ...]


def statements(file: str) -> Iterator[Statement]:
    """Those of one file."""
    loaded = named_queries.load(file)
    for query in loaded.available_queries:
        if not query.endswith("_cursor"):
            parameters = tuple(loaded.driver_adapter.var_sorted[query])
            yield Statement(f"{file}.{query}", getattr(loaded, query).sql, parameters)


async def broken_statements(pool: Pool, file: str) -> list[str]:
    """Those of one file that the database cannot prepare, and why."""
    broken = []
    async with pool.acquire() as connection:
        for statement in statements(file):
            try:
                await connection.prepare(statement.sql)
            except asyncpg.PostgresError as error:
                broken.append(f"{statement.name}: {error}")
    return broken


def all_statements() -> list[Statement]:
    return [statement for file in FILES for statement in statements(file)]


async def run(connection: Any, statement: Statement, values: dict[str, Any]) -> tuple[list[asyncpg.Record], int]:
    """The rows it returns, and how many rows it returned or changed."""
    prepared = await connection.prepare(statement.sql)
    rows = await prepared.fetch(*(values[name] for name in statement.parameters))
    return rows, int(prepared.get_statusmsg().split()[-1])


_T, _X, _O = Role.TENANT, Role.EXECUTOR, Role.OPERATOR
# Which roles may run which statement, by permission; row security still decides what a tenant sees.
MAY_RUN: dict[str, set[Role]] = {
    # It reads no table.
    "connection.database_millis": set(Role),
    "schema.schema_revision": set(Role),
    "schema.existing_roles": set(Role),
    "connection.check_writing": {_T},
    "audit_log.append_to_audit_log": {_T, _O},
    "callers.find_caller_across_organizations": {Role.KEYS, _O},
    "callers.find_organization_across_organizations": {_T, Role.KEYS, _O},
    # For an owner who may see everything; a tenant would check its own.
    "api_key_records.is_organization_disabled": {_T, _O},
    "api_key_records.list_api_key_records": {_T, Role.KEYS, _O},
    "api_key_records.find_api_key_record": {_T, Role.KEYS, _O},
    "api_key_records.lock_api_key_record": {_T, _O},
    "api_key_records.change_api_key_record": {_T},
    "backup.schema_revision_across_organizations": set(Role),
    "backup.sizes_across_organizations": {_T},
    "backup.unsettled_across_organizations": {_T, _X},
    "backup.misnumbered_actions_across_organizations": {_T},
    "backup.chained_actions_across_organizations": {_T},
    "backup.false_receipts_across_organizations": {_T},
    "backup.misnumbered_events_across_organizations": {_T},
    "backup.unmatched_orders_across_organizations": {_T},
    "backup.unmatched_states_across_organizations": {_T},
    "backup.miscounted_orders_across_organizations": {_T},
    "backup.miscounted_positions_across_organizations": {_T},
    "backup.dangling_keys_across_organizations": {_T},
    "events.head": {_T},
    "events.read_after": {_T},
    "execution.lock_account": {_T},
    "execution.superseded": {_T},
    "execution.ready_cancels": {_T},
    "execution.ready_others": {_T},
    "execution.in_doubt": {_T},
    "execution.of_intents": {_T},
    "execution.replacements": {_T},
    # Ids only, which an executor needs to find work.
    "execution.intents_of": {_T, _X},
    "execution.adopt_forgotten_orders": {_T},
    "execution.add_forgotten_orders": {_T},
    "execution.end_hold": {_T},
    "execution.accounts_held_across_organizations": {_X},
    "execution.open_doors": {_T},
    "execution.save_action": {_T},
    "execution.add_probe": {_T},
    "execution.save_order": {_T},
    "execution.add_executions": {_T},
    "execution.add_to_position": {_T},
    "execution.append_events": {_T},
    "execution.find_account_across_organizations": {_T, _X},
    "execution.accounts_waiting_across_organizations": {_T, _X},
    "execution.accounts_in_doubt_across_organizations": {_T, _X},
    "execution.open_orders_across_organizations": {_T, _X},
    "intents.accept_commands": {Role.ACCEPT},
    "intents.find_action": {_T},
    "intents.find_action_by_id": {_T},
    "intents.find_action_by_key": {_T},
    "intents.find_execution": {_T},
    "intent_statistics.count_intents": {_T},
    "intents.list_actions": {_T},
    "intents.list_some_actions": {_T},
    "intents.list_actions_of_type": {_T},
    "intents.list_actions_of_symbol": {_T},
    "intents.list_actions_of_reference": {_T},
    "intents.head": {_T},
    "intents.first_number_since": {_T},
    "intents.list_actions_of_intent": {_T},
    "leases.replace_namesakes": {_X},
    "leases.join_the_living": {_X},
    "leases.has_living_namesake": {_X},
    "leases.be_seen": {_X},
    "leases.forget_the_dead": {_X},
    "leases.count_living": {_X},
    "leases.renew": {_X},
    "leases.take": {_X},
    "leases.release": {_X},
    "leases.be_gone": {_X},
    "operators.list_across_organizations": {_T, _O},
    "operators.lock_organization": {_O},
    "operators.change_organization": {_O},
    "operators.list_api_keys": {_T, Role.KEYS, _O},
    "operators.find_organization_of_key_across_organizations": {_T, Role.KEYS, _O},
    "operators.lock_api_key": {_T, _O},
    "operators.change_api_key": {_T, _O},
    "operators.find_denied_user_across_organizations": {Role.KEYS, _O},
    "operators.deny_user_across_organizations": {Role.RELAY, _O},
    "operators.allow_user_across_organizations": {_O},
    "organizations.create_organization": {_T, _O},
    "organizations.create_api_key": {_T, _O},
    "organizations.create_account": {_T, _O},
    "organizations.create_counters": {_T, _O},
    "organizations.read_organization": {_T, _O},
    "organizations.find_key_across_organizations": {_T, Role.KEYS},
    "organizations.find_account": {_T},
    "outbox.claim_across_organizations": {Role.RELAY},
    "outbox.complete_across_organizations": {Role.RELAY},
    "outbox.release_across_organizations": {Role.RELAY},
    "replaces.accept_replaces_across_organizations": {Role.ACCEPT},
    "outbox_health.count_across_organizations": {Role.RELAY, Role.HEALTH},
    "user_deletions.request_deletion": {_T},
    "user_deletions.finish_deletion": {Role.RELAY},
    "user_deletions.claim_deletions_across_organizations": {Role.RELAY},
    "user_outbox.claim_across_organizations": {Role.RELAY},
    "user_outbox.complete_across_organizations": {Role.RELAY},
    "user_outbox.release_across_organizations": {Role.RELAY},
    "recovery.read_incarnation": {_T, _X, _O},
    "recovery.lock_incarnation": {_X},
    "recovery.hold_accounts": {_X},
    "recovery.stay_alive": {_X},
    "recovery.count_held_across_organizations": {_X},
    "recovery.forgotten_orders_across_organizations": {_T, _X},
    "symbol_controls.lock_controls": {_T},
    "symbol_controls.controls_of_symbols": {_T},
    "symbol_controls.save_manual_control": {_T},
    "symbol_controls.save_time_control": {_T},
    "symbol_controls.begin_epoch": {_T},
    "symbol_controls.keep_refusal": {_T},
}

"""What keeps organizations apart: the rules of the catalogue and every named statement."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role
from openbell_server.adapters.postgres.events.outbox import columns
from openbell_server.adapters.postgres.execution import sweeps
from openbell_server.adapters.postgres.intents.intents import DIRECTIONS
from openbell_server.application.paging import ListOrder
from openbell_server.domain.events.outbox import Queue

if TYPE_CHECKING:
    Owner = asyncpg.Connection[asyncpg.Record]
else:  # generic in its stubs only
    Owner = asyncpg.Connection

FILES = sorted(named_queries.FILES)

# Tables of the platform; every other one belongs to organizations.
PLATFORM_TABLES = {
    "executors",
    "slot_leases",
    "incarnation",
    "write_checks",
    "broker_feeds",
    "denied_users",
    "outbox_roll_ups",
    "calendar_overrides",
    "console_sessions",
}
DEFINERS = {
    **dict.fromkeys(("accept_commands", "count_actions_so_far", "count_outcome", "count_refusal"), "openbell_writer"),
    **dict.fromkeys(("roll_up_outbox", "begin_every_epoch", "prune_events", "append_events"), "openbell_writer"),
    **dict.fromkeys(("append_change", "chain_audit_entry"), "openbell_writer"),
    **dict.fromkeys(("work_tick", "door_terms"), "openbell_worker"),
}
TENANT_POLICY = "(organization_id = (NULLIF(current_setting('openbell.organization_id'::text, true), ''::text))::uuid)"
OWN_ACCOUNT_POLICY = "(EXISTS ( SELECT 1 FROM accounts a WHERE (a.account_id = {}.account_id)))"
# A rule may be about no account.
OWN_RULE_POLICY = "((of_account IS NULL) OR (EXISTS ( SELECT 1 FROM accounts a WHERE (a.account_id = {0}.of_account))))"
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
            "intent_counted",
        )
    },
    **{
        (table, "work_tick"): ("openbell_worker", "ALL")
        for table in (
            *("account_counters", "orders", "action_states", "positions", "executions", "position_changes"),
            "account_events",
        )
    },
    **{
        (table, "work_tick"): ("openbell_worker", "SELECT")
        for table in (
            *("organizations", "accounts", "api_keys", "intent_actions", "forgotten_orders"),
            *("control_rules", "symbol_controls", "symbol_time_controls"),
        )
    },
    **{
        (table, "find_work"): ("openbell_executor", "SELECT")
        for table in (
            "accounts",
            "account_counters",
            "orders",
            "action_states",
            "forgotten_orders",
            "credentials",
            "symbol_time_controls",
            *("control_rules", "heartbeats"),
            "wanted_symbols",
            "wanted_balances",
            "account_balances",
            "account_halts",
            "book_heads",
            "desk_commands",
            "api_keys",
        )
    },
    # The rules of the platform, which are everybody's.
    **{(table, "platform"): ("openbell_reader", "SELECT") for table in ("control_rules", "control_changes")},
    ("organizations", "find_caller"): ("openbell_keys", "SELECT"),
    ("api_keys", "find_key"): ("openbell_keys", "SELECT"),
    ("api_key_uses", "note_use"): ("openbell_keys", "ALL"),
    ("stream_counts", "renew"): ("openbell_keys", "ALL"),
    ("api_keys", "find_key_to_change"): ("openbell_operator", "SELECT"),
    ("organizations", "list_organizations"): ("openbell_operator", "SELECT"),
    ("action_states", "list_actions"): ("openbell_operator", "SELECT"),
    ("control_rules", "list_halts"): ("openbell_operator", "SELECT"),
    **{(table, "list_accounts"): ("openbell_operator", "SELECT") for table in ("accounts", "account_counters")},
    **{
        (table, "relay"): ("openbell_relay", "ALL")
        for table in ("intent_outbox", "account_outbox", "user_deletions", "user_outbox", "vault_objects")
    },
    **{(table, "relay"): ("openbell_relay", "ALL") for table in ("webhook_lanes", "webhook_attempts")},
    **{
        (table, "relay"): ("openbell_relay", "SELECT")
        for table in ("credentials", "webhooks", "accounts", "account_counters", "organizations", "action_states")
    },
    ("console_sessions", "console"): ("openbell_console", "ALL"),
    ("vault_objects", "vault"): ("openbell_vault", "ALL"),
    **{(table, "list_entries"): ("openbell_operator", "SELECT") for table in ("audit_log", "audit_heads")},
    ("outbox_failures", "roll_up"): ("openbell_writer", "ALL"),
    ("outbox_failures", "list_failures"): ("openbell_operator", "SELECT"),
    **{
        (table, "health"): ("openbell_health", "SELECT")
        for table in (
            *("account_outbox", "intent_outbox", "user_outbox", "outbox_failures", "action_states"),
            *("account_counters", "control_rules", "heartbeats", "vault_objects", "webhooks", "webhook_lanes"),
        )
    },
    **{
        (table, "list_rows"): ("openbell_operator", "SELECT")
        for table in ("account_outbox", "intent_outbox", "user_outbox")
    },
}
# Where an operator works on the organization that the transaction names, and how.
OPERATING = {
    "organizations": "ALL",
    "api_keys": "ALL",
    "accounts": "INSERT",
    "account_counters": "ALL",
    "account_outbox": "INSERT",
    "intent_outbox": "INSERT",
    "user_outbox": "INSERT",
    "outbox_failures": "UPDATE",
    "audit_log": "INSERT",
    "control_rules": "ALL",
    "control_changes": "ALL",
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
where roleid in ('openbell_writer'::regrole, 'openbell_worker'::regrole)
    and 'true' in (coalesce(facts ->> 'inherit_option', 'true'), coalesce(facts ->> 'set_option', 'true'))
"""


async def faults_of_catalogue(connection: Owner) -> list[str]:
    """Everything in the schema that could show one organization another's rows; empty when it is sound."""
    relations = await connection.fetch(_RELATIONS)
    policies = await connection.fetch(_POLICIES)
    functions = await connection.fetch(_FUNCTIONS)
    powerful = await connection.fetch(_ROLES, [*Role, "openbell_writer", "openbell_worker"])
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
    if _policy(name, "tenant", policies) != ("PERMISSIVE", [Role.READER], "ALL", TENANT_POLICY, None):
        yield f"{name} has not the policy of the template"
    is_rule = name in ("control_rules", "heartbeats")
    if not (table["has_account"] or is_rule) or name == "accounts":
        return
    check = OWN_RULE_POLICY.format(name) if is_rule else OWN_ACCOUNT_POLICY.format(name)
    own_account = ("RESTRICTIVE", [Role.READER], "INSERT", None, check)
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
    if place == ("audit_log", "vault"):
        if (policy["roles"], policy["cmd"], policy["with_check"]) != ([Role.VAULT], "INSERT", TENANT_POLICY):
            yield f"{place} lets the vault say more than of the organization it names"
        return
    if place == ("audit_heads", "chain"):
        rules = {policy["qual"], policy["with_check"]} - {None}
        if (policy["roles"], policy["cmd"], rules) != (["openbell_writer"], "ALL", {TENANT_POLICY}):
            yield f"{place} lets an entry move another organization's head"
        return
    role, command = CROSSING.get(place, (None, None))
    if (policy["roles"], policy["cmd"]) != ([role], command):
        yield f"{place} opens {policy['cmd']} to {policy['roles']}"


def _faults_of_definer(function: asyncpg.Record) -> Iterator[str]:
    name = function["proname"]
    if name not in DEFINERS:
        yield f"{name} acts with its owner's rights"
    elif function["owner"] != DEFINERS[name]:
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
    """Those of one file; one that is for every queue has them once for each.

    Of lists in both directions only one: they differ in the direction alone.
    """
    if "{queue}" in named_queries.FILES[file].read_text():
        for queue in Queue:
            yield from _statements(f"{queue}_{file}", named_queries.load(file, columns(queue)))
    else:
        yield from _statements(file, named_queries.load(file, {**DIRECTIONS[ListOrder.NEWEST_FIRST], **sweeps.parts()}))


def _statements(prefix: str, loaded: Any) -> Iterator[Statement]:
    for query in loaded.available_queries:
        if not query.endswith("_cursor"):
            parameters = tuple(loaded.driver_adapter.var_sorted[query])
            yield Statement(f"{prefix}.{query}", getattr(loaded, query).sql, parameters)


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

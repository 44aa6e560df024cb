"""What somebody would try with a login that he took over, and what docs/security.md says of it."""

from dataclasses import dataclass
from pathlib import Path

import asyncpg

SECURITY_PAGE = Path(__file__).parents[3] / "docs" / "security.md"
# The first column of the table's header on that page.
_HEADER = "| Who has the login can"
# Without a role, not even the names in the schema are there.
REFUSED: tuple[type[Exception], ...] = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedObjectError,
)
# Raised by our triggers: append-only tables, and events that are too young.
APPEND_ONLY: tuple[type[Exception], ...] = (*REFUSED, asyncpg.PostgresError)
# An event that is old enough to be pruned.
AGED = """
begin;
alter table account_events disable trigger append_only;
update account_events set occurred_at = occurred_at - interval '8 days' where event_no <= 2;
alter table account_events enable trigger append_only;
commit;
"""


@dataclass(frozen=True, slots=True)
class Abuse:
    """One try; it succeeded if PostgreSQL reports rows, or a command that reports none was done."""

    name: str
    sql: str
    before: tuple[str, ...] = ()
    refusals: tuple[type[Exception], ...] = REFUSED


def documented_powers() -> dict[str, set[str]]:
    """For each row of the table on the security page: the processes whose login can do it."""
    lines = iter(SECURITY_PAGE.read_text().splitlines())
    header = next(line for line in lines if line.startswith(_HEADER))
    processes = _cells(header)[1:]
    next(lines)
    table: dict[str, set[str]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        name, *marks = _cells(line)
        table[name] = {process for process, mark in zip(processes, marks, strict=True) if mark == "yes"}
    return table


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


ABUSES = (
    # What some login must be able to do, since its process does it; the table says which.
    Abuse("read orders and events", "select * from account_events where organization_id = '{organization}'"),
    Abuse("read hashes of API keys", "select secret_hash from api_keys where organization_id = '{organization}'"),
    Abuse(
        "create an API key",
        "insert into api_keys (organization_id, api_key_id, key_id, name, environment, permissions, secret_hash)"
        " values ('{organization}', gen_random_uuid(), '0123456789ab', 'planted', 'live', '{{intent:write}}',"
        " sha256('planted'))",
    ),
    Abuse(
        "submit an intent",
        "select from accept_commands(array[gen_random_uuid()], array[gen_random_uuid()], array[gen_random_uuid()],"
        " array['{organization}'::uuid], array['{account}'::uuid], array['CREATE'], array[null], array[''::bytea],"
        " array[1], array[1], array['AAPL'], array['BUY'], array['MARKET'], array['SMART'], array[1::numeric],"
        " array[null::numeric], array[null::numeric], array['DAY'], array[null], array['API_KEY'], array['p'],"
        " array['{{}}'], array[false])",
    ),
    Abuse("change an account", "update accounts set disabled = true"),
    Abuse(
        "change rules and switches",
        "update control_rules set terms = null, override_terms = null, override_expires_at = null",
    ),
    Abuse(
        "halt a key or an account",
        "insert into control_rules (organization_id, scope, subject, code, terms, created_at, updated_at,"
        " principal_type, principal_id) values ('{organization}', 'KEY', 'planted', 'SWITCH',"
        """ '{{"mode": "HARD", "parameters": {{"status": "HALTED"}}}}', now(), now(), 'SYSTEM', 'heartbeat')""",
    ),
    Abuse(
        "replace a broker credential",
        "insert into vault_objects (organization_id, account_id, credential_id, version,"
        " key_id, wrapped_key, sealed) values ('{organization}', '{account}', gen_random_uuid(), 1, 'k', '', '')",
    ),
    Abuse("redirect a webhook", "update webhooks set url = 'https://example.com/thief'"),
    Abuse("read encrypted broker credentials", "select sealed from vault_objects"),
    Abuse("destroy encrypted broker credentials", "delete from vault_objects"),
    Abuse("stop deliveries to webhooks", "update webhooks set status = 'GONE'"),
    Abuse(
        "record a fill",
        "insert into executions (organization_id, account_id, execution_id, order_id, quantity, price,"
        " executed_at, recorded_at) select organization_id, account_id, 'forged', order_id, 1, 1, now(), now()"
        " from orders limit 1",
    ),
    Abuse("change the state of an action", "update action_states set candidates = '{{}}'"),
    Abuse(
        "append an event of an order",
        "select append_events('{organization}', '{account}', '{{2}}', array[null::uuid], array[null::integer],"
        " array['{{}}'])",
    ),
    Abuse("append that an account changed", "select append_change('{organization}', '{account}', 3::smallint, '{{}}')"),
    Abuse("claim rows of the outbox", "update intent_outbox set attempts = attempts + 1 where resolved_at is null"),
    Abuse(
        "prune events older than seven days",
        "select from prune_events('00000000-0000-0000-0000-000000000000', 604800, 1)",
    ),
    Abuse("refuse a user's tokens", "insert into denied_users (provider, subject, reason) values ('p', 's', 'r')"),
    Abuse("hold every account", "update incarnation set epoch = epoch + 1"),
    Abuse("take slots of executors", "update slot_leases set holder = null, held_until = null"),
    Abuse(
        "create an organization",
        "insert into organizations (organization_id, external_id, provider, name, entitlements)"
        " values ('00000000-0000-7000-8000-00000000000a', 'planted', 'p', 'n', '{{trading_live}}')",
        before=("select set_config('openbell.organization_id', '00000000-0000-7000-8000-00000000000a', true)",),
    ),
    Abuse("grant live trading", "update organizations set entitlements = '{{trading_live}}'"),
    Abuse("enable or disable an organization", "update organizations set disabled = false"),
    Abuse(
        "change the platform's rules",
        "insert into control_rules (organization_id, scope, subject, code, terms, created_at, updated_at,"
        " principal_type, principal_id) values ('00000000-0000-0000-0000-000000000000', 'PLATFORM', '', 'SWITCH',"
        " '{{}}', now(), now(), 'OPERATOR', 'p')",
        before=("select set_config('openbell.organization_id', '00000000-0000-0000-0000-000000000000', true)",),
    ),
    Abuse(
        "write an audit row in the name of an operator",
        "insert into audit_log (organization_id, audit_id, principal_type, principal_id, operation, object_id, after)"
        " values ('{organization}', gen_random_uuid(), 'OPERATOR', 'olga', 'organizations entitle', 'x', '{{}}')",
    ),
    Abuse("read the audit log", "select from audit_log"),
    Abuse(
        "write sessions of the console",
        "insert into console_sessions (session_hash, issuer, subject, sealed_tokens, token_expires_at, expires_at)"
        " values (sha256('planted'), 'i', 's', 'x', now(), now())",
    ),
    # What nobody can do.
    Abuse(
        "read every organization's orders at once",
        "select symbol, quantity from orders",
        before=("select set_config('openbell.organization_id', '', true)",),
    ),
    Abuse(
        "read orders with row security off",
        "select symbol, quantity from orders",
        before=("set local row_security = off", "select set_config('openbell.organization_id', '', true)"),
    ),
    Abuse(
        "prune events younger than seven days",
        "select from prune_events('00000000-0000-0000-0000-000000000000', 0, 1000)",
        refusals=APPEND_ONLY,
    ),
    Abuse("delete events", "delete from account_events", refusals=APPEND_ONLY),
    Abuse(
        "insert an event",
        "insert into account_events (organization_id, account_id, event_no, kind, body, occurred_at)"
        " values ('{organization}', '{account}', 999999, 2, '{{}}', now())",
    ),
    Abuse(
        "append an event of an order as if an account changed",
        "select append_change('{organization}', '{account}', 2::smallint, '{{}}')",
    ),
    Abuse("change the number of the last event", "update account_counters set event_no = event_no - 1"),
    Abuse("change the head of the receipts' chain", "update account_counters set chain_head = sha256('x')"),
    Abuse("delete rows of the outbox that were not sent", "delete from intent_outbox where status <> 'completed'"),
    Abuse("change an action", "update intent_actions set quantity = 1", refusals=APPEND_ONLY),
    Abuse("insert an action", "insert into intent_actions select * from intent_actions limit 1"),
    Abuse("change an execution", "update executions set quantity = 1", refusals=APPEND_ONLY),
    Abuse("delete orders", "delete from orders"),
    Abuse("change the audit log", "update audit_log set principal_id = 'nobody'", refusals=APPEND_ONLY),
    Abuse("delete from the audit log", "delete from audit_log", refusals=APPEND_ONLY),
    Abuse("move an account to another environment", "update accounts set environment = 'live'"),
    Abuse("change the permissions of an API key", "update api_keys set permissions = '{{intent:write}}'"),
    Abuse("take the writer's role", "set local role openbell_writer"),
    Abuse("take the owner's role", "set local role openbell"),
    Abuse("become the owner", "set session authorization openbell"),
    Abuse("grant itself a role", 'grant openbell_operator to "{login}"'),
    Abuse("make itself a superuser", 'alter role "{login}" superuser'),
    Abuse("make itself bypass row security", 'alter role "{login}" bypassrls'),
    Abuse("create a role", "create role intruder"),
    Abuse("create a table in our schema", "create table openbell.planted (x integer)"),
    Abuse(
        "create a function in our schema",
        "create function openbell.planted() returns integer language sql as 'select 1'",
    ),
    Abuse("create a table in the public schema", "create table public.planted (x integer)"),
    Abuse(
        "replace a function that writes for others", "alter function openbell.begin_every_epoch() owner to current_user"
    ),
    Abuse("switch row security off", "alter table orders disable row level security"),
    Abuse("drop a policy", "drop policy tenant on orders"),
    Abuse("add a policy", "create policy planted on orders using (true)"),
    Abuse("disable triggers", "alter table account_events disable trigger all"),
    Abuse("skip triggers", "set local session_replication_role = replica"),
    Abuse("truncate a table", "truncate account_events", refusals=APPEND_ONLY),
    Abuse("drop a table", "drop table openbell.receipts"),
    Abuse("read a file of the server", "select pg_read_file('postgresql.conf')"),
    Abuse("list files of the server", "select pg_ls_dir('.')"),
    Abuse("load a file of the server", "copy write_checks from '/etc/passwd'"),
    Abuse("run a program on the server", "copy (select 1) to program 'true'"),
    Abuse("change the server's settings", "select set_config('log_statement', 'none', false)"),
    Abuse("read passwords of logins", "select rolpassword from pg_authid"),
    Abuse("end a session of the owner", "select pg_terminate_backend({owners_backend})"),
    Abuse(
        "read statements of the owner",
        "select from pg_stat_activity where pid = {owners_backend} and query <> '<insufficient privilege>'",
    ),
    Abuse("add an extension", "create extension file_fdw"),
    Abuse("write the schema's revision", "update public.alembic_version set version_num = 'x'"),
)

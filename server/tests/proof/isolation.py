"""What one organization reaches of another: by every named statement, and through a pool whose users are cancelled."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres.connection import Pool, Role, open_pool, transaction
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from proof.figures import Figures
from proof.pool_fuzz import fuzz
from support.environment.logins import TENANT_ROLES, TEST_LOGIN, TEST_ROLES, allow_every_login
from support.tenancy.populated_tenant import ID_PARAMETERS, fresh_values, populated_tenant, rows_of, values_of
from support.tenancy.statement_roles import MAY_RUN
from support.tenancy.statements import Owner, Statement, all_statements, faults_of_catalogue, run

TASKS = {"full": 10_000, "gate": 1_000}
# Nobody here was restored, replaced or dead for a minute, and an account has its counters from its first moment on.
# Their accounts' queue has a failed row and no other, and the claims of one queue are no claims of another.
# Its row is the caller's organization, also where no account is found.
OF_THE_CALLER = {"events.list_followed"}
NOTHING_FOR_ITS_OWNER = {
    # It runs in the executor's role, which changes only the halt of a missed heartbeat.
    "control_rules.put_in_force",
    # Their promise is armed, and was not missed.
    *(f"heartbeats.{name}" for name in ("add_heartbeat", "lock_missed_heartbeat")),
    "heartbeats.heartbeats_missed_across_organizations",
    # It is empty here; server/tests/integration/test_tick_attacks.py mixes the rows of two organizations in one.
    "ticks.write_tick_across_organizations",
    # Their webhook covers what it should.
    "webhooks.add_webhook_lanes",
    "webhooks.remove_webhook_lanes",
    "execution.accounts_held_across_organizations",
    # Their orders are as they were first asked for.
    "execution.replacements",
    "backtest_history.replaces_at",
    "slot_leases.remove_expired_executors",
    "slot_leases.remove_earlier_runs",
    "organizations.create_counters",
    # Their account has its lane, and nobody holds the claim that is named.
    "delivery_queue.add_lanes_across_organizations",
    *(f"delivery_queue.{name}" for name in ("save_lane", "release_lane", "fail_lane", "end_webhook")),
    # A session is of a user, not of an organization; server/tests/integration/console signs users in.
    *(f"console_sessions.{name}" for name in ("read_session", "live_sessions", "note_session_use", "claim_refresh")),
    *(f"console_sessions.{name}" for name in ("save_tokens", "end_session", "end_sessions_of_user")),
    "console_sessions.check_writing_sessions",
    # No table is without protection.
    "diagnostics.unprotected_tables",
    "outbox_operators.requeue_intents_row",
    "outbox_operators.requeue_users_row",
    # Their first row is in somebody's hands, and those behind it wait for it.
    "intents_outbox.claim_across_organizations",
    "accounts_outbox.claim_across_organizations",
    *(
        f"{queue}_outbox.{resolve}_across_organizations"
        for queue in ("accounts", "users")
        for resolve in ("complete", "release")
    ),
    # Nothing of theirs was completed.
    *(
        f"{queue}_outbox_pruning.{prune}_across_organizations"
        for queue in ("accounts", "intents", "users")
        for prune in ("take_counts", "remove_completed")
    ),
    "orphaned_secrets.destroy_across_organizations",
    # Nobody has the last attempt of an action in doubt in hand; nothing was skipped, nobody halted, and no order has
    # a longest life.
    "unknown_outcomes.record_resend",
    "reconciliation.skipped_among",
    "operators.resume_account",
    # What is on record of their halts was lifted, and something of theirs is open.
    "halts.orders_to_cancel",
    "halts.note_comparison",
    # Nothing of theirs was in flight an hour ago.
    "halt_reports.in_flight",
    "halts.accounts_to_compare_across_organizations",
    "resting_orders.accounts_closing_across_organizations",
    "resting_orders.orders_to_close",
    # No event is old enough.
    "event_pruning.prune_events_across_organizations",
    # No operator changed a day.
    "calendars.session_changes",
    "resting_orders.accounts_resting_across_organizations",
    "resting_orders.resting_too_long",
}
# What they look for is damage, and there is none.
DAMAGE = {"dangling_keys", "false_receipts", "miscounted", "misnumbered", "unmatched"}


def prove(figures: Figures) -> None:
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        asyncio.run(_prove(figures, owner_url, services.postgres.url("openbell", TEST_LOGIN)))


async def _prove(figures: Figures, owner_url: str, login_url: str) -> None:
    owner = await asyncpg.connect(owner_url, timeout=60)
    try:
        holes = await faults_of_catalogue(owner)
        figures.exactly("tenant tables without policy, and other gaps in the catalogue", len(holes), 0)
        async with await open_pool(login_url) as pool, await open_pool(owner_url) as operator_pool:
            await _statements(figures, owner, pool, operator_pool)
        await fuzz(figures, owner, login_url, TASKS[figures.size])
    finally:
        await owner.close()


class Undone(Exception):
    """Ends a transaction without a trace."""


@dataclass
class Reached:
    """What came of running every statement once."""

    rows: int = 0
    in_vain: set[str] = field(default_factory=set)
    refusals: Counter[str] = field(default_factory=Counter)


async def _statements(figures: Figures, owner: Owner, pool: Pool, operator_pool: Pool) -> None:
    us, them = await populated_tenant(pool), await populated_tenant(pool)
    theirs = await values_of(owner, them)
    figures.shown("named statements", len(all_statements()))

    own = Reached()
    for statement in all_statements():
        values = theirs | fresh_values(statement.name)
        role = min(MAY_RUN[statement.name], key=lambda role: (role not in TENANT_ROLES, role))
        where = pool if role in TEST_ROLES else operator_pool
        await _run(own, where, role, values["organization_id"], statement, values)
    whole = {name for name in own.in_vain if name.partition(".")[2].startswith(tuple(DAMAGE))}
    vain = own.in_vain - NOTHING_FOR_ITS_OWNER - whole
    figures.exactly("statements that gave their owner nothing", len(vain), 0)
    for name in sorted(vain):
        print(name, flush=True)

    before = await rows_of(owner, them)
    refusals: Counter[str] = Counter()
    ours = {"organization_id": us.organization_id, "organization_ids": [us.organization_id]}
    for figure, organization_id, values in (
        ("by its ids and its organization's", us.organization_id, theirs),
        ("by its ids and one's own organization's", us.organization_id, theirs | ours),
        ("with no organization named", None, theirs),
    ):
        reached = Reached()
        for statement in all_statements():
            for role in TENANT_ROLES:
                await _run(reached, pool, role, organization_id, statement, values, theirs=theirs)
        figures.exactly(f"rows of another organization seen or changed {figure}", reached.rows, 0)
        refusals += reached.refusals
    after = await rows_of(owner, them)
    changed = sum(len(set(rows) ^ set(after[table])) for table, rows in before.items())
    figures.exactly("rows of another organization that differ after all of it", changed, 0)
    for kind in ("permission", "policy", "key"):
        figures.shown(f"statements refused by {kind}", refusals.pop(kind, 0))
    figures.exactly("statements that failed in any other way", refusals.total(), 0)
    for problem in refusals:
        print(problem, flush=True)


async def _run(
    reached: Reached,
    pool: Pool,
    role: Role,
    organization_id: UUID | None,
    statement: Statement,
    values: dict[str, Any],
    *,
    theirs: dict[str, Any] | None = None,
) -> None:
    """Run one statement; what the owner does is undone, what another does is committed, to be compared afterwards."""
    touched = 0
    try:
        async with transaction(pool, role, organization_id) as connection:
            rows, touched = await run(connection, statement, values)
            if theirs is None:
                raise Undone
            ids = ID_PARAMETERS & set(statement.parameters)
            if statement.name in OF_THE_CALLER or not any(values[name] == theirs[name] for name in ids):
                # It is not aimed at them: what it may reach is the caller's own and the platform's.
                marks = theirs["organization_id"], theirs["account_id"]
                touched = sum(any(mark in row.values() for mark in marks) for row in rows)
    except Undone:
        pass
    except asyncpg.PostgresError as error:
        touched = 0
        reached.refusals[_kind(error)] += 1
    if theirs is not None and touched:
        print(f"{statement.name} reached {touched} of theirs", flush=True)
    reached.rows += touched
    if touched == 0:
        reached.in_vain.add(statement.name)


def _kind(error: asyncpg.PostgresError) -> str:
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return "policy" if "row-level security" in str(error) else "permission"
    keys = asyncpg.UniqueViolationError, asyncpg.ForeignKeyViolationError
    return "key" if isinstance(error, keys) else str(error)

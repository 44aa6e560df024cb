"""The check of a restored database: a whole one is called whole, and every kind of damage is found by its name."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.intents.intents import intent_action
from openbell_server.adapters.postgres.operators.backup_check import BackupReport, CannotBeChecked, check_backup
from openbell_server.devtools.local_postgres import find_postgres
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.intents import action_hash
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness
from support.builders.refusals import a_refusal, refuse
from support.builders.tenant import a_cancel, a_limit_create, a_market_create, a_report, a_tenant, accept, an_execution
from support.tenancy.altered_audit_logs import append_some

SECRETS = ("a-reference-of-theirs", "a-key-of-theirs")
ACCOUNTS = 3


async def trade(harness: Harness, number: int) -> None:
    """A history with fills on three sides, a cancel, a set of five that wait, and one past its door."""
    _, bought = await harness.working()
    await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 4), an_execution(2, 6, 3)], None, bought))
    resting, _ = await harness.working()
    await harness.accept(a_cancel(resting))
    await harness.work()
    for fill, side in ((3, OrderSide.SELL), (4, OrderSide.SELL_SHORT)):
        await harness.accept(replace(a_market_create("5", "AAPL" if number else "MSFT"), order_side=side))
        (door,) = await harness.work()
        sold = client_order_id(door.action.action_id)
        await harness.report(a_report(ReportStatus.WORKING, [an_execution(fill, 2, 7)], None, sold))
    await harness.accept(a_limit_create())
    assert len(await harness.open_doors()) == 1
    odd = a_market_create(reference=SECRETS[0])
    await accept(harness.pool, *(harness.tenant.submission(odd, f"{SECRETS[1]}-{place}") for place in range(5)))
    for place in range(3):
        await refuse(harness.pool, harness.tenant, a_refusal(str(place)))


@pytest.fixture
async def traded(pool: Pool, database: str) -> str:
    """The URL of a database with a few organizations that trade, and one that does not yet."""
    for number in range(ACCOUNTS - 1):
        await trade(Harness(pool, await a_tenant(pool)), number)
    await append_some(pool, await a_tenant(pool), 3)
    return database


async def damage(url: str, statements: str) -> None:
    """Change what no constraint and no trigger would let anybody change."""
    connection = await asyncpg.connect(url, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})
    try:
        await connection.execute(f"set session_replication_role = replica; {statements}", timeout=60)
    finally:
        await connection.close()


def broken(report: BackupReport) -> set[str]:
    return {finding.check.name for finding in report.findings if not finding.holds}


async def test_a_database_in_the_middle_of_its_work_is_whole(traded: str) -> None:
    report = await check_backup(traded)
    assert (broken(report), report.is_whole) == (set(), True)
    assert len(report.findings) == 14
    assert report.sizes["accounts"] == ACCOUNTS
    assert report.sizes["actions"] == 2 * 11
    assert report.unsettled == {"queued": 2 * 5, "past_door": 2}


async def test_a_database_without_accounts_is_whole_and_shows_that_it_is_empty(database: str) -> None:
    report = await check_backup(database)
    assert (report.is_whole, report.sizes) == (True, {"accounts": 0, "actions": 0, "events": 0})


ONE = "account_id = (select min(account_id::text)::uuid from intent_actions)"
RENUMBER = f"update intent_actions set action_no = {{1}}, chained_from = {{1}} where {ONE} and action_no = {{0}}"
DAMAGES = {
    "an action was edited": (f"update intent_actions set quantity = 11 where {ONE} and action_no = 2", {"hashes"}),
    "an action got a value that no code knows": (
        f"update intent_actions set order_side = 'HOLD', created_at = 'infinity' where {ONE} and action_no = 2",
        {"hashes"},
    ),
    "an action's hash was edited": (
        f"update intent_actions set hash = sha256(hash) where {ONE} and action_no = 2",
        {"hashes", "chain"},
    ),
    "the last action is missing": (
        f"delete from intent_actions where {ONE} and action_no = 11",
        {"actions", "chain", "orders", "states", "keys"},
    ),
    "a cancel in the middle is missing": (
        f"delete from intent_actions where {ONE} and action_type = 'CANCEL'",
        {"actions", "chain", "states"},
    ),
    "actions were exchanged": (
        "; ".join(RENUMBER.format(before, after) for before, after in ((1, 99), (2, 1), (99, 2))),
        {"hashes", "chain", "states"},
    ),
    "an action left its set": (
        f"update intent_actions set chained_from = action_no where {ONE} and action_no = 11",
        {"chain"},
    ),
    "the head of a chain is another": ("update account_counters set chain_head = sha256(chain_head)", {"chain"}),
    "the head of an account without actions is another": (
        "update account_counters set chain_head = sha256(chain_head) where action_no = 0",
        {"chain"},
    ),
    "a counter is behind": ("update account_counters set action_no = action_no - 1 where action_no > 0", {"actions"}),
    "a counter is missing": (f"delete from account_counters where {ONE}", {"actions", "events"}),
    "an account is missing": (f"delete from accounts where {ONE}", {"actions"}),
    "a receipt was edited": ("update receipts set body = body || ' ' where seq is not null", {"receipts"}),
    "a receipt was edited with its hash": (
        "update receipts set body = '{}', hash = sha256('{}') where seq is not null",
        {"chain"},
    ),
    "a refusal was edited": ("update receipts set body = body || ' ' where refusal_no = 2", {"receipts", "refusals"}),
    "a refusal was edited with its hash": (
        "update receipts set body = '{}', hash = sha256('{}') where refusal_no = 2",
        {"refusals"},
    ),
    "the first refusal is missing": (f"delete from receipts where {ONE} and refusal_no = 1", {"refusals"}),
    "the last refusal is missing": (f"delete from receipts where {ONE} and refusal_no = 3", {"refusals"}),
    "all refusals are missing": ("delete from receipts where refusal_no is not null", {"refusals"}),
    "refusals were exchanged": (
        "; ".join(
            f"update receipts set refusal_no = {after} where {ONE} and refusal_no = {before}"
            for before, after in ((1, 99), (2, 1), (99, 2))
        ),
        {"refusals"},
    ),
    "a refusal is called a pass": ("update receipts set verdict = 'PASSED' where refusal_no = 1", {"refusals"}),
    "a refusal has no number any more": (f"update receipts set refusal_no = null where {ONE}", {"refusals"}),
    "the count of refusals is behind": (
        "update account_counters set refusal_no = refusal_no - 1 where refusal_no > 0",
        {"refusals"},
    ),
    "the head of refusals is another": (
        "update account_counters set refusal_head = sha256(refusal_head) where refusal_no = 0",
        {"refusals"},
    ),
    "a receipt is missing": (f"delete from receipts where {ONE} and seq = 2", {"receipts", "chain"}),
    "a receipt belongs to another action": (f"update receipts set seq = 7 where {ONE} and seq = 2", {"receipts"}),
    "an event is missing": ("delete from account_events where event_no = 2", {"events"}),
    "the last events are missing": ("delete from account_events where event_no > 5", {"events"}),
    "all events are missing": ("truncate account_events", {"events"}),
    "an order is missing": (
        f"delete from orders where {ONE} and filled_quantity = 0 and pending = 'CANCEL'",
        {"orders"},
    ),
    "an action's state is missing": (f"delete from action_states where {ONE} and action_no = 1", {"states"}),
    "an action's state is another's": (
        f"update action_states set action_no = 77 where {ONE} and action_no = 1",
        {"states"},
    ),
    "an order's filled quantity was edited": (
        "update orders set filled_quantity = filled_quantity + 1",
        {"executions", "positions"},
    ),
    "an order's filled value was edited": ("update orders set filled_value = filled_value + 1", {"executions"}),
    "an execution is missing": ("delete from executions where execution_id = 'e2'", {"executions"}),
    "an execution's price was edited": ("update executions set price = 8 where execution_id = 'e3'", {"executions"}),
    "a position was edited": ("update positions set quantity = quantity + 1", {"positions"}),
    "a position is missing": ("delete from positions", {"positions"}),
    "a position nobody traded": (
        "insert into positions select organization_id, account_id, 'XYZ', 1, now() from accounts",
        {"positions"},
    ),
    "an audit entry was edited": ("update audit_log set after = '{}' where entry_no = 2", {"audit"}),
    "an audit entry is missing": ("delete from audit_log where entry_no = 2", {"audit"}),
    "the last audit entry is missing": ("delete from audit_log where entry_no = 3", {"audit"}),
    "all audit entries are missing": ("delete from audit_log", {"audit"}),
    "the head of an audit log is missing": ("delete from audit_heads", {"audit"}),
    "the head of an audit log is another": ("update audit_heads set chain_head = sha256(chain_head)", {"audit"}),
    "a key leads nowhere": ("update idempotency_keys set seq = 9", {"keys"}),
    "a table is gone": ("drop table positions", {"positions"}),
}


@pytest.mark.parametrize(("statements", "checks"), DAMAGES.values(), ids=DAMAGES)
async def test_damage_is_found_and_named(traded: str, statements: str, checks: set[str]) -> None:
    await damage(traded, statements)
    report = await check_backup(traded)
    assert (broken(report), report.is_whole) == (checks, False)


async def test_an_action_forged_together_with_its_hash_is_found_by_the_chain(traded: str, pool: Pool) -> None:
    row = await pool.fetchrow("select * from intent_actions where action_no = 11 limit 1")
    assert row is not None
    forged = replace(intent_action(row), principal_id="somebody else")
    await damage(
        traded,
        f"update intent_actions set principal_id = '{forged.principal_id}', hash = '\\x{action_hash(forged).hex()}'"
        f" where action_id = '{forged.id}'",
    )
    report = await check_backup(traded)
    assert broken(report) == {"chain"}
    assert [finding.offenders for finding in report.findings if not finding.holds] == [[str(forged.account_id)]]


async def test_the_first_five_offenders_are_named_and_all_are_counted(traded: str) -> None:
    await damage(traded, "update receipts set body = 'x'; update intent_actions set symbol = 'X'")
    report = await check_backup(traded)
    for name, total in (("receipts", 28), ("hashes", 22)):
        (finding,) = (finding for finding in report.findings if finding.check.name == name)
        assert (len(set(finding.offenders)), finding.total) == (5, total)


def run_check(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The command as an operator runs it."""
    return subprocess.run(
        [sys.executable, "-m", "openbell_server", "backup", "check", *options],
        env={**os.environ, "OPENBELL_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_the_command_says_whole_or_what_is_not_and_what_to_do(traded: str) -> None:
    whole = await asyncio.to_thread(run_check, traded)
    assert (whole.returncode, whole.stdout.count("✓"), whole.stdout.count("✗")) == (0, 14, 0)
    assert "This database is whole: 3 accounts, 22 actions" in whole.stdout
    assert "12 actions had no outcome: 10 queued, 2 past the door" in whole.stdout
    await damage(traded, "delete from positions; drop table idempotency_keys")
    not_whole = await asyncio.to_thread(run_check, traded)
    assert (not_whole.returncode, not_whole.stdout.count("✓"), not_whole.stdout.count("✗")) == (1, 12, 2)
    assert "restore it again" in not_whole.stdout
    assert "PostgreSQL cannot read the data of this check (UndefinedTableError)." in not_whole.stdout
    assert "This database is NOT whole" in not_whole.stdout


async def test_the_command_answers_machines_and_never_names_amounts_or_texts(traded: str) -> None:
    whole = await asyncio.to_thread(run_check, traded, "--json")
    assert (whole.returncode, json.loads(whole.stdout)["whole"]) == (0, True)
    await damage(
        traded,
        "update intent_actions set quantity = 987654321; update receipts set body = 'a body';"
        "update positions set quantity = 987654321; update orders set filled_quantity = 987654321;"
        "update idempotency_keys set seq = 9; delete from action_states",
    )
    answer = await asyncio.to_thread(run_check, traded, "--json")
    body = json.loads(answer.stdout)
    assert (answer.returncode, body["whole"]) == (1, False)
    failed = {check["check"] for check in body["checks"] if not check["holds"]}
    assert failed == {"hashes", "receipts", "refusals", "positions", "executions", "keys", "states"}
    assert all(check["remedy"] for check in body["checks"] if not check["holds"])
    assert not any(text in answer.stdout for text in (*SECRETS, "987654321", "a body"))


@pytest.fixture
async def copy(services: LocalServices) -> AsyncIterator[str]:
    """The URL of a second database, empty."""
    administration = await asyncpg.connect(services.postgres.url(), timeout=60)
    await administration.execute("drop database if exists openbell_copy with (force)", timeout=60)
    await administration.execute("create database openbell_copy", timeout=60)
    yield services.postgres.url("openbell_copy")
    await administration.execute("drop database openbell_copy with (force)", timeout=60)
    await administration.close()


async def test_what_is_no_database_of_ours_cannot_be_checked(copy: str, database: str) -> None:
    answers = [await asyncio.to_thread(run_check, url, "--json") for url in (copy, database + "_which_is_not_there")]
    assert [answer.returncode for answer in answers] == [2, 2]
    problems = [json.loads(answer.stdout)["problem"] for answer in answers]
    assert "no database of Openbell" in problems[0]
    assert "cannot be reached" in problems[1]


async def test_a_schema_of_another_version_cannot_be_checked(database: str) -> None:
    await damage(database, "update public.alembic_version set version_num = '0000_before'")
    answer = await asyncio.to_thread(run_check, database)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "The schema is of revision 0000_before" in answer.stderr


async def test_a_login_that_may_not_read_everything_is_told_which_to_use(traded: str) -> None:
    await damage(
        traded,
        "create role a_reader login; grant usage on schema openbell to a_reader;"
        "grant select on all tables in schema openbell, public to a_reader;"
        "alter table executions enable row level security; alter table executions force row level security",
    )
    as_reader = traded.replace("openbell@", "a_reader@")
    try:
        with pytest.raises(CannotBeChecked, match="BYPASSRLS"):
            await check_backup(as_reader)
        await damage(traded, "alter role a_reader bypassrls")
        assert (await check_backup(as_reader)).is_whole
        await damage(traded, "revoke select on idempotency_keys from a_reader")
        with pytest.raises(CannotBeChecked, match="BYPASSRLS"):
            await check_backup(as_reader)
        # To a login that may not even look into the schema, every table seems to be missing.
        await damage(traded, "revoke usage on schema openbell from a_reader")
        with pytest.raises(CannotBeChecked, match="BYPASSRLS"):
            await check_backup(as_reader)
    finally:
        await damage(traded, "drop owned by a_reader; drop role a_reader")


async def test_a_dump_restored_elsewhere_is_whole(traded: str, copy: str, tmp_path: Path) -> None:
    programs, dump = find_postgres(), tmp_path / "openbell.dump"
    commands: list[list[str | Path]] = [
        [programs / "pg_dump", "--format=custom", f"--file={dump}", f"--dbname={traded}"],
        [programs / "pg_restore", "--exit-on-error", f"--dbname={copy}", dump],
    ]
    for command in commands:
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    original, restored = await check_backup(traded), await check_backup(copy)
    assert restored.is_whole
    assert restored == original

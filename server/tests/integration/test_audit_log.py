"""The audit log: the database numbers, chains and signs each entry, and every way to alter the log is found."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from openbell_server.adapters.postgres import audit_log
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.operators.operators import PostgresOperatorStore
from openbell_server.domain.access.audit_chain import Head, Tampering, Verification
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import PLATFORM_ID, SWITCH, Address, RuleTerms, SwitchState
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_tenant, new_id
from support.environment.command_line import CommandLine
from support.environment.logins import TEST_LOGIN
from support.tenancy.altered_audit_logs import (
    alterations,
    an_audit_log,
    append_some,
    verified_after,
    verify,
    without_tail,
)
from support.tenancy.statements import Owner

ENTRIES = 20


@pytest.fixture
def operator(database: str) -> CommandLine:
    return CommandLine(database)


async def last_entry(owner: Owner, tenant: Tenant) -> asyncpg.Record:
    row = await owner.fetchrow(
        "select * from audit_log where organization_id = $1 order by entry_no desc limit 1",
        tenant.account.organization_id,
    )
    assert row is not None
    return row


async def test_entries_of_many_kinds_are_numbered_without_gaps_and_python_computes_the_same_hashes(
    owner: Owner, pool: Pool
) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    assert await owner.fetchval("select count(distinct operation) from audit_log") >= 8
    result = await verify(owner, Verification())
    last = await last_entry(owner, tenant)
    organization_id = str(tenant.account.organization_id)
    assert (result.flaws, result.entries) == ([], last["entry_no"])
    assert result.heads == {organization_id: Head(last["entry_no"], last["hash"])}


async def test_every_entry_changed_removed_inserted_or_swapped_is_found_and_named(owner: Owner, pool: Pool) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    await append_some(pool, await a_tenant(pool), 3)
    last = (await last_entry(owner, tenant))["entry_no"]
    columns = await owner.fetch(
        "select attname from pg_attribute where attrelid = 'audit_log'::regclass and attnum > 0"
    )
    tried = list(alterations(tenant, last))
    assert len(tried) == last * (len(columns) + 3) + (last - 1) + 1
    missed = []
    for each in tried:
        result = await verified_after(owner, each.statements)
        named = [(flaw.number, flaw.organization_id) for flaw in result.flaws]
        if not result.flaws or (
            each.tampering in {Tampering.SWAPPED, Tampering.INSERTED}
            and named != [(each.number, str(tenant.account.organization_id))]
        ):
            missed.append((each, result.flaws))
    assert missed == []
    assert (await verify(owner, Verification())).holds


async def test_a_removed_tail_is_found_with_a_head_exported_before_and_not_without(owner: Owner, pool: Pool) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    organization_id = str(tenant.account.organization_id)
    exported = (await verify(owner, Verification())).heads
    for number in range(1, ENTRIES):
        statements = without_tail(tenant, number)
        assert (await verified_after(owner, statements)).holds
        found = await verified_after(owner, statements, Verification(exported))
        assert [(flaw.number, flaw.tampering) for flaw in found.flaws] == [(number + 1, Tampering.TAIL_REMOVED)]
    gone = f"delete from audit_log where organization_id = '{organization_id}'; delete from audit_heads"
    assert (await verified_after(owner, gone)).holds
    assert not (await verified_after(owner, gone, Verification(exported))).holds


async def test_the_login_is_the_database_s_own_and_an_inserting_role_cannot_name_it(
    owner: Owner, login_pool: Pool, pool: Pool
) -> None:
    tenant = await a_tenant(pool)
    await append_some(login_pool, tenant, 1)
    assert (await last_entry(owner, tenant))["login"] == TEST_LOGIN
    named = (
        "insert into audit_log (organization_id, audit_id, principal_type, principal_id, operation, object_id, after"
    )
    values = f"select '{tenant.account.organization_id}', gen_random_uuid(), 'USER', 'u', 'o', 'i', '{{}}'"
    for column, value in (("login", "'mallory'"), ("entry_no", "7"), ("hash", "sha256('')"), ("occurred_at", "now()")):
        for acting in (Role.TENANT, Role.OPERATOR, Role.VAULT):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for table audit_log"):
                async with transaction(pool, acting, tenant.account.organization_id) as connection:
                    await connection.execute(f"{named}, {column}) {values}, {value}")
    # Not even who may name them decides them.
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(f"set local openbell.organization_id = '{tenant.account.organization_id}'")
        await connection.execute("grant insert on audit_log to openbell_tenant; set local role openbell_tenant")
        await connection.execute(
            f"{named}, login, entry_no, hash, occurred_at) {values}, 'mallory', 7, sha256(''), '2001-01-01'"
        )
    entry = await last_entry(owner, tenant)
    assert (entry["login"], entry["entry_no"]) == (await owner.fetchval("select session_user"), 2)
    assert entry["occurred_at"].year > 2001
    assert (await verify(owner, Verification())).holds


@pytest.mark.parametrize("role", [Role.TENANT, Role.VAULT, Role.RELAY, Role.EXECUTOR])
async def test_no_role_of_a_process_reads_or_moves_a_head(login_pool: Pool, executor_pool: Pool, role: Role) -> None:
    pool = executor_pool if role is Role.VAULT else login_pool
    for statement in ("select * from audit_heads", "update audit_heads set entry_no = 1", "delete from audit_heads"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with transaction(pool, role, new_id()) as connection:
                await connection.execute(statement)


async def test_an_insert_that_is_refused_or_rolled_back_leaves_no_gap(
    owner: Owner, login_pool: Pool, pool: Pool
) -> None:
    tenant, other = [await a_tenant(pool) for _ in range(2)]
    organization_id = tenant.account.organization_id
    await append_some(login_pool, tenant, 2)
    who = ("USER", "u")
    with pytest.raises(asyncpg.CheckViolationError):
        async with transaction(login_pool, Role.TENANT, organization_id) as connection:
            await audit_log.append(connection, organization_id, new_id(), ("USER", ""), "o", "i", None, {})
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        async with transaction(login_pool, Role.TENANT, organization_id) as connection:
            await audit_log.append(connection, other.account.organization_id, new_id(), who, "o", "i", None, {})
    async with transaction(login_pool, Role.TENANT, organization_id) as connection:
        await connection.execute("savepoint before_it")
        await audit_log.append(connection, organization_id, new_id(), who, "undone", "i", None, {})
        await connection.execute("rollback to before_it")
        await connection.execute(
            "insert into audit_log (organization_id, audit_id, principal_type, principal_id, operation, object_id,"
            " after) select $1, $2, 'USER', 'u', 'o', n::text, '{}' from generate_series(1, 3) n"
            " on conflict do nothing",
            organization_id,
            new_id(),
        )
    result = await verify(owner, Verification())
    assert (result.flaws, result.entries) == ([], 5)


async def test_appends_at_the_same_time_have_no_gaps(owner: Owner, login_pool: Pool, pool: Pool) -> None:
    tenants = [await a_tenant(pool) for _ in range(2)]
    await asyncio.gather(*(append_some(login_pool, tenant, 10) for tenant in tenants for _ in range(8)))
    result = await verify(owner, Verification())
    assert (result.flaws, {head.number for head in result.heads.values()}) == ([], {80})
    rows = await owner.fetch("select occurred_at from audit_log order by organization_id, entry_no")
    times = [row["occurred_at"] for row in rows]
    for log in (times[:80], times[80:]):
        assert log == sorted(log)


async def test_two_organizations_do_not_wait_for_each_other(login_pool: Pool, pool: Pool) -> None:
    first, second = [await a_tenant(pool) for _ in range(2)]
    organization_id = first.account.organization_id
    async with transaction(login_pool, Role.TENANT, organization_id) as connection:
        await audit_log.append(connection, organization_id, new_id(), ("USER", "u"), "o", "i", None, {})
        await asyncio.wait_for(append_some(login_pool, second, 1), 30)
        waiting = asyncio.create_task(append_some(login_pool, first, 1))
        await until_blocked(pool)
        assert not waiting.done()
    await waiting


async def until_blocked(pool: Pool) -> None:
    async def is_blocked() -> bool:
        return bool(await pool.fetchval("select exists (select from pg_locks where not granted)"))

    await until(is_blocked, 60)


async def disable(pool: Pool, tenant: Tenant) -> None:
    await PostgresOperatorStore(pool, "olga").disable_organization(tenant.account.organization_id, disabled=True)


async def halt_organization(pool: Pool, tenant: Tenant) -> None:
    address = Address(organization_id=tenant.account.organization_id, scope=Scope.ORGANIZATION)
    terms = RuleTerms(parameters={"status": SwitchState.HALTED, "cancel_working": False})
    await PostgresRuleStore(pool).save_rule(address, SWITCH, terms, "stop", tenant.principal, None)


@pytest.mark.parametrize("change", [disable, halt_organization])
async def test_a_change_that_waits_for_open_doors_does_not_stop_their_entries(
    harness: Harness, owner: Owner, change: Callable[[Pool, Tenant], Awaitable[None]]
) -> None:
    """An account that is halted while its organization is: neither waits for the other for good."""
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as door:
        changing = asyncio.ensure_future(change(harness.pool, harness.tenant))
        await until_blocked(harness.pool)
        assert await door.halt("ORDERS_EXCEED_DOORS", "one too many")
    await changing
    rows = await owner.fetch("select operation from audit_log order by entry_no")
    assert [row["operation"] == "accounts halt" for row in rows] == [True, False]


async def test_what_operators_do_to_the_platform_has_a_log_of_its_own(operator: CommandLine, owner: Owner) -> None:
    await operator.read("halt", "--reason", "drill", "--yes", "--as", "olga")
    await operator.read("resume", "--reason", "over", "--yes", "--as", "olga")
    await operator.change("users", "disable", "dev", "auth|9")
    await operator.say("calendars", "close", "XNYS", "2031-07-01", "--reason", "storm", "--as", "olga")
    await operator.say("calendars", "reset", "XNYS", "2031-07-01", "--reason", "over", "--as", "olga")
    entries = (await operator.read("audit", "list", "--organization", str(PLATFORM_ID)))["entries"]
    assert [entry["operation"] for entry in reversed(entries)] == [
        *("controls rule", "controls rule", "users disable", "calendars change", "calendars reset")
    ]
    assert {entry["principal_id"] for entry in entries} == {"olga"}
    assert {entry["login"] for entry in entries} == {await owner.fetchval("select session_user")}
    assert (await verify(owner, Verification())).heads.keys() == {str(PLATFORM_ID)}


def run(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as an operator runs it."""
    return subprocess.run(
        [sys.executable, "-m", "openbell_server", "audit", *words],
        env={**os.environ, "OPENBELL_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_an_export_is_verified_offline_and_against_an_earlier_one(
    operator: CommandLine, pool: Pool, tmp_path: Path, database: str
) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    await append_some(pool, await a_tenant(pool), 2)
    exported = await asyncio.to_thread(run, database, "export")
    assert (exported.returncode, exported.stderr) == (0, "")
    earlier = tmp_path / "earlier.jsonl"
    earlier.write_text(exported.stdout)
    lines = exported.stdout.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    last = kinds.index("head") - 1
    assert kinds[0] == "audit_log"
    assert kinds[-2:] == ["head", "end"]
    nowhere = "postgresql://nobody@localhost:1/none"
    whole = await asyncio.to_thread(run, nowhere, "verify", str(earlier))
    assert (whole.returncode, whole.stdout.splitlines()[0]) == (0, f"{last + 2} entries of 2 logs: intact.")
    await append_some(pool, tenant, 5)
    for words in (["verify"], ["verify", "--head", str(earlier)]):
        assert (await asyncio.to_thread(run, database, *words)).returncode == 0
    # A file without its newest entries: intact by itself, broken against the head.
    organization_id = str(tenant.account.organization_id)
    only = (await operator.say("audit", "export", "--organization", organization_id)).splitlines()
    number, digest = (json.loads(only[-2])[name] for name in ("number", "hash"))
    shorter = json.loads(only[-3])
    head = {"kind": "head", **{name: shorter[name] for name in ("organization_id", "number", "hash")}}
    end = {"kind": "end", "entries": number - 1, "heads": 1}
    head["number"], head["hash"] = number - 1, json.loads(only[-4])["hash"]
    cut = tmp_path / "cut.jsonl"
    cut.write_text("\n".join([*only[:-3], json.dumps(head), json.dumps(end)]) + "\n")
    assert (await operator.run("audit", "verify", str(cut))).exit_code == 0
    broken = await operator.run("audit", "verify", str(cut), "--head", f"{number}:{digest}", "--json")
    assert (broken.exit_code, json.loads(broken.output)["flaws"][0]["tampering"]) == (1, "tail removed")
    assert (await operator.run("audit", "verify", str(cut), "--head", str(earlier))).exit_code == 1
    only_one = ["--head", str(earlier), "--organization", organization_id]
    assert (await operator.run("audit", "verify", str(cut), *only_one)).exit_code == 0


async def test_the_command_names_organization_entry_and_what_was_done(
    operator: CommandLine, owner: Owner, pool: Pool, database: str
) -> None:
    tenant = await an_audit_log(pool, ENTRIES)
    await owner.execute(
        "set session_replication_role = replica; update audit_log set principal_id = 'nobody' where entry_no = 3;"
        "delete from audit_log where entry_no = 7"
    )
    answer = await asyncio.to_thread(run, database, "verify")
    assert answer.returncode == 1
    organization = f"organization {tenant.account.organization_id}"
    assert f"WRONG  {organization}, entry 3: changed:" in answer.stdout
    assert f"WRONG  {organization}, entry 7: removed:" in answer.stdout
    report = json.loads((await operator.run("audit", "verify", "--json")).output)
    assert (report["intact"], report["flaws_total"]) == (False, 2)


async def test_what_cannot_be_verified_is_exit_code_2(operator: CommandLine, pool: Pool, tmp_path: Path) -> None:
    await append_some(pool, await a_tenant(pool), 2)
    lines = (await operator.say("audit", "export")).splitlines()
    for name, content in {
        "empty": [],
        "no first line": lines[1:],
        "no last line": lines[:-1],
        "more after the end": [*lines, lines[1]],
        "a line of something else": [lines[0], "{}", *lines[1:]],
        "no JSON": [lines[0], "entry", *lines[1:]],
        "a field too many": [lines[0], lines[1].replace('"kind"', '"note": "", "kind"'), *lines[2:]],
        "a number as a text": [lines[0], lines[1].replace('"number": 1', '"number": "1"'), *lines[2:]],
    }.items():
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(f"{line}\n" for line in content))
        assert "export" in await operator.refused("audit", "verify", str(file)), name
    intact = tmp_path / "intact.jsonl"
    intact.write_text("".join(f"{line}\n" for line in lines))
    for head in ("7", "not-there.jsonl", str(tmp_path / "empty.jsonl")):
        assert head in await operator.refused("audit", "verify", str(intact), "--head", head)
    assert "cannot be read" in await operator.refused("audit", "verify", str(tmp_path))
    answer = await asyncio.to_thread(run, "postgresql://nobody@localhost:1/none", "verify")
    assert answer.returncode == 2

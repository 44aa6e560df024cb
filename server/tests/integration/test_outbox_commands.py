"""The operator's commands on the queues: failed rows are seen and handled, stay counted, each change is audited."""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.events.outbox_health import count_account_outbox
from openbell_server.adapters.postgres.operators.outbox_operators import PostgresOutboxOperators
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.events.outbox import OutboxStatus, Queue
from openbell_server.domain.events.outbox_health import rows_in
from support.builders.outbox_rows import TABLES, queue_row
from support.builders.tenant import Tenant, a_tenant
from support.environment.command_line import CommandLine, audited

REASON = ("--reason", "the broker was away")


@pytest.fixture
def operator(database: str) -> CommandLine:
    return CommandLine(database)


@pytest.fixture
async def tenant(pool: Pool) -> Tenant:
    return await a_tenant(pool)


async def rows_of(operator: CommandLine, *options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await operator.read("outbox", "list", *options))["rows"]
    return rows


async def test_the_summary_shows_every_queue_with_its_verdict_and_what_to_do(
    operator: CommandLine, pool: Pool, tenant: Tenant
) -> None:
    healthy = await operator.run("outbox")
    assert (healthy.exit_code, healthy.output.count("HEALTHY")) == (0, 3)
    await queue_row(pool, tenant, Queue.INTENTS, "failed")
    await queue_row(pool, tenant, Queue.USERS, age=300)
    for _ in range(3):
        await queue_row(pool, tenant, status="completed")
    told = await operator.run("outbox")
    assert told.exit_code == 1
    assert "intents is FAILING. 1 row was given up" in told.output
    assert "users is STUCK. A row that is due has waited 30" in told.output
    assert "accounts is" not in told.output
    body = json.loads((await operator.run("outbox", "--json")).output)
    assert body["verdict"] == "STUCK"
    assert [(queue["name"], queue["verdict"], queue["completed"]) for queue in body["queues"]] == [
        ("accounts", "HEALTHY", 3),
        ("intents", "FAILING", 0),
        ("users", "STUCK", 0),
    ]


async def test_rows_that_are_not_completed_are_listed_by_queue_and_status_the_oldest_first(
    operator: CommandLine, pool: Pool, tenant: Tenant
) -> None:
    queued = {
        (queue, status): await queue_row(pool, tenant, queue, status, age=age, attempts=2)
        for queue in Queue
        for age, status in ((40, "failed"), (30, "processing"), (20, "pending"), (10, "completed"))
    }
    uncompleted = {place for place in queued if place[1] != "completed"}
    everything = await rows_of(operator, "--status", "all")
    assert {(row["queue"], row["status"]) for row in everything} == uncompleted
    assert all(queued[row["queue"], row["status"]] == row["outbox_id"] for row in everything)
    ages = [row["age_seconds"] for row in everything]
    assert ages == sorted(ages, reverse=True)
    assert {(row["queue"], row["status"]) for row in await rows_of(operator)} == {(queue, "failed") for queue in Queue}
    (only,) = await rows_of(operator, "--queue", "intents", "--status", "pending")
    assert only["outbox_id"] == queued[Queue.INTENTS, "pending"]
    assert len(await rows_of(operator, "--status", "all", "--limit", "4")) == 4
    table = await operator.say("outbox", "list")
    assert "intent.queued" in table
    assert "user.deleted" in table
    assert "These are the oldest 2" in await operator.say("outbox", "list", "--limit", "2")


@pytest.mark.parametrize("queue", list(Queue))
async def test_a_row_is_shown_with_all_that_is_known_of_it(
    operator: CommandLine, pool: Pool, tenant: Tenant, queue: Queue
) -> None:
    row = str(await queue_row(pool, tenant, queue, "failed", attempts=10, payload='{"version": "\x1b[2J"}'))
    shown = await operator.read("outbox", "show", queue, row)
    assert (shown["status"], shown["attempts"], str(shown["outbox_id"])) == ("failed", 10, row)
    assert shown["organization_id"] == str(tenant.account.organization_id)
    assert json.loads(shown["payload"]) if queue is Queue.INTENTS else shown["payload"] == '{"version": "\x1b[2J"}'
    told = await operator.say("outbox", "show", queue, row)
    assert str(tenant.account.organization_id) in told
    assert "\x1b" not in told


@pytest.mark.parametrize("queue", list(Queue))
async def test_an_acknowledged_row_stays_failed_and_counted_with_who_when_and_why(
    operator: CommandLine, pool: Pool, tenant: Tenant, queue: Queue
) -> None:
    row = await queue_row(pool, tenant, queue, "failed", attempts=10)
    table = f"select * from {TABLES[queue]}"
    before = await pool.fetch(table)
    handled = await operator.change("outbox", "acknowledge", queue, str(row), *REASON)
    assert (handled["acknowledged_by"], handled["acknowledged_reason"]) == ("olga", REASON[1])
    now = await pool.fetchval("select clock_timestamp()")
    stored = await pool.fetchrow("select * from outbox_failures")
    assert stored
    assert now - timedelta(seconds=60) < stored["acknowledged_at"] <= now
    assert stored["requeued_as"] is None
    assert await pool.fetch(table) == before
    (listed,) = await rows_of(operator)
    assert (listed["status"], listed["acknowledged_by"]) == ("failed", "olga")
    ((operation, object_id, was, became),) = await audited(pool)
    assert (operation, object_id) == ("outbox acknowledge", f"{queue} {row}")
    assert (was["acknowledged_by"], became) == (None, handled)
    assert await pool.fetchval("select organization_id from audit_log") == tenant.account.organization_id


async def test_what_was_acknowledged_stays_as_it_is_and_is_not_audited_again(
    operator: CommandLine, pool: Pool, tenant: Tenant
) -> None:
    row = str(await queue_row(pool, tenant, status="failed"))
    first = await operator.change("outbox", "acknowledge", "accounts", row, *REASON)
    assert await operator.change("outbox", "acknowledge", "accounts", row, "--reason", "again") == first
    assert len(await audited(pool)) == 1


COPIED = {
    Queue.ACCOUNTS: ("organization_id", "account_id", "event_type", "payload"),
    Queue.INTENTS: ("organization_id", "account_id", "event_type", "slot", "action_id"),
    Queue.USERS: ("organization_id", "event_type", "payload"),
}


@pytest.mark.parametrize("queue", list(Queue))
async def test_a_requeued_row_stays_failed_and_a_new_one_says_the_same_after_all_others(
    operator: CommandLine, pool: Pool, tenant: Tenant, queue: Queue
) -> None:
    failed = await queue_row(pool, tenant, queue, "failed", attempts=10, age=100)
    later = await queue_row(pool, tenant, queue)
    handled = await operator.change("outbox", "requeue", queue, str(failed), *REASON)
    assert (handled["acknowledged_by"], handled["acknowledged_reason"]) == ("olga", REASON[1])
    assert handled["requeued_as"] > later
    old, _, new = await pool.fetch(f"select * from {TABLES[queue]} order by outbox_id")
    assert (old["outbox_id"], old["status"], old["attempts"]) == (failed, "failed", 10)
    assert (new["outbox_id"], new["status"], new["attempts"]) == (handled["requeued_as"], "pending", 0)
    assert [new[name] for name in COPIED[queue]] == [old[name] for name in COPIED[queue]]
    assert new["created_at"] > old["created_at"]
    assert (await operator.read("outbox", "show", queue, str(new["outbox_id"])))["requeue_of"] == failed
    assert "requeued as" in await operator.say("outbox", "list")
    ((operation, object_id, _, became),) = await audited(pool)
    assert (operation, object_id, became) == ("outbox requeue", f"{queue} {failed}", handled)


async def test_a_row_is_requeued_once_only_even_by_two_at_once(
    operator: CommandLine, pool: Pool, tenant: Tenant
) -> None:
    row = str(await queue_row(pool, tenant, status="failed"))
    harness = PostgresOutboxOperators(pool, "olga")
    told = await asyncio.gather(
        *(harness.handle(Queue.ACCOUNTS, int(row), "why", requeue=True) for _ in range(4)), return_exceptions=True
    )
    assert sorted(isinstance(answer, OperatorError) for answer in told) == [False, True, True, True]
    assert await pool.fetchval("select count(*) from account_outbox") == 2
    said = await operator.refused("outbox", "requeue", "accounts", row, *REASON)
    assert "was requeued before, as row 2: see `openbell-server outbox show accounts 2`" in said
    assert len(await audited(pool)) == 1


async def test_one_that_was_acknowledged_may_still_be_requeued(
    operator: CommandLine, pool: Pool, tenant: Tenant
) -> None:
    row = str(await queue_row(pool, tenant, status="failed"))
    await operator.change("outbox", "acknowledge", "accounts", row, "--reason", "nothing to do")
    handled = await operator.change("outbox", "requeue", "accounts", row, *REASON)
    assert (handled["acknowledged_reason"], handled["requeued_as"]) == (REASON[1], 2)
    assert [entry[0] for entry in await audited(pool)] == ["outbox acknowledge", "outbox requeue"]


@pytest.mark.parametrize("command", ["acknowledge", "requeue"])
@pytest.mark.parametrize("status", ["pending", "processing", "completed"])
async def test_a_row_that_did_not_fail_is_left_alone(
    operator: CommandLine, pool: Pool, tenant: Tenant, command: str, status: str
) -> None:
    row = str(await queue_row(pool, tenant, status=status))
    said = await operator.refused("outbox", command, "accounts", row, *REASON)
    assert f"Row {row} of the queue accounts is {status}: only failed rows" in said
    assert await pool.fetchval("select count(*) from account_outbox") == 1
    assert await audited(pool) == []


async def test_all_that_nobody_has_acknowledged_is_handled_in_the_order_it_was_queued(
    operator: CommandLine, pool: Pool, tenant: Tenant
) -> None:
    other = await a_tenant(pool)
    failed = [await queue_row(pool, owner, status="failed") for owner in (tenant, other, tenant, other)]
    elsewhere = await queue_row(pool, tenant, Queue.INTENTS, "failed")
    await operator.change("outbox", "acknowledge", "accounts", str(failed[1]), "--reason", "not needed")
    handled = (await operator.change("outbox", "requeue", "accounts", "--all-failed", *REASON))["rows"]
    assert [row["outbox_id"] for row in handled] == [failed[0], failed[2], failed[3]]
    assert [row["requeued_as"] for row in handled] == [5, 6, 7]
    assert {row["organization_id"] for row in handled} == {
        str(owner.account.organization_id) for owner in (tenant, other)
    }
    assert (await operator.change("outbox", "requeue", "accounts", "--all-failed", *REASON))["rows"] == []
    assert [row["outbox_id"] for row in await rows_of(operator, "--queue", "intents")] == [elsewhere]
    assert rows_in(await count_account_outbox(pool), OutboxStatus.FAILED) == 4
    assert len(await audited(pool)) == 4


async def test_every_mistake_gets_a_sentence_and_leaves_no_trace(
    operator: CommandLine, pool: Pool, tenant: Tenant
) -> None:
    row = str(await queue_row(pool, tenant, status="failed"))
    mistakes = [
        (["show", "users", "77"], "There is no row 77 in the queue users"),
        (["requeue", "intents", row, *REASON], f"There is no row {row} in the queue intents"),
        (["requeue", "accounts", *REASON], "Name the row by its ID, or use --all-failed"),
        (["acknowledge", "accounts", row, "--all-failed", *REASON], "one of them, not both"),
        (["acknowledge", "accounts", row, "--reason", " "], "--reason takes 1 to"),
        (["acknowledge", "accounts", row, *REASON, "--as", "\t"], "--as takes 1 to"),
    ]
    missed = [
        (words, said) for words, says in mistakes if says not in (said := await operator.refused("outbox", *words))
    ]
    assert missed == []
    for words in (["show", "orders", row], ["acknowledge", "accounts", row], ["list", "--limit", "0"]):
        assert (await operator.run("outbox", *words)).exit_code == 2
    assert await audited(pool) == []
    assert await pool.fetchval("select acknowledged_at from outbox_failures") is None


async def test_the_audit_log_is_listed_newest_first_for_all_or_one_organization(
    operator: CommandLine, pool: Pool
) -> None:
    first, second = [await operator.organization() for _ in range(2)]
    await operator.change("organizations", "entitle", first, "trading_live")
    entries = (await operator.read("audit", "list"))["entries"]
    assert [(entry["operation"], entry["organization_id"]) for entry in entries] == [
        ("organizations entitle", first),
        ("organizations create", second),
        ("organizations create", first),
    ]
    change = entries[0]
    assert (change["principal_type"], change["principal_id"], change["object_id"]) == ("OPERATOR", "olga", first)
    assert (change["before"]["entitlements"], change["after"]["entitlements"]) == (
        ["controls_premium"],
        ["controls_premium", "trading_live"],
    )
    assert entries[1]["before"] is None
    (only,) = (await operator.read("audit", "list", "--organization", second))["entries"]
    assert only == entries[1]
    assert len((await operator.read("audit", "list", "--limit", "2"))["entries"]) == 2
    table = await operator.say("audit", "list", "--organization", first)
    assert "operator olga" in table
    assert "organizations entitle" in table
    assert "There is no organization" in await operator.refused("audit", "list", "--organization", str(uuid4()))


async def test_a_login_with_the_operator_s_role_alone_can_use_every_command(
    services: LocalServices, pool: Pool, tenant: Tenant
) -> None:
    await pool.execute("create role olga login; grant openbell_operator to olga")
    try:
        operator = CommandLine(services.postgres.url("openbell_test", "olga"))
        rows = [str(await queue_row(pool, tenant, status="failed")) for _ in range(2)]
        await queue_row(pool, tenant, Queue.USERS)
        assert (await operator.run("outbox")).exit_code == 1
        assert len(await rows_of(operator, "--status", "all")) == 3
        await operator.change("outbox", "requeue", "accounts", rows[0], *REASON)
        await operator.change("outbox", "acknowledge", "accounts", rows[1], *REASON)
        assert len((await operator.read("audit", "list"))["entries"]) == 2
    finally:
        await pool.execute("drop role olga")


@pytest.mark.parametrize(
    "change",
    [
        "update outbox_failures set attempts = 0",
        "delete from outbox_failures",
        "insert into outbox_failures select * from outbox_failures",
        "update account_outbox set status = 'pending'",
        "delete from account_outbox",
    ],
)
async def test_an_operator_can_make_no_failure_disappear(pool: Pool, tenant: Tenant, change: str) -> None:
    await queue_row(pool, tenant, status="failed")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with transaction(pool, Role.OPERATOR, tenant.account.organization_id) as connection:
            await connection.execute(change)

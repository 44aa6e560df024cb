"""The accept step: everything of an accepted command together, a status per row, and no row touches another's."""

import asyncio
import hashlib
from dataclasses import replace
from decimal import Decimal

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import INDEX_PLANS, Pool, Role, transaction
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore, intent_action
from openbell_server.adapters.postgres.intents.intents import accept as accept_set
from openbell_server.application.ports.accept_step import Submission
from openbell_server.domain.identifiers import ActionId, IntentId, Symbol, uuid7
from openbell_server.domain.orders.intents import action_hash
from support.builders.tenant import Tenant, a_cancel, a_limit_create, a_market_create, a_tenant, accept

TABLES = ("orders", "intent_actions", "action_states", "receipts", "intent_outbox", "account_events")


async def count(pool: Pool, table: str) -> int:
    return int(await pool.fetchval(f"select count(*) from {table}"))


async def statuses(pool: Pool, *submissions: Submission) -> list[str]:
    return [str(acceptance.status) for acceptance in await accept(pool, *submissions)]


async def test_an_accepted_create_writes_one_row_everywhere(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    (accepted,) = await accept(pool, tenant.submission(key="k1"))
    assert accepted.status == "ACCEPTED"
    assert (accepted.seq, accepted.number) == (1, 1)
    assert [await count(pool, table) for table in (*TABLES, "idempotency_keys")] == [1] * 7


async def test_the_stored_hash_is_the_domain_s_hash(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    exact = a_limit_create("123456789012345678.000000000000000001", "0.500")
    odd = a_market_create(reference="ünïcödé — €")
    (first, _, _) = await accept(pool, tenant.submission(exact), tenant.submission(odd), tenant.submission())
    await accept(pool, tenant.submission(a_cancel(first.intent_id)))
    rows = await pool.fetch("select * from intent_actions order by action_no")
    assert len(rows) == 4
    assert [row["hash"] for row in rows] == [action_hash(intent_action(row)) for row in rows]


async def test_the_chain_takes_one_step_per_set_over_actions_and_receipts(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    await accept(pool, *(tenant.submission() for _ in range(3)))
    await accept(pool, tenant.submission())
    rows = await pool.fetch(
        "select a.chained_from, a.hash || r.hash as hashes from intent_actions a join receipts r using (receipt_id) "
        "order by a.action_no"
    )
    assert [row["chained_from"] for row in rows] == [1, 1, 1, 4]
    head = bytes(32)
    for first in (1, 4):
        head = hashlib.sha256(head + b"".join(row["hashes"] for row in rows if row["chained_from"] == first)).digest()
    assert await pool.fetchval("select chain_head from account_counters") == head


async def test_a_set_answers_every_row_and_a_bad_row_fails_no_other(pool: Pool) -> None:
    tenant, other = await a_tenant(pool), await a_tenant(pool)
    (working,) = await accept(pool, tenant.submission(key="seen"))
    stolen = replace(other.account, organization_id=tenant.account.organization_id)
    foreign = replace(tenant.submission(), account=stolen)
    stale = replace(tenant.submission(), account=replace(tenant.account, account_epoch=99))
    stale_organization = replace(tenant.submission(), account=replace(tenant.account, organization_epoch=99))
    old = replace(tenant.submission(), action_id=ActionId(uuid7(1, bytes(10))))
    bad_symbol = tenant.submission(replace(a_market_create(), symbol=Symbol("no such symbol")))
    missing = tenant.submission(a_cancel(IntentId(other.account.id)))
    twice = [tenant.submission(a_cancel(working.intent_id)) for _ in range(2)]
    good = tenant.submission()
    answers = await statuses(
        pool,
        tenant.submission(key="seen"),
        foreign,
        tenant.submission(key="new"),
        tenant.submission(key="new"),
        stale,
        stale_organization,
        old,
        bad_symbol,
        missing,
        *twice,
        good,
    )
    assert answers == [
        "REPLAYED",
        "NOT_FOUND",
        "ACCEPTED",
        "SAME_KEY_IN_SET",
        "STALE_CONTROLS",
        "STALE_CONTROLS",
        "CLOCK_SKEW",
        "INVALID",
        "NOT_FOUND",
        "ACCEPTED",
        "DEFERRED",
        "ACCEPTED",
    ]
    assert [await count(pool, table) for table in TABLES] == [3, 4, 4, 4, 4, 4]


async def test_a_hostile_neighbour_in_the_set_changes_nothing_for_others(pool: Pool) -> None:
    tenant, hostile = await a_tenant(pool), await a_tenant(pool)
    (working,) = await accept(pool, tenant.submission())
    attack = [
        hostile.submission(a_cancel(working.intent_id), key="theirs"),
        replace(hostile.submission(), intent_id=working.intent_id),
        hostile.submission(key="mine"),
    ]
    own = tenant.submission(a_cancel(working.intent_id), key="mine")
    answers = await accept(pool, *attack, own)
    assert answers[0].status == "NOT_FOUND"
    assert (answers[-1].status, answers[-1].seq, answers[-1].number) == ("ACCEPTED", 2, 2)


async def test_a_second_cancel_is_the_first_while_that_one_waits(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    (created,) = await accept(pool, tenant.submission())
    (first,) = await accept(pool, tenant.submission(a_cancel(created.intent_id), key="c1"))
    (second,) = await accept(pool, tenant.submission(a_cancel(created.intent_id), key="c2"))
    (again,) = await accept(pool, tenant.submission(a_cancel(created.intent_id), key="c2"))
    assert [(a.status, a.seq) for a in (first, second, again)] == [
        ("ACCEPTED", 2),
        ("CANCEL_PENDING", 2),
        ("REPLAYED", 2),
    ]
    assert await count(pool, "intent_actions") == 2


async def test_a_cancel_of_a_closed_order_is_refused(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    (created,) = await accept(pool, tenant.submission())
    await pool.execute("update orders set standing = 'CLOSED', close_reason = 'FILLED', pending = 'NONE'")
    assert await statuses(pool, tenant.submission(a_cancel(created.intent_id))) == ["ORDER_TERMINAL"]


async def test_a_cancel_is_a_full_snapshot_of_the_order(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    (created,) = await accept(pool, tenant.submission(a_limit_create("1.50")))
    await accept(pool, tenant.submission(a_cancel(created.intent_id)))
    where = (tenant.account.organization_id, tenant.account.id, created.intent_id)
    latest = await PostgresIntentStore(pool).find_action(*where)
    assert latest is not None
    assert (latest.action.action_type, latest.action.limit_price, latest.action.symbol) == (
        "CANCEL",
        Decimal("1.50"),
        "AAPL",
    )


@pytest.mark.parametrize("table", ["intent_actions", "receipts", "account_events", "executions"])
@pytest.mark.parametrize("change", ["update {} set account_id = account_id", "delete from {}", "truncate {} cascade"])
async def test_history_is_append_only(pool: Pool, table: str, change: str) -> None:
    tenant = await a_tenant(pool)
    await accept(pool, tenant.submission())
    with pytest.raises(asyncpg.PostgresError) as refused:
        await pool.execute(change.format(table))
    assert refused.value.sqlstate == "OB001"


async def hammer(pool: Pool, tenants: list[Tenant], rounds: int, *, reverse: bool) -> None:
    for _ in range(rounds):
        order = list(reversed(tenants)) if reverse else tenants
        answers = await accept(pool, *(tenant.submission() for tenant in order))
        assert {answer.status for answer in answers} == {"ACCEPTED"}


async def test_concurrent_sets_over_the_same_accounts_number_without_gaps_and_never_deadlock(pool: Pool) -> None:
    tenants = [await a_tenant(pool) for _ in range(5)]
    await asyncio.gather(*(hammer(pool, tenants, 25, reverse=bool(i % 2)) for i in range(6)))
    for table, number in (("intent_actions", "action_no"), ("account_events", "event_no")):
        rows = await pool.fetch(f"select count(*) as n, min({number}), max({number}) from {table} group by account_id")
        assert [(row["n"], row["min"], row["max"]) for row in rows] == [(150, 1, 150)] * 5
    assert await pool.fetchval("select count(*) from account_counters where (action_no, event_no) <> (150, 150)") == 0


async def test_a_replay_that_waited_on_the_lock_sees_the_key_just_committed(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    answers = await asyncio.gather(*(accept(pool, tenant.submission(key="same")) for _ in range(8)))
    assert sorted(str(answer.status) for (answer,) in answers) == ["ACCEPTED"] + ["REPLAYED"] * 7
    assert len({answer.intent_id for (answer,) in answers}) == 1
    assert await count(pool, "intent_actions") == 1


async def test_the_keys_of_a_busy_account_are_looked_up_each_by_itself(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    for row in (
        "accounts (organization_id, account_id, name, broker, environment, slot) select $1, id, 'a', 'b', 'paper', 0",
        "account_counters (organization_id, account_id, slot) select $1, id, 0",
    ):
        await pool.execute(
            f"insert into {row} from (select md5(n::text)::uuid as id from generate_series(1, 3000) n) t",
            tenant.account.organization_id,
        )
    await pool.execute("analyze accounts, account_counters")
    await pool.execute(
        "insert into idempotency_keys (organization_id, account_id, key, command_hash, intent_id, seq, created_at)"
        " select $1, $2, 'old ' || n, '', gen_random_uuid(), 1, now() from generate_series(1, 5000) n",
        *(tenant.account.organization_id, tenant.account.id),
    )
    async with transaction(pool, Role.ACCEPT) as connection:
        for name, value in INDEX_PLANS.items():
            await connection.execute(f"set local {name} = {value}")
        accepted = await accept_set(connection, [tenant.submission(key=f"new {n}") for n in range(10)])
        await connection.execute("reset role")
        read = await connection.fetchval(
            "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relname = 'idempotency_keys'"
        )
    assert {each.status for each in accepted} == {"ACCEPTED"}
    assert read <= len(accepted)

"""Attacks on the function that writes ticks: other organizations, other callers, locks, halts, long histories."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

import asyncpg
import pytest

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import BLOCKED, INDEX_PLANS, Pool, Role, open_role_pool, transaction
from openbell_server.adapters.postgres.execution import ticks
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.execution.ticks import PostgresTickStore
from openbell_server.application.execution.execution_ticks import ExecutionTicks
from openbell_server.application.execution.ports import TickResult
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.orders.broker_reports import Accepted, ReportStatus
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_tenant, accept, an_execution
from support.environment.scripted_ticks import NothingSignedIn
from support.environment.store_benches import PostgresDatabase
from support.environment.tick_benches import ALL_SLOTS, TickBench, filled, postgres_tick_bench
from support.rest.rest_api import RecordedHints
from support.tenancy.halts import Switchboard

_Answer = TypeVar("_Answer")
_READ: Final = """
select sum(seq_tup_read + idx_tup_fetch)::bigint from pg_stat_xact_user_tables where schemaname = 'openbell'
"""
_WAITS: Final = "select exists (select 1 from pg_locks where not granted)"


def account_of(tenant: Tenant) -> BrokerAccount:
    account = tenant.account
    return BrokerAccount(account.organization_id, account.id, account.broker, account.slot)


@pytest.fixture
async def patient_pool(database: str) -> AsyncIterator[Pool]:
    """Waits for locks as long as tests need."""
    settings = {"lock_timeout": "60s", **INDEX_PLANS}
    async with await open_role_pool(database, Role.EXECUTOR, 8, settings) as opened:
        yield opened


@pytest.fixture
async def ours(pool: Pool, tick_pool: Pool) -> TickBench:
    return await postgres_tick_bench(pool, tick_pool)


@pytest.fixture
async def theirs(pool: Pool, tick_pool: Pool) -> TickBench:
    return await postgres_tick_bench(pool, tick_pool)


# ---- other organizations


async def test_a_unit_that_names_our_organization_and_their_account_changes_nothing(
    ours: TickBench, theirs: TickBench
) -> None:
    opened = await theirs.sent()
    unit = theirs.of(opened, Accepted("b1"), filled(opened, an_execution(1, 2)))
    before = [await bench.record() for bench in (ours, theirs)]
    mixed = [
        replace(theirs.account, organization_id=ours.account.organization_id),
        replace(ours.account, organization_id=theirs.account.organization_id),
        ours.account,
    ]
    result = await ours.tick([replace(unit, account=account) for account in mixed])
    assert result.written == [False, False, False]
    assert [await bench.record() for bench in (ours, theirs)] == before


async def test_a_door_that_names_our_organization_and_their_account_stays_shut(
    ours: TickBench, theirs: TickBench
) -> None:
    await theirs.accept()
    request, before = await theirs.request(), await theirs.record()
    mixed = replace(theirs.account, organization_id=ours.account.organization_id)
    result = await ours.tick(doors=[replace(request, account=mixed)])
    assert (result.opened, result.long_way) == ([], {theirs.account.account_id: "NOT_FOUND"})
    assert await theirs.record() == before


async def test_a_unit_of_theirs_in_a_set_of_ours_is_written_apart_from_it(ours: TickBench, theirs: TickBench) -> None:
    (first,), (second,) = await ours.send(), await theirs.send()
    fills = an_execution(1, 2), an_execution(1, 3)
    units = [ours.of(first, filled(first, fills[0])), theirs.of(second, filled(second, fills[1]))]
    assert (await ours.tick(units)).written == [True, True]
    assert await ours.database.position(ours.account) == 2
    assert await theirs.database.position(theirs.account) == 3


# ---- other callers


@pytest.mark.parametrize("function", ["work_tick", "door_terms"])
async def test_only_executors_may_call_it(login_pool: Pool, function: str) -> None:
    queries = named_queries.load("ticks")
    columns = (*ticks.UNIT, *ticks.EXECUTION, *ticks.EVENT, *ticks.DOOR)
    nothing = {name: list[Any]() for name in columns} | {"p_attempt_id": uuid4(), "p_slots": "{}"}
    allowed = []
    for role in set(Role) - {Role.VAULT}:
        try:
            async with transaction(login_pool, role) as connection:
                if function == "work_tick":
                    rows = queries.write_tick_across_organizations(connection, **nothing)
                else:
                    rows = queries.door_terms_across_organizations(connection, account_ids=[])
                assert [row async for row in rows] == []
                allowed.append(role)
        except asyncpg.InsufficientPrivilegeError:
            continue
    assert allowed == [Role.EXECUTOR]


# ---- locks


async def test_ticks_accepts_and_the_long_way_never_deadlock_and_double_nothing(pool: Pool, patient_pool: Pool) -> None:
    tenants = [await a_tenant(pool) for _ in range(5)]
    bench = TickBench(
        (await postgres_tick_bench(pool, patient_pool)).database,
        account_of(tenants[0]),
        PostgresTickStore(patient_pool),
    )
    opened = Counter[Any]()

    async def tick(number: int) -> None:
        known: list[Any] = []
        for turn in range(8):
            accounts = [account_of(tenant) for tenant in tenants]
            random.Random(f"{number} {turn}").shuffle(accounts)
            units = [bench.unit(each, Accepted("b"), account=account) for account, each in known]
            result = await bench.tick(units[::-1], [await bench.request(3, account) for account in accounts])
            assert all(result.written)
            by_id = {account.account_id: account for account in accounts}
            known = [(by_id[each.account_id], each) for each in result.opened]
            opened.update(each.action.action_id for each in result.opened)

    async def submit(number: int) -> None:
        for turn in range(8):
            some = [tenant.submission() for tenant in tenants]
            random.Random(f"{turn} {number}").shuffle(some)
            assert {answer.status for answer in await accept(pool, *some)} == {"ACCEPTED"}

    async def go_the_long_way() -> None:
        for turn in range(8):
            for tenant in tenants[:: 1 if turn % 2 else -1]:
                async with PostgresExecutionStore(pool).account_transaction(account_of(tenant)) as transaction:
                    await transaction.has_queued()

    await asyncio.gather(*(tick(at) for at in range(3)), *(submit(at) for at in range(2)), go_the_long_way())
    assert set(opened.values()) == {1}
    sent = await pool.fetchval("select count(*) from action_states where state <> 'QUEUED'")
    assert sent == len(opened)
    rows = await pool.fetch(
        "select count(*) as n, max(e.event_no) as last, max(c.event_no) as head from account_events e"
        " join account_counters c using (account_id) group by account_id"
    )
    assert len(rows) == len(tenants)
    assert all(row["n"] == row["last"] == row["head"] for row in rows)


async def test_a_locked_account_stops_a_tick_within_the_limit(pool: Pool, ours: TickBench) -> None:
    unit = ours.of(await ours.sent(), Accepted("b1"))
    before = await ours.record()
    async with PostgresExecutionStore(pool).account_transaction(ours.account):
        began = time.monotonic()
        with pytest.raises(BLOCKED):
            await ours.tick([unit])
        # The machine may be slow; without the limit it would wait for ever.
        assert time.monotonic() - began < 30
    assert await ours.record() == before
    assert (await ours.tick([unit])).written == [True]


async def test_a_locked_account_takes_the_long_way_and_the_others_are_written(pool: Pool, ours: TickBench) -> None:
    executor = ExecutionTicks(
        ours.ticks, NothingSignedIn(), lambda: ALL_SLOTS, RecordedHints(), time.monotonic, uuid4, BLOCKED
    )
    accounts = [ours.account, *[await ours.database.another_account() for _ in range(3)]]
    for account in accounts:
        await ours.accept(account=account)
        await ours.accept(account=account)
    opening = await asyncio.gather(*(executor.open_doors(account, 1) for account in accounts))
    doors = [each.doors[0] for each in opening if each is not None]
    assert len(doors) == 4
    async with PostgresExecutionStore(pool).account_transaction(accounts[2]):
        answers = asyncio.gather(*(executor.record(door, Accepted("b")) for door in doors))
        more = asyncio.gather(*(executor.open_doors(account, 1) for account in accounts))
        written, opened = await asyncio.wait_for(answers, 60), await asyncio.wait_for(more, 60)
    assert [each and each.state for each in written] == [*["ACKED"] * 2, None, "ACKED"]
    assert [each and len(each.doors) for each in opened] == [1, 1, None, 1]
    states = await pool.fetch("select state from action_states where account_id = $1", accounts[2].account_id)
    assert sorted(row["state"] for row in states) == ["DISPATCHING", "QUEUED"]


# ---- halts


@pytest.mark.parametrize("scope", [Scope.PLATFORM, Scope.ORGANIZATION, Scope.ACCOUNT])
async def test_no_door_opens_after_a_halt_is_committed(pool: Pool, ours: TickBench, scope: Scope) -> None:
    assert isinstance(ours.database, PostgresDatabase)
    await ours.accept()
    request = await ours.request()
    await Switchboard(Harness(pool, ours.database.tenant)).halt(scope)
    result = await ours.tick(doors=[request])
    assert (result.opened, result.long_way) == ([], {ours.account.account_id: "OTHER_EPOCH"})
    assert (await ours.request()).terms.has_rules


_HALTS: Final = {
    "platform": (
        "select pg_advisory_xact_lock(hashtextextended('00000000-0000-0000-0000-000000000000', 7))",
        "update organizations set control_epoch = control_epoch + 1",
    ),
    "organization": (
        "select pg_advisory_xact_lock(hashtextextended(organization_id::text, 7)) from organizations",
        "update organizations set control_epoch = control_epoch + 1",
    ),
    "account": (
        "select 1 from account_counters for no key update",
        "update account_counters set control_epoch = control_epoch + 1",
    ),
}


async def still_waits(pool: Pool, work: Awaitable[_Answer]) -> asyncio.Future[_Answer]:
    """Start work that has to wait for a lock."""
    started = asyncio.ensure_future(work)

    async def is_over_or_waits() -> bool:
        return started.done() or bool(await pool.fetchval(_WAITS))

    await until(is_over_or_waits)
    assert not started.done(), "it waited for nothing"
    return started


@pytest.mark.parametrize(("lock", "change"), _HALTS.values(), ids=_HALTS)
async def test_a_tick_that_waits_for_a_halt_opens_no_door(
    pool: Pool, patient_pool: Pool, lock: str, change: str
) -> None:
    bench = await postgres_tick_bench(pool, patient_pool)
    await bench.accept()
    request = await bench.request()
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(lock)
        ticking: asyncio.Future[TickResult] = await still_waits(pool, bench.tick(doors=[request]))
        await connection.execute(change)
    result = await ticking
    assert (result.opened, result.long_way) == ([], {bench.account.account_id: "OTHER_EPOCH"})


# ---- long histories


@dataclass(frozen=True, slots=True)
class OneConnection:
    """A pool whose only connection is in a transaction."""

    connection: Any

    async def acquire(self, timeout: float) -> Any:
        del timeout
        return self.connection

    async def release(self, connection: Any) -> None:
        del connection


async def count_read(connection: Any) -> int:
    await connection.execute("reset role")
    read = await connection.fetchval(_READ)
    await connection.execute(f"set role {Role.EXECUTOR}")
    return int(read)


async def rows_read(bench: TickBench, connection: Any) -> int:
    """Of a tick with an answer, a fill and a door."""
    await bench.accept()
    opened = await bench.sent()
    await bench.accept()
    unit = bench.of(opened, Accepted("b"), filled(opened, replace(an_execution(1, 1), execution_id=str(uuid4()))))
    request = await bench.request(2)
    async with connection.transaction():
        # What is counted may be of earlier transactions too.
        before = await count_read(connection)
        held = replace(bench, ticks=PostgresTickStore(cast("Pool", OneConnection(connection))))
        result = await held.tick([unit], [request])
        assert (result.written, len(result.opened)) == ([True], 2)
        return await count_read(connection) - before


async def lengthen(bench: TickBench) -> None:
    """Give the account a history: more than a thousand orders that are done."""
    assert isinstance(bench.database, PostgresDatabase)
    for _ in range(20):
        await accept(bench.database.pool, *(bench.database.tenant.submission() for _ in range(64)))
        opened = (await bench.tick(doors=[await bench.request(64)])).opened
        fills = [replace(an_execution(1, 10), execution_id=str(uuid4())) for _ in opened]
        units = [
            bench.of(each, Accepted("b"), filled(each, fill, status=ReportStatus.FILLED))
            for each, fill in zip(opened, fills, strict=True)
        ]
        assert all((await bench.tick(units)).written)


async def test_a_tick_reads_as_little_of_a_long_history_as_of_a_short_one(pool: Pool, ours: TickBench) -> None:
    assert isinstance(ours.ticks, PostgresTickStore)
    async with ours.ticks.pool.acquire() as connection:
        await rows_read(ours, connection)
        await lengthen(ours)
        await pool.execute("vacuum analyze")
        # Each time a few more are past their doors.
        assert max([await rows_read(ours, connection) for _ in range(7)]) < 100


async def test_a_tick_reads_little_of_a_long_history_with_plans_made_while_there_was_none(ours: TickBench) -> None:
    assert isinstance(ours.ticks, PostgresTickStore)
    async with ours.ticks.pool.acquire() as connection:
        # Often enough that the plans are kept.
        for _ in range(8):
            await rows_read(ours, connection)
        await lengthen(ours)
        assert await rows_read(ours, connection) < 200

"""Events are kept for a time: the oldest go first, by nobody's hand but one, and no reader meets a hole."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.events.event_pruning import ROWS_MAX, PruneEvents
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.postgres.operators.backup_check import check_backup
from openbell_server.domain.controls.halts import no_working_orders
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_limit_create, a_report, a_tenant, accept
from support.history.pruning import prune_at_any_age
from support.tenancy.halts import Switchboard
from support.tenancy.statements import Owner

DAY_SECONDS = 86_400.0


@pytest.fixture(autouse=True)
async def at_any_age(pool: Pool) -> None:
    await prune_at_any_age(pool)


async def age(pool: Pool, account_id: AccountId, days: int, up_to: int) -> None:
    """As if the first events had happened so many days earlier."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("alter table account_events disable trigger append_only")
        await connection.execute(
            "update account_events set occurred_at = occurred_at - make_interval(days => $1)"
            " where account_id = $2 and event_no <= $3",
            *(days, account_id, up_to),
        )
        await connection.execute("alter table account_events enable trigger append_only")


async def some_events(pool: Pool, tenant: Tenant, count: int) -> None:
    for start in range(0, count, 100):
        await accept(pool, *(tenant.submission() for _ in range(min(100, count - start))))


async def kept(pool: Pool, account_id: AccountId) -> list[int]:
    """The numbers that are there, which are those from the floor to the newest."""
    numbers = [
        row["event_no"]
        for row in await pool.fetch(
            "select event_no from account_events where account_id = $1 order by event_no", account_id
        )
    ]
    row = await pool.fetchrow("select event_floor, event_no from account_counters where account_id = $1", account_id)
    assert row is not None
    assert numbers == list(range(row["event_floor"] + 1, row["event_no"] + 1))
    return numbers


async def prune_all(pool: Pool, keep_seconds: float = 0.0) -> int:
    prune, removed = PruneEvents(pool, keep_seconds), 0
    while (gone := await prune.across_organizations()) is not None:
        removed += gone
    return removed


async def test_events_that_were_kept_for_long_enough_go_and_the_others_stay(pool: Pool, login_pool: Pool) -> None:
    tenant, other = await a_tenant(pool), await a_tenant(pool)
    await some_events(pool, tenant, 10)
    await some_events(pool, other, 3)
    await age(pool, tenant.account.id, 31, up_to=6)
    assert await prune_all(login_pool, 30 * DAY_SECONDS) == 6
    assert await kept(pool, tenant.account.id) == [7, 8, 9, 10]
    assert await kept(pool, other.account.id) == [1, 2, 3]
    assert await prune_all(login_pool, 30 * DAY_SECONDS) == 0


async def test_an_old_event_behind_a_young_one_waits_for_it(pool: Pool) -> None:
    """A clock that was set back leaves such; what is kept has no hole all the same."""
    tenant = await a_tenant(pool)
    await some_events(pool, tenant, 5)
    await age(pool, tenant.account.id, 31, up_to=5)
    await age(pool, tenant.account.id, -31, up_to=3)
    await age(pool, tenant.account.id, 31, up_to=2)
    assert await prune_all(pool, 30 * DAY_SECONDS) == 2
    assert await kept(pool, tenant.account.id) == [3, 4, 5]


async def test_accounts_take_turns_and_a_turn_is_bounded(pool: Pool) -> None:
    tenants = [await a_tenant(pool) for _ in range(2)]
    for tenant in tenants:
        await some_events(pool, tenant, ROWS_MAX + 1)
    prune = PruneEvents(pool, 0.0)
    assert [await prune.across_organizations() for _ in range(7)] == [ROWS_MAX, ROWS_MAX, 0, 1, 1, 0, None]


async def test_the_log_goes_on_behind_a_floor_that_is_its_head(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    await some_events(pool, tenant, 3)
    assert await prune_all(pool) == 3
    assert await kept(pool, tenant.account.id) == []
    await some_events(pool, tenant, 2)
    assert await kept(pool, tenant.account.id) == [4, 5]


CHANGES = (
    "delete from account_events where event_no <= 2",
    "delete from account_events where event_no = 3",
    "update account_events set body = null",
    "truncate account_events",
)


@pytest.mark.parametrize("role", ["none", *Role, "openbell_writer"])
async def test_nothing_but_pruning_removes_or_changes_an_event(pool: Pool, owner: Owner, role: str) -> None:
    tenant = await a_tenant(pool)
    await some_events(pool, tenant, 4)
    await pool.execute("update account_counters set event_floor = 2")
    done = {}
    for change in CHANGES:
        undone = owner.transaction()
        await undone.start()
        await owner.execute(
            f"set local openbell.organization_id = '{tenant.account.organization_id}'; set local role {role}"
        )
        try:
            done[change] = await owner.execute(change)
        except asyncpg.PostgresError as error:
            done[change] = error.sqlstate
        await undone.rollback()
    # Pruning has the writer's rights, whom nobody acts as; even these end at the floor.
    assert done[CHANGES[0]] == ("DELETE 2" if role == "openbell_writer" else done[CHANGES[1]])
    # Append-only, or no such right.
    assert {done[change] for change in CHANGES[1:]} <= {"OB001", "42501"}


async def test_a_reader_beside_pruning_and_writing_meets_no_hole(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    where = (tenant.account.organization_id, tenant.account.id)
    store, done = PostgresEventStore(pool), asyncio.Event()
    await some_events(pool, tenant, 600)

    async def prune() -> None:
        turns = PruneEvents(pool, 0.05)
        while not done.is_set():
            await turns.across_organizations()

    async def read() -> list[int]:
        position, gaps = 0, []
        while not (done.is_set() and position == await pool.fetchval("select event_no from account_counters")):
            page = await store.read_after(*where, position, 50)
            numbers = [event.number for event in page]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
            floor = await pool.fetchval("select event_floor from account_counters")
            if numbers and numbers[0] != position + 1:
                assert numbers[0] <= floor + 1
                gaps.append(numbers[0] - position - 1)
            # Nothing is left, or nothing was there yet.
            position = numbers[-1] if numbers else max(position, floor)
        return gaps

    async def write() -> None:
        for _ in range(40):
            await accept(pool, *(tenant.submission() for _ in range(10)))

    others = [asyncio.ensure_future(each) for each in (prune(), read(), read())]
    await asyncio.gather(write(), write())
    done.set()
    await asyncio.gather(*others)
    assert await pool.fetchval("select event_floor from account_counters") > 0
    await kept(pool, tenant.account.id)


async def test_the_check_of_a_backup_knows_the_floor(pool: Pool, database: str) -> None:
    tenant, other = await a_tenant(pool), await a_tenant(pool)
    await some_events(pool, tenant, 5)
    await some_events(pool, other, 2)
    await age(pool, tenant.account.id, 31, up_to=3)
    await prune_all(pool, 30 * DAY_SECONDS)
    report = await check_backup(database)
    assert (report.is_whole, report.sizes["events"]) == (True, 4)
    for damage in ("delete from account_events where event_no = 4", "update account_counters set event_floor = 0"):
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(f"set local session_replication_role = replica; {damage}")
        assert not (await check_backup(database)).is_whole, damage


async def test_a_halt_report_says_the_same_when_the_log_no_longer_goes_back_to_the_halt(pool: Pool) -> None:
    board = Switchboard(Harness(pool, await a_tenant(pool)))
    harness, account = board.harness, board.harness.tenant.account
    _, order_id = await harness.working()
    await harness.accept(a_limit_create())
    (flying,) = await harness.open_doors()
    await board.halt()
    await board.sweep()
    await harness.accept(a_limit_create())
    # Cancels go alone.
    await harness.work()
    await harness.work()
    await harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    await harness.reconcile()
    (before,) = await board.reports()
    figures, in_flight = before.figures, before.in_flight
    assert (figures.cancels_confirmed, figures.skipped, [each.action_id for each in in_flight]) == (
        1,
        1,
        [flying.action.action_id],
    )
    assert await prune_all(pool) > 5
    (after,) = await board.reports()
    assert before.account is not None
    assert after == replace(before, account=after.account)
    assert after.account is not None
    assert no_working_orders(after.account.quietness) == no_working_orders(before.account.quietness)
    async with transaction(pool, Role.TENANT, account.organization_id) as connection:
        floor_at = await connection.fetchval("select event_floor_at from account_counters")
    assert after.account.quietness.last_event_at == floor_at
    await board.resume()
    (lifted,) = await board.reports()
    assert (lifted.figures, lifted.in_flight, lifted.account) == (before.figures, before.in_flight, None)

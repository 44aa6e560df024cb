"""What is stored of balances, as PostgreSQL and the simulation's memory both do it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from openbell_server.domain.money.balances import Balances
from support.environment.store_benches import Bench

SLOTS = range(64)


def some_balances(cash: str = "-12.345678901234567890", ago: float = 1.0) -> Balances:
    return Balances(
        currency="USD",
        cash=Decimal(cash),
        equity=Decimal("1000000000000.01"),
        maintenance_margin=Decimal(0),
        as_of=datetime.now(UTC) - timedelta(seconds=ago),
    )


async def saved(bench: Bench, balances: Balances) -> bool:
    async with bench.store.account_transaction(bench.account) as transaction:
        return await transaction.save_balances(balances)


async def test_an_account_has_no_balances_before_the_first(bench: Bench) -> None:
    async with bench.store.account_transaction(bench.account) as transaction:
        assert await transaction.balances() is None
    assert await bench.database.read_balances(bench.account) is None


async def test_balances_are_stored_exactly(bench: Bench) -> None:
    balances = some_balances()
    assert await saved(bench, balances)
    async with bench.store.account_transaction(bench.account) as transaction:
        assert await transaction.balances() == balances
    stored = await bench.database.read_balances(bench.account)
    assert stored is not None
    assert stored.balances == balances
    assert balances.as_of < stored.read_at


async def test_older_balances_change_nothing(bench: Bench) -> None:
    newest = some_balances(ago=1.0)
    assert await saved(bench, newest)
    assert not await saved(bench, some_balances("1", ago=2.0))
    async with bench.store.account_transaction(bench.account) as transaction:
        assert await transaction.balances() == newest


async def test_balances_of_a_fast_clock_block_no_others(bench: Bench) -> None:
    assert await saved(bench, some_balances(ago=-3600.0))
    later = replace(some_balances("1"), as_of=datetime.now(UTC) + timedelta(seconds=5))
    assert await saved(bench, later)
    async with bench.store.account_transaction(bench.account) as transaction:
        kept = await transaction.balances()
    assert kept is not None
    assert kept.cash == 1
    assert kept.as_of < later.as_of


async def test_balances_that_somebody_reads_are_due_when_they_are_missing_or_old(bench: Bench) -> None:
    async def due(slots: range = SLOTS) -> list[object]:
        return [*await bench.store.accounts_with_old_balances_across_organizations(slots, 30.0)]

    assert await due() == []
    await bench.database.read_balances(bench.account)
    assert await due() == [bench.account]
    assert await due(range(bench.account.slot)) == []
    await saved(bench, some_balances())
    assert await due() == []
    await bench.database.make_balances_older(bench.account, 31.0)
    assert await due() == [bench.account]


async def test_balances_that_nobody_reads_any_more_are_not_due(bench: Bench) -> None:
    await bench.database.read_balances(bench.account, ago=601.0)
    assert await bench.store.accounts_with_old_balances_across_organizations(SLOTS, 30.0) == []


async def test_missing_balances_are_due_before_old_ones(bench: Bench) -> None:
    other = await bench.database.another_account()
    await bench.database.read_balances(bench.account)
    await saved(bench, some_balances())
    await bench.database.make_balances_older(bench.account, 31.0)
    await bench.database.read_balances(other)
    due = await bench.store.accounts_with_old_balances_across_organizations(SLOTS, 30.0)
    assert due == [other, bench.account]

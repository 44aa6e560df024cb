"""Executors read balances from brokers after fills and reconciliations, and while somebody reads an account's."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.money.balances import PostgresBalanceStore
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.application.execution.broker_budget import BrokerBudget, BudgetedSession
from openbell_server.application.money.refresh_balances import (
    ACCOUNTS_AT_ONCE_MAX,
    ASK_SECONDS,
    MOVED_MAX,
    RETRY_SECONDS,
    SPACING_SECONDS,
    STALE_SECONDS,
    RefreshBalances,
)
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import NotSignedIn, QueryFailed
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.money.balances import Balances, StoredBalances
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.execution_harness import Clock, NothingToSignIn
from support.brokers.scripted_broker import Harness, ScriptedBroker, until_so
from support.builders.tenant import a_report, a_tenant, an_account, an_execution


@dataclass(slots=True)
class SomePend(NothingToSignIn):
    """Who is not signed in yet."""

    pending: set[AccountId] = field(default_factory=set)

    def is_pending(self, account_id: AccountId) -> bool:
        return account_id in self.pending


@dataclass(slots=True)
class SlowBroker(ScriptedBroker):
    """Its answers wait, or cost time."""

    waits: Callable[[], None] = lambda: None
    at_once: int = 0
    at_once_max: int = 0

    async def balances(self, account_id: AccountId) -> Balances:
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        self.waits()
        await asyncio.sleep(0)
        self.at_once -= 1
        return await ScriptedBroker.balances(self, account_id)


@dataclass(slots=True)
class Keeping:
    """An executor of all slots."""

    harness: Harness
    refresh: RefreshBalances
    sign_ins: SomePend
    clock: Clock

    async def read(self) -> StoredBalances | None:
        """As a caller does, by a process that starts now."""
        account = self.harness.account
        store = PostgresBalanceStore(self.harness.pool)
        return await store.read_balances(account.organization_id, account.account_id)

    async def sweep(self, seconds: float = 0.0) -> int:
        """How often the broker was asked, so many seconds later."""
        self.clock.seconds += seconds
        if seconds:
            change = "update account_balances set read_at = read_at - $1 * interval '1 second'"
            await self.harness.pool.execute(change, seconds)
        self.harness.broker.balances_asked.clear()
        await self.refresh.sweep()
        return len(self.harness.broker.balances_asked)

    def tell(self, cash: str, **other: str) -> None:
        amounts = {name: Decimal(amount) for name, amount in other.items()}
        self.harness.broker.money[self.harness.account.account_id] = Balances(
            currency="USD", cash=Decimal(cash), as_of=datetime.now(UTC), **amounts
        )

    def move(self) -> None:
        self.refresh.moved[self.harness.account.account_id] = self.harness.account

    async def logged(self) -> list[dict[str, Any]]:
        rows = await self.harness.pool.fetch(
            "select body from account_events where kind = $1 order by event_no", EventKind.BALANCES_CHANGED
        )
        return [json.loads(row["body"]) for row in rows]


@pytest.fixture
async def keeping(pool: Pool) -> Keeping:
    return await a_keeping(Harness(pool, await a_tenant(pool)))


async def a_keeping(harness: Harness) -> Keeping:
    sign_ins, slots, clock = SomePend(), await harness.all_slots(), Clock()
    session = BudgetedSession(harness.broker, BrokerBudget(PAPER.capabilities, clock))
    refresh = RefreshBalances(
        PostgresExecutionStore(harness.pool), {"paper": session}, sign_ins, slots, harness.hints, clock
    )
    return Keeping(harness, refresh, sign_ins, clock)


async def test_balances_that_somebody_reads_are_there_with_the_next_sweep_and_every_30_seconds(
    keeping: Keeping,
) -> None:
    keeping.tell("1000", equity="1500.25", buying_power="3000")
    assert await keeping.sweep() == 0
    assert await keeping.read() is None
    assert await keeping.sweep() == 1
    stored = await keeping.read()
    assert stored is not None
    told = keeping.harness.broker.money[keeping.harness.account.account_id]
    assert stored.balances == told
    assert await keeping.sweep(STALE_SECONDS - 1) == 0
    assert await keeping.sweep(2) == 1


async def test_balances_that_nobody_reads_are_not_kept_fresh(keeping: Keeping) -> None:
    keeping.tell("1000")
    await keeping.read()
    assert await keeping.sweep() == 1
    await keeping.harness.pool.execute("update wanted_balances set wanted_at = now() - interval '11 minutes'")
    assert await keeping.sweep(STALE_SECONDS + 1) == 0


async def test_the_log_has_the_first_balances_and_each_change_of_cash_or_currency(keeping: Keeping) -> None:
    keeping.tell("1000", equity="1500.25")
    for _ in range(2):
        keeping.move()
        await keeping.sweep(SPACING_SECONDS)
    (first,) = await keeping.logged()
    told = keeping.harness.broker.money[keeping.harness.account.account_id]
    assert isinstance(told, Balances)
    assert first == {
        "currency": "USD",
        "cash": "1000",
        "equity": "1500.25",
        "buying_power": None,
        "initial_margin": None,
        "maintenance_margin": None,
        "as_of": told.as_of.isoformat(),
    }
    assert keeping.harness.hints.accounts == [keeping.harness.account.account_id]
    # A price moved.
    keeping.tell("1000", equity="1600")
    keeping.move()
    await keeping.sweep(SPACING_SECONDS)
    stored = await keeping.read()
    assert stored is not None
    assert stored.balances.equity == 1600
    assert len(await keeping.logged()) == 1
    keeping.tell("900.5", equity="1600")
    keeping.move()
    await keeping.sweep(SPACING_SECONDS)
    in_euros = replace(told, currency="EUR", cash=Decimal("900.5"), as_of=datetime.now(UTC))
    keeping.harness.broker.money[keeping.harness.account.account_id] = in_euros
    keeping.move()
    await keeping.sweep(SPACING_SECONDS)
    assert [(body["currency"], body["cash"]) for body in await keeping.logged()] == [
        ("USD", "1000"),
        ("USD", "900.5"),
        ("EUR", "900.5"),
    ]


async def test_a_fill_that_the_feed_reports_is_followed_by_a_read(keeping: Keeping) -> None:
    harness = keeping.harness
    keeping.tell("1000")
    async with harness.following(keeping.refresh.slots) as follow:
        keeping.refresh.moved = follow.track.moved
        await until_so(lambda: follow.ready(harness.account))
        _, order_id = await harness.working()
        report = a_report(ReportStatus.WORKING, client_order_id=order_id)
        harness.broker.feed.put_nowait((harness.account.account_id, report))
        await harness.broker.feed.join()
        assert await keeping.sweep() == 0
        filled = a_report(ReportStatus.WORKING, [an_execution(1, 2)], client_order_id=order_id)
        harness.broker.feed.put_nowait((harness.account.account_id, filled))
        await until_so(lambda: bool(follow.track.moved))
    assert await keeping.sweep() == 1
    assert await keeping.sweep() == 0


async def test_many_fills_are_followed_by_a_read_every_few_seconds(keeping: Keeping) -> None:
    keeping.tell("1000")
    asked = []
    for _ in range(7):
        keeping.move()
        asked.append(await keeping.sweep(1.0))
    assert asked == [1, 0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize("held", [{}, None])
async def test_a_reconciliation_that_read_positions_is_followed_by_a_read(
    keeping: Keeping, held: dict[str, Decimal] | None
) -> None:
    harness = keeping.harness
    keeping.tell("1000")
    harness.broker.holdings = held
    async with harness.following(keeping.refresh.slots) as follow:
        keeping.refresh.moved = follow.track.moved
        follow.compare_soon(harness.account)
        await until_so(lambda: follow.reconcile.counts["passes"] > 0)
    assert await keeping.sweep() == (held is not None)


async def test_a_failed_read_is_counted_and_repeated_after_a_while(keeping: Keeping) -> None:
    account_id = keeping.harness.account.account_id
    keeping.harness.broker.money[account_id] = QueryFailed("no")
    keeping.move()
    assert await keeping.sweep() == 1
    assert keeping.refresh.failures == {("paper", "QueryFailed"): 1}
    keeping.tell("1000")
    assert await keeping.sweep(RETRY_SECONDS - 1) == 0
    assert await keeping.sweep(2) == 1
    assert [body["cash"] for body in await keeping.logged()] == ["1000"]


async def test_an_account_that_is_not_signed_in_is_no_failure(keeping: Keeping) -> None:
    account_id = keeping.harness.account.account_id
    keeping.tell("1000")
    await keeping.read()
    keeping.sign_ins.pending.add(account_id)
    assert await keeping.sweep() == 0
    keeping.sign_ins.pending.clear()
    keeping.harness.broker.money[account_id] = NotSignedIn("no")
    assert await keeping.sweep() == 1
    assert not keeping.refresh.failures


async def test_an_account_of_another_executor_is_not_read(keeping: Keeping) -> None:
    keeping.tell("1000")
    await keeping.read()
    keeping.move()
    await keeping.refresh.slots.release()
    assert await keeping.sweep() == 0
    assert not keeping.refresh.moved


async def test_an_account_on_hold_keeps_nothing(keeping: Keeping) -> None:
    keeping.tell("1000")
    keeping.move()
    await PostgresRecoveryStore(keeping.harness.pool).hold()
    assert await keeping.sweep() == 1
    assert await keeping.read() is None
    assert await keeping.logged() == []


async def slow_keeping(pool: Pool) -> tuple[Keeping, SlowBroker, list[BrokerAccount]]:
    """An executor with more accounts than one sweep reads."""
    tenant, broker = await a_tenant(pool), SlowBroker()
    keeping = await a_keeping(Harness(pool, tenant, broker))
    accounts = [await an_account(pool, tenant.account.organization_id) for _ in range(MOVED_MAX + 2)]
    moved = [BrokerAccount(each.organization_id, each.id, each.broker, each.slot) for each in accounts]
    for account in moved:
        broker.money[account.account_id] = Balances(currency="USD", as_of=datetime.now(UTC))
        keeping.refresh.moved[account.account_id] = account
    return keeping, broker, moved


async def test_a_sweep_after_fills_reads_few_accounts_and_the_next_one_others(pool: Pool) -> None:
    keeping, broker, _ = await slow_keeping(pool)
    assert await keeping.sweep() == MOVED_MAX
    assert broker.at_once_max <= ACCOUNTS_AT_ONCE_MAX
    assert await keeping.sweep() == 2
    assert await keeping.sweep() == 0


async def test_a_sweep_reads_all_accounts_that_somebody_reads(pool: Pool) -> None:
    keeping, broker, accounts = await slow_keeping(pool)
    keeping.refresh.moved.clear()
    for account in accounts:
        await PostgresBalanceStore(pool).read_balances(account.organization_id, account.account_id)
    assert await keeping.sweep() == len(accounts)
    assert broker.at_once_max <= ACCOUNTS_AT_ONCE_MAX


async def test_a_slow_broker_ends_its_sweep_and_the_accounts_wait(pool: Pool) -> None:
    keeping, broker, _ = await slow_keeping(pool)

    def wait() -> None:
        keeping.clock.seconds += ASK_SECONDS

    broker.waits = wait
    assert await keeping.sweep() <= ACCOUNTS_AT_ONCE_MAX
    broker.waits = lambda: None
    assert await keeping.sweep() == MOVED_MAX

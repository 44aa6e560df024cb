"""What an account holds is its fills, and what its broker says beyond them."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.operators.backup_check import check_backup
from openbell_server.application.execution.reconcile_account import ReconcileAccount, ReconciliationResult
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import ReportStatus, Unknown
from openbell_server.domain.orders.positions import PositionCause
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_market_create, a_report, a_tenant, an_execution, described

FILLED = ReportStatus.FILLED
AAPL = Symbol("AAPL")


@pytest.fixture
async def harness(pool: Pool) -> Harness:
    made = Harness(pool, await a_tenant(pool))
    made.broker.holdings = {}
    return made


class Comparing:
    """One executor that compares the account, at a broker whose two books may be so far apart."""

    def __init__(self, harness: Harness, lag_seconds: float = 0.0) -> None:
        self._harness = harness
        self._reconcile = ReconcileAccount(PostgresExecutionStore(harness.pool), harness.track)
        self._capabilities = replace(PAPER.capabilities, settle_seconds=lag_seconds)

    async def __call__(self) -> ReconciliationResult:
        return await self._reconcile(self._harness.account, self._harness.broker, self._capabilities)


async def positions(harness: Harness) -> dict[str, Decimal]:
    rows = await harness.pool.fetch("select symbol, quantity from positions")
    return {row["symbol"]: row["quantity"] for row in rows}


async def changes(harness: Harness) -> list[tuple[Any, ...]]:
    rows = await harness.pool.fetch(
        "select symbol, change, value, average_price from position_changes order by change_no"
    )
    return [tuple(row) for row in rows]


async def is_heard(harness: Harness) -> bool:
    return await harness.pool.fetchval("select positions_as_of from account_counters") is not None


async def adjustments(harness: Harness) -> list[dict[str, Any]]:
    rows = await harness.pool.fetch(
        "select body from account_events where kind = $1 order by event_no", EventKind.POSITION_ADJUSTED
    )
    return [json.loads(row["body"]) for row in rows]


async def filled(harness: Harness) -> str:
    """An order of ten that is filled, and its client order id."""
    await harness.accept(a_market_create())
    (door,) = await harness.work()
    order_id = client_order_id(door.action.action_id)
    report = described(a_report(FILLED, [an_execution(1, 10)], client_order_id=order_id))
    harness.broker.book[order_id] = report
    await harness.report(report)
    return order_id


async def test_what_an_account_held_before_is_taken_over_when_it_was_told_twice(
    harness: Harness, database: str
) -> None:
    compare = Comparing(harness)
    harness.broker.holdings = {"AAPL": Decimal(5), "MSFT": Decimal("-2.5")}
    harness.broker.averages = {"AAPL": Decimal("187.450")}
    assert (await compare()).differs
    assert (await positions(harness), await is_heard(harness)) == ({}, False)
    assert not (await compare()).differs
    assert await positions(harness) == {"AAPL": Decimal(5), "MSFT": Decimal("-2.5")}
    assert await is_heard(harness)
    assert await adjustments(harness) == [
        {"symbol": "AAPL", "before": "0", "after": "5", "cause": "OPENING", "average_price": "187.450"},
        {"symbol": "MSFT", "before": "0", "after": "-2.5", "cause": "OPENING", "average_price": None},
    ]
    assert await changes(harness) == [
        ("AAPL", 5, None, Decimal("187.45")),
        ("MSFT", Decimal("-2.5"), None, None),
    ]
    assert (await check_backup(database)).is_whole


async def test_an_account_that_holds_what_it_filled_is_not_adjusted(harness: Harness) -> None:
    await filled(harness)
    harness.broker.holdings = {"AAPL": Decimal(10)}
    assert not (await Comparing(harness)()).differs
    assert (await adjustments(harness), await is_heard(harness)) == ([], True)


async def test_a_difference_that_nobody_explains_is_told_and_counted(harness: Harness, database: str) -> None:
    compare = Comparing(harness)
    await filled(harness)
    harness.broker.holdings = {"AAPL": Decimal(10)}
    await compare()
    # A split of two for one.
    harness.broker.holdings = {"AAPL": Decimal(20)}
    harness.broker.averages = {"AAPL": Decimal("0.5")}
    await compare()
    await compare()
    (split,) = await adjustments(harness)
    told = {"symbol": "AAPL", "before": "10", "after": "20", "cause": "UNEXPLAINED", "average_price": "0.5"}
    assert split == told
    # And all of it was moved elsewhere.
    harness.broker.holdings = {}
    await compare()
    await compare()
    assert await positions(harness) == {"AAPL": Decimal(0)}
    assert await harness.pool.fetchval("select count(*) from executions") == 1
    assert (await check_backup(database)).is_whole


async def test_a_difference_that_passes_is_none(harness: Harness) -> None:
    compare = Comparing(harness)
    await filled(harness)
    harness.broker.holdings = {}
    assert (await compare()).differs
    harness.broker.holdings = {"AAPL": Decimal(4)}
    assert (await compare()).differs
    harness.broker.holdings = {"AAPL": Decimal(10)}
    assert not (await compare()).differs
    assert await adjustments(harness) == []


async def test_a_difference_that_is_younger_than_the_broker_may_lag_is_left(harness: Harness) -> None:
    compare = Comparing(harness, lag_seconds=3600)
    harness.broker.holdings = {"AAPL": Decimal(5)}
    for _ in range(3):
        assert (await compare()).differs
    assert (await positions(harness), await is_heard(harness)) == ({}, False)


async def test_a_fill_while_the_broker_is_asked_is_no_difference(harness: Harness) -> None:
    """The list tells of a fill that the positions before it have not."""
    compare = Comparing(harness)
    await harness.accept(a_market_create())
    (door,) = await harness.work()
    order_id = client_order_id(door.action.action_id)
    harness.broker.book[order_id] = described(a_report(FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert (await compare()).differs
    harness.broker.holdings = {"AAPL": Decimal(10)}
    assert not (await compare()).differs
    assert (await positions(harness), await adjustments(harness)) == ({"AAPL": Decimal(10)}, [])


async def test_a_symbol_with_an_order_in_doubt_is_left_as_it_is(harness: Harness) -> None:
    compare = Comparing(harness)
    harness.broker.script.append(Unknown("no answer"))
    await harness.accept(a_market_create())
    await harness.work()
    harness.broker.holdings = {"AAPL": Decimal(10), "MSFT": Decimal(1)}
    await compare()
    assert (await compare()).differs
    assert (await positions(harness), await is_heard(harness)) == ({"MSFT": Decimal(1)}, False)


async def test_a_broker_that_does_not_say_what_it_holds_is_compared_all_the_same(harness: Harness) -> None:
    harness.broker.holdings = None
    await filled(harness)
    result = await Comparing(harness)()
    assert (result.is_complete, result.differs, await is_heard(harness)) == (True, False, False)
    assert await positions(harness) == {"AAPL": 10}


async def test_an_account_with_a_rule_is_asked_about_until_its_broker_says_what_it_holds(
    harness: Harness,
) -> None:
    store = PostgresExecutionStore(harness.pool)

    async def untold() -> list[BrokerAccount]:
        slots = range(64)
        assert await store.accounts_without_positions_across_organizations("another", slots) == []
        return await store.accounts_without_positions_across_organizations("paper", slots)

    assert await untold() == []
    await harness.pool.execute(
        "insert into control_rules (organization_id, scope, subject, code, terms, created_at, updated_at,"
        " principal_type, principal_id)"
        " values ($1, 'ORGANIZATION', '', 'POSITION_MAX', '{}', now(), now(), 'USER', 'u')",
        harness.account.organization_id,
    )
    assert await untold() == [harness.account]
    await Comparing(harness)()
    assert await untold() == []


async def test_nothing_is_taken_over_while_an_order_is_missing(harness: Harness) -> None:
    compare = Comparing(harness)
    await harness.working()
    harness.broker.holdings = {"AAPL": Decimal(10)}
    assert not (await compare()).is_complete
    assert not (await compare()).is_complete
    assert (await positions(harness), await is_heard(harness)) == ({}, False)


async def test_an_adjustment_stays_as_it_was_written(harness: Harness) -> None:
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as transaction:
        await transaction.add_to_position(AAPL, Decimal(1), PositionCause.OPENING)
    with pytest.raises(asyncpg.PostgresError, match="append-only"):
        await harness.pool.execute("update position_changes set change = 2")

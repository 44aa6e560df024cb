"""What an account holds is its fills, and what its broker says beyond them."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from builders import a_market_create, a_report, a_tenant, an_execution, described
from openbell_server.adapters.postgres.backup import check_backup
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution import PostgresExecutionStore
from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.application.reconcile_account import Pass, ReconcileAccount
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.account_events import EventKind
from openbell_server.domain.broker_orders import ReportStatus, Unknown
from openbell_server.domain.identifiers import Symbol, client_order_id
from scripted_broker import Desk

FILLED = ReportStatus.FILLED
AAPL = Symbol("AAPL")


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    made = Desk(pool, await a_tenant(pool))
    made.broker.holdings = {}
    return made


class Comparing:
    """One executor that compares the account, at a broker whose two books may be so far apart."""

    def __init__(self, desk: Desk, lag_seconds: float = 0.0) -> None:
        self._desk = desk
        self._reconcile = ReconcileAccount(PostgresExecutionStore(desk.pool), desk.track)
        self._capabilities = replace(PAPER.capabilities, settle_seconds=lag_seconds)

    async def __call__(self) -> Pass:
        return await self._reconcile(self._desk.account, self._desk.broker, self._capabilities)


async def positions(desk: Desk) -> dict[str, Decimal]:
    rows = await desk.pool.fetch("select symbol, quantity from positions")
    return {row["symbol"]: row["quantity"] for row in rows}


async def is_heard(desk: Desk) -> bool:
    return await desk.pool.fetchval("select positions_as_of from account_counters") is not None


async def adjustments(desk: Desk) -> list[dict[str, Any]]:
    rows = await desk.pool.fetch(
        "select body from account_events where kind = $1 order by event_no", EventKind.POSITION_ADJUSTED
    )
    return [json.loads(row["body"]) for row in rows]


async def filled(desk: Desk) -> str:
    """An order of ten that is filled, and its client order id."""
    await desk.accept(a_market_create())
    (door,) = await desk.work()
    order_id = client_order_id(door.action.action_id)
    report = described(a_report(FILLED, [an_execution(1, 10)], client_order_id=order_id))
    desk.broker.book[order_id] = report
    await desk.report(report)
    return order_id


async def test_what_an_account_held_before_is_taken_over_when_it_was_told_twice(desk: Desk, database: str) -> None:
    compare = Comparing(desk)
    desk.broker.holdings = {"AAPL": Decimal(5), "MSFT": Decimal("-2.5")}
    assert (await compare()).differs
    assert (await positions(desk), await is_heard(desk)) == ({}, False)
    assert not (await compare()).differs
    assert await positions(desk) == {"AAPL": Decimal(5), "MSFT": Decimal("-2.5")}
    assert await is_heard(desk)
    assert await adjustments(desk) == [
        {"symbol": "AAPL", "before": "0", "after": "5", "cause": "OPENING"},
        {"symbol": "MSFT", "before": "0", "after": "-2.5", "cause": "OPENING"},
    ]
    assert (await check_backup(database)).is_whole


async def test_an_account_that_holds_what_it_filled_is_not_adjusted(desk: Desk) -> None:
    await filled(desk)
    desk.broker.holdings = {"AAPL": Decimal(10)}
    assert not (await Comparing(desk)()).differs
    assert (await adjustments(desk), await is_heard(desk)) == ([], True)


async def test_a_difference_that_nobody_explains_is_told_and_counted(desk: Desk, database: str) -> None:
    compare = Comparing(desk)
    await filled(desk)
    desk.broker.holdings = {"AAPL": Decimal(10)}
    await compare()
    # A split of two for one.
    desk.broker.holdings = {"AAPL": Decimal(20)}
    await compare()
    await compare()
    assert await adjustments(desk) == [{"symbol": "AAPL", "before": "10", "after": "20", "cause": "UNEXPLAINED"}]
    # And all of it was moved elsewhere.
    desk.broker.holdings = {}
    await compare()
    await compare()
    assert await positions(desk) == {"AAPL": Decimal(0)}
    assert await desk.pool.fetchval("select count(*) from executions") == 1
    assert (await check_backup(database)).is_whole


async def test_a_difference_that_passes_is_none(desk: Desk) -> None:
    compare = Comparing(desk)
    await filled(desk)
    desk.broker.holdings = {}
    assert (await compare()).differs
    desk.broker.holdings = {"AAPL": Decimal(4)}
    assert (await compare()).differs
    desk.broker.holdings = {"AAPL": Decimal(10)}
    assert not (await compare()).differs
    assert await adjustments(desk) == []


async def test_a_difference_that_is_younger_than_the_broker_may_lag_is_left(desk: Desk) -> None:
    compare = Comparing(desk, lag_seconds=3600)
    desk.broker.holdings = {"AAPL": Decimal(5)}
    for _ in range(3):
        assert (await compare()).differs
    assert (await positions(desk), await is_heard(desk)) == ({}, False)


async def test_a_fill_while_the_broker_is_asked_is_no_difference(desk: Desk) -> None:
    """The list tells of a fill that the positions before it have not."""
    compare = Comparing(desk)
    await desk.accept(a_market_create())
    (door,) = await desk.work()
    order_id = client_order_id(door.action.action_id)
    desk.broker.book[order_id] = described(a_report(FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert (await compare()).differs
    desk.broker.holdings = {"AAPL": Decimal(10)}
    assert not (await compare()).differs
    assert (await positions(desk), await adjustments(desk)) == ({"AAPL": Decimal(10)}, [])


async def test_a_symbol_with_an_order_in_doubt_is_left_as_it_is(desk: Desk) -> None:
    compare = Comparing(desk)
    desk.broker.script.append(Unknown("no answer"))
    await desk.accept(a_market_create())
    await desk.work()
    desk.broker.holdings = {"AAPL": Decimal(10), "MSFT": Decimal(1)}
    await compare()
    assert (await compare()).differs
    assert (await positions(desk), await is_heard(desk)) == ({"MSFT": Decimal(1)}, False)


async def test_a_broker_that_does_not_say_what_it_holds_is_compared_all_the_same(desk: Desk) -> None:
    desk.broker.holdings = None
    await filled(desk)
    result = await Comparing(desk)()
    assert (result.is_complete, result.differs, await is_heard(desk)) == (True, False, False)
    assert await positions(desk) == {"AAPL": 10}


async def test_an_account_with_a_rule_is_asked_about_until_its_broker_says_what_it_holds(desk: Desk) -> None:
    store = PostgresExecutionStore(desk.pool)

    async def untold() -> list[BrokerAccount]:
        slots = range(64)
        assert await store.accounts_untold_across_organizations("another", slots) == []
        return await store.accounts_untold_across_organizations("paper", slots)

    assert await untold() == []
    await desk.pool.execute(
        "insert into control_rules (organization_id, scope, subject, code, terms, created_at, updated_at,"
        " principal_type, principal_id)"
        " values ($1, 'organization', '', 'POSITION_MAX', '{}', now(), now(), 'USER', 'u')",
        desk.account.organization_id,
    )
    assert await untold() == [desk.account]
    await Comparing(desk)()
    assert await untold() == []


async def test_nothing_is_taken_over_while_an_order_is_missing(desk: Desk) -> None:
    compare = Comparing(desk)
    await desk.working()
    desk.broker.holdings = {"AAPL": Decimal(10)}
    assert not (await compare()).is_complete
    assert not (await compare()).is_complete
    assert (await positions(desk), await is_heard(desk)) == ({}, False)


async def test_an_adjustment_stays_as_it_was_written(desk: Desk) -> None:
    async with PostgresExecutionStore(desk.pool).account_transaction(desk.account) as transaction:
        await transaction.adjust_position(AAPL, Decimal(1), "OPENING")
    with pytest.raises(asyncpg.PostgresError, match="append-only"):
        await desk.pool.execute("update position_adjustments set change = 2")

"""The record of an account, replayed from any moment on, comes to what the database has now."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.backtest_history import PostgresHistoryStore
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.events.account_log import log_position_adjusted
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.backtest import RecordedCommand, Replay
from openbell_server.domain.controls.backtest_state import RecordedState
from openbell_server.domain.controls.facts import CommandFacts, Exposure
from openbell_server.domain.controls.rules import RuleBook
from openbell_server.domain.identifiers import IntentId, Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import BrokerExecution, ReportStatus
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, Terms, TimeInForce
from openbell_server.domain.orders.positions import PositionCause
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_replace, a_report, a_tenant, an_execution, described

SYMBOLS = ("AAPL", "MSFT")
FOREVER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
async def harness(pool: Pool) -> Harness:
    harness = Harness(pool, await a_tenant(pool))
    await pool.execute("update account_counters set positions_as_of = clock_timestamp()")
    return harness


def asking(symbol: str, side: OrderSide = OrderSide.BUY, limit: Decimal | None = None) -> CommandFacts:
    return CommandFacts(
        action_type=ActionType.CREATE,
        symbol=Symbol(symbol),
        order_side=side,
        order_type=OrderType.LIMIT,
        terms=Terms(quantity=Decimal(1), limit_price=limit, time_in_force=TimeInForce.DAY),
        environment=Environment.PAPER,
    )


async def replayed(
    harness: Harness, since: datetime, until: datetime = FOREVER
) -> tuple[RecordedState, list[RecordedCommand]]:
    """The state after all that was recorded since a moment, and the commands among it."""
    history, account = PostgresHistoryStore(harness.pool), harness.tenant.account
    stretch = await history.stretch(account, since, until, 1_000)
    state = await history.state_before(account, stretch)
    replay = Replay(RuleBook(organization_epoch=1, account_epoch=1, rules=()), state, since=since)
    commands = []
    async for page in history.entries(account, stretch):
        commands += [entry for entry in page if isinstance(entry, RecordedCommand)]
        replay.take(page)
    assert len(commands) == stretch.commands
    return state, commands


async def truth(harness: Harness, symbol: str, side: OrderSide, limit: Decimal | None = None) -> Exposure:
    """What the tables have now."""
    row = await harness.pool.fetchrow(
        """
        with open_orders as (
            select symbol, order_side, quantity - filled_quantity as leaves from orders where standing <> 'CLOSED'
            union all
            select symbol, order_side, quantity - filled_quantity from external_orders where status = 'WORKING'
        )
        select coalesce(sum(leaves) filter (where symbol = $1 and order_side = 'BUY'), 0) as buys,
            coalesce(sum(leaves) filter (where symbol = $1 and order_side <> 'BUY'), 0) as sells,
            count(*) as all, count(*) filter (where symbol = $1) as of_symbol,
            count(*) filter (where symbol = $1 and order_side = $2) as of_side,
            coalesce((select quantity from positions where symbol = $1), 0) as position
        from open_orders
        """,
        symbol,
        side,
    )
    assert row is not None
    others = [
        other["limit_price"]
        for other in await harness.pool.fetch(
            """
            select symbol, order_side, limit_price from orders where standing <> 'CLOSED'
            union all
            select symbol, order_side, limit_price from external_orders where status = 'WORKING'
            """
        )
        if other["symbol"] == symbol and (other["order_side"] == "BUY") is not (side is OrderSide.BUY)
    ]
    sign = 1 if side is OrderSide.BUY else -1
    nearest = None if None in others else min(others, key=lambda price: sign * price, default=None)
    return Exposure(
        matching_orders=sum(limit is None or other is None or sign * other <= sign * limit for other in others),
        matching_price=nearest,
        position=row["position"],
        position_as_of=FOREVER,
        working_buys=row["buys"],
        working_sells=row["sells"],
        open_orders=row["all"],
        open_orders_of_symbol=row["of_symbol"],
        open_orders_of_side=row["of_side"],
    )


async def _history(harness: Harness, steps: int, seed: int) -> list[datetime]:
    """Orders that fill, are replaced and end as they like; the moments between."""
    chance, fills = random.Random(seed), 0
    working: dict[IntentId, tuple[str, Decimal, list[BrokerExecution]]] = {}
    moments = []
    for _ in range(steps):
        moments.append(await harness.pool.fetchval("select clock_timestamp()"))
        if len(working) < 2 or chance.random() < 0.4:
            side = chance.choice((OrderSide.BUY, OrderSide.SELL, OrderSide.SELL_SHORT))
            create = a_limit_create()
            spec = replace(create.spec, limit_price=Decimal(chance.randrange(90, 110)))
            command = replace(create, symbol=Symbol(chance.choice(SYMBOLS)), order_side=side, spec=spec)
            intent = await harness.accept(command)
            (door,) = await harness.work()
            working[intent] = client_order_id(door.action.order_action_id), command.spec.quantity, []
            continue
        intent = chance.choice(list(working))
        order_id, quantity, told = working[intent]
        step = chance.random()
        if step < 0.5 and quantity - sum(fill.quantity for fill in told) > 1:
            fills += 1
            told.append(an_execution(fills, 1))
            await harness.report(a_report(ReportStatus.WORKING, told, client_order_id=order_id))
        elif step < 0.7:
            await harness.accept(a_replace(intent, quantity=str(quantity + 2)))
            await harness.work()
            working[intent] = order_id, quantity + 2, told
        elif step < 0.85:
            await harness.accept(a_cancel(intent))
            await harness.work()
            await harness.report(a_report(ReportStatus.CANCELED, told, client_order_id=order_id))
            del working[intent]
        else:
            fills += 1
            told.append(an_execution(fills, quantity - sum(fill.quantity for fill in told)))
            await harness.report(a_report(ReportStatus.FILLED, told, client_order_id=order_id))
            del working[intent]
    return moments


async def test_a_replay_from_any_moment_ends_as_the_tables_stand(harness: Harness) -> None:
    moments = await _history(harness, steps=60, seed=7)
    for since in (moments[0] - timedelta(days=1), *moments[::6], FOREVER - timedelta(days=1)):
        state, _ = await replayed(harness, since)
        for symbol in SYMBOLS:
            for side in OrderSide:
                for limit in (None, Decimal(95), Decimal(101)):
                    found = state.exposure(asking(symbol, side, limit), None, FOREVER)
                    assert found == await truth(harness, symbol, side, limit), since


async def test_positions_that_the_broker_never_told_are_unknown(harness: Harness) -> None:
    await harness.pool.execute("update account_counters set positions_as_of = null")
    moments = await _history(harness, steps=5, seed=1)
    state, _ = await replayed(harness, moments[0])
    assert state.exposure(asking("AAPL"), None, FOREVER).position is None


async def test_orders_that_are_not_ours_count_from_when_they_were_found(harness: Harness) -> None:
    before: datetime = await harness.pool.fetchval("select clock_timestamp()")
    report = described(a_report(ReportStatus.WORKING, [an_execution(1, 4)]), "external-1")
    terms = Terms(quantity=Decimal(10), limit_price=Decimal(101), time_in_force=TimeInForce.DAY)
    report = replace(report, client_order_id=None, terms=terms)
    harness.broker.book["external-1"] = report
    await harness.reconcile(deep=True)
    between: datetime = await harness.pool.fetchval("select clock_timestamp()")
    for since in (before, between):
        state, _ = await replayed(harness, since)
        assert state.exposure(asking("AAPL"), None, FOREVER) == await truth(harness, "AAPL", OrderSide.BUY)
        asked, limit = asking("AAPL", OrderSide.SELL, Decimal(101)), Decimal(101)
        found = state.exposure(asked, None, FOREVER)
        assert (found, found.matching_orders) == (await truth(harness, "AAPL", OrderSide.SELL, limit), 1)
    filled = replace(a_report(ReportStatus.FILLED, [an_execution(1, 4), an_execution(2, 6)]), client_order_id=None)
    harness.broker.book["external-1"] = replace(report, status=filled.status, filled_quantity=filled.filled_quantity)
    await harness.reconcile(deep=True)
    state, _ = await replayed(harness, before)
    assert state.exposure(asking("AAPL"), None, FOREVER) == await truth(harness, "AAPL", OrderSide.BUY)
    # What it had filled until then nobody kept.
    state, _ = await replayed(harness, between)
    assert state.exposure(asking("AAPL"), None, FOREVER).position is None
    assert state.exposure(asking("MSFT"), None, FOREVER).position == 0


async def test_what_the_broker_holds_otherwise_moves_the_position_when_it_was_taken_over(
    harness: Harness,
) -> None:
    before: datetime = await harness.pool.fetchval("select clock_timestamp()")
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as transaction:
        await transaction.add_to_position(Symbol("AAPL"), Decimal(7), PositionCause.UNEXPLAINED)
        log_position_adjusted(transaction, Symbol("AAPL"), Decimal(0), Decimal(7), "UNEXPLAINED")
    after: datetime = await harness.pool.fetchval("select clock_timestamp()")
    history, account = PostgresHistoryStore(harness.pool), harness.tenant.account
    state = await history.state_before(account, await history.stretch(account, before, FOREVER, 1_000))
    assert state.exposure(asking("AAPL"), None, FOREVER).position == 0
    for since in (before, after):
        state, _ = await replayed(harness, since)
        assert state.exposure(asking("AAPL"), None, FOREVER).position == 7


async def test_a_window_has_the_commands_between_its_ends(harness: Harness) -> None:
    moments = await _history(harness, steps=20, seed=3)
    all_of_them = [command.id for command in (await replayed(harness, moments[0]))[1]]
    first = [command.id for command in (await replayed(harness, moments[0], moments[9]))[1]]
    second = [command.id for command in (await replayed(harness, moments[9]))[1]]
    assert first + second == all_of_them
    assert len(all_of_them) == await harness.pool.fetchval("select count(*) from intent_actions")

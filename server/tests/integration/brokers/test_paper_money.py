"""Cash, positions, fees and buying power at the paper broker, on real PostgreSQL."""

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from openbell_exchange.money import CASH
from openbell_server.application.ports.broker import BrokerOrder
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.settings import Settings
from support.brokers.paper_broker import (
    ACCOUNT,
    ask,
    found,
    kind,
    named,
    new_order,
    replacement,
    running,
    settings_of,
    summary,
)

HUNDRED = Decimal(100)
TOO_DEAR = "insufficient_buying_power"


async def account(settings: Settings, account_id: UUID = ACCOUNT) -> dict[str, Any]:
    response = await ask(settings, "GET", f"/accounts/{account_id}")
    assert response.status_code == 200
    return dict(response.json())


async def begin(settings: Settings, cash: int) -> None:
    """AAPL at a hundred, and this much cash."""
    await ask(settings, "PUT", "/prices/AAPL", {"price": "100"})
    response = await ask(settings, "PUT", f"/accounts/{ACCOUNT}/cash", {"cash": str(cash)})
    assert Decimal(response.json()["cash"]) == cash


def code(outcome: Outcome) -> str | None:
    return outcome.broker_code if isinstance(outcome, Refused) else None


def limit(side: OrderSide, quantity: int, price: int) -> BrokerOrder:
    return new_order(OrderType.LIMIT, order_side=side, quantity=Decimal(quantity), limit_price=Decimal(price))


async def test_a_new_account_has_cash_and_an_execution_moves_it_with_its_fee(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        assert await account(settings) == {
            "cash": str(CASH),
            "equity": str(CASH),
            "buying_power": str(CASH),
            "fees_paid": "0",
            "positions": [],
        }
        await begin(settings, 50_000)
        await session.submit(new_order(quantity=Decimal(200)))
        await session.submit(new_order(quantity=Decimal(50), order_side=OrderSide.SELL))
        now = await account(settings)
        assert Decimal(now["fees_paid"]) == Decimal("0.25")
        assert Decimal(now["cash"]) == Decimal(now["buying_power"]) == 50_000 - 15_000 - Decimal("0.25")
        assert now["positions"] == [{"symbol": "AAPL", "quantity": "150", "price": "100"}]


async def test_what_an_account_cannot_pay_for_is_refused_and_recorded(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await begin(settings, 10_000)
        for order in (
            # A hundred shares would leave nothing for the fee.
            new_order(quantity=HUNDRED),
            limit(OrderSide.BUY, 102, 99),
            new_order(OrderType.STOP, stop_price=Decimal(101), quantity=HUNDRED),
            new_order(quantity=HUNDRED + 1, order_side=OrderSide.SELL_SHORT),
            new_order(quantity=HUNDRED + 1, order_side=OrderSide.SELL),
            new_order(quantity=HUNDRED + 1, time_in_force=TimeInForce.AT_CLOSE),
        ):
            assert code(await session.submit(order)) == TOO_DEAR, order
            assert await session.find(ACCOUNT, named(order.client_order_id)) is None
        assert kind(await session.submit(new_order(quantity=HUNDRED - 1))) is Accepted
        counts = await summary(settings)
        assert (counts["requests"], counts["refused"], counts["orders"]) == (7, 6, 1)


async def test_working_orders_hold_what_they_may_cost_and_give_it_back(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await begin(settings, 10_000)
        order = limit(OrderSide.BUY, 60, 90)
        assert kind(await session.submit(order)) is Accepted
        assert Decimal((await account(settings))["buying_power"]) == 4600
        assert code(await session.submit(limit(OrderSide.BUY, 60, 90))) == TOO_DEAR
        # Twice as many at that price are too many, and the order stays what it was.
        assert code(await session.replace(replacement(order, Decimal(90)))) == TOO_DEAR
        assert kind(await session.replace(replacement(order, Decimal(80)))) is Accepted
        assert Decimal((await account(settings))["buying_power"]) == 400
        await session.cancel(ACCOUNT, named(order.client_order_id), order.valid_until)
        assert Decimal((await account(settings))["buying_power"]) == 10_000


async def test_a_short_holds_its_proceeds_and_as_much_again_and_can_always_be_closed(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await begin(settings, 10_000)
        short = new_order(quantity=Decimal(80), order_side=OrderSide.SELL_SHORT)
        assert kind(await session.submit(short)) is Accepted
        now = await account(settings)
        assert (Decimal(now["cash"]), now["positions"][0]["quantity"]) == (Decimal("17999.92"), "-80")
        assert Decimal(now["buying_power"]) == Decimal("1999.92")
        await ask(settings, "PUT", "/prices/AAPL", {"price": "400"})
        assert Decimal((await account(settings))["buying_power"]) < 0
        assert code(await session.submit(new_order(quantity=Decimal(1), symbol=Symbol("MSFT")))) == TOO_DEAR
        assert code(await session.submit(new_order(quantity=Decimal(81)))) == TOO_DEAR
        assert kind(await session.submit(new_order(quantity=Decimal(80)))) is Accepted
        assert (await account(settings))["positions"] == []


async def test_a_repeated_order_that_is_now_too_dear_is_still_no_definite_refusal(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await begin(settings, 10_000)
        order = new_order(quantity=Decimal(90))
        assert kind(await session.submit(order)) is Accepted
        assert kind(await session.submit(order)) is Unknown
        resting = limit(OrderSide.BUY, 1, 90)
        await session.submit(resting)
        change = replacement(resting, Decimal(91))
        assert kind(await session.replace(change)) is Accepted
        await ask(settings, "PUT", f"/accounts/{ACCOUNT}/cash", {"cash": "0"})
        assert kind(await session.replace(change)) is Unknown
        assert (await summary(settings))["repeated_submits"] == 1


async def books(ledger_url: str) -> list[tuple[object, ...]]:
    """Per account what the sums are of all that was recorded, and what the ledger keeps of them."""
    connection = await asyncpg.connect(ledger_url)
    try:
        rows = await connection.fetch(
            """
            with traded as (
                select account_id, symbol, e.price, e.fee,
                    case order_side when 'BUY' then e.quantity else -e.quantity end as quantity
                from executions as e join orders on orders.number = e.order_number
            ), summed as (
                select account_id, sum(-quantity * price - fee) as flow, sum(fee) as fees from traded group by 1
            ), paid as (
                select account_id, sum(amount) as amount from deposits group by account_id
            )
            select 'cash', account_id::text, coalesce(flow, 0) + coalesce(amount, 0) as added, coalesce(fees, 0) as more
            from summed full join paid using (account_id)
            union all
            select 'position', account_id || symbol, sum(quantity), 0 from traded group by account_id, symbol
            except
            (
                select 'cash', account_id::text, flow, fees from balances
                union all
                select 'position', account_id || symbol, quantity, 0 from positions
            )
            """
        )
        return [tuple(row) for row in rows]
    finally:
        await connection.close()


async def trade_at_random(settings: Settings, session: PaperSession, chance: Random) -> None:
    accounts = [AccountId(uuid4()) for _ in range(3)]
    for _ in range(120):
        at = chance.choice(accounts)
        draw = chance.random()
        if draw < 0.25:
            body = {"price": f"{chance.uniform(90, 110):.2f}", "size": str(chance.randint(1, 40))}
            await ask(settings, "PUT", f"/prices/{chance.choice(['AAPL', 'MSFT'])}", body)
        elif draw < 0.3:
            await ask(settings, "PUT", f"/accounts/{at}/cash", {"cash": f"{chance.uniform(0, 20_000):.3f}"})
        else:
            order_type = chance.choice(list(OrderType))
            order = new_order(
                order_type,
                account_id=at,
                symbol=Symbol(chance.choice(["AAPL", "MSFT"])),
                order_side=chance.choice(list(OrderSide)),
                quantity=Decimal(f"{chance.uniform(0.001, 60):.3f}"),
                time_in_force=chance.choice([TimeInForce.DAY, TimeInForce.IMMEDIATE_OR_CANCEL]),
                limit_price=Decimal(f"{chance.uniform(90, 110):.2f}") if "LIMIT" in order_type else None,
                stop_price=Decimal(f"{chance.uniform(90, 110):.2f}") if "STOP" in order_type else None,
            )
            await session.submit(order)


async def test_after_any_trading_what_is_kept_equals_the_sum_of_all_executions(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await trade_at_random(settings, session, Random(7))
        counts = await summary(settings)
        assert counts["executions"] > 20
        assert counts["refused"] > 5
        assert await books(ledger_url) == []
        connection = await asyncpg.connect(ledger_url)
        try:
            # So that it would be seen if it were not so.
            await connection.execute("update balances set flow = flow + 0.001")
        finally:
            await connection.close()
        assert await books(ledger_url) != []


async def test_a_ledger_from_before_there_was_money_gets_its_sums_from_its_executions(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        order = new_order(quantity=Decimal(1500))
        await session.submit(order)
        before = await account(settings)
    connection = await asyncpg.connect(ledger_url)
    try:
        await connection.execute("drop table balances, positions, deposits; alter table orders drop column due_at")
    finally:
        await connection.close()
    async with running(settings) as session:
        assert await account(settings) == before
        assert (await found(session, order)).status is ReportStatus.FILLED
        works = replace(limit(OrderSide.BUY, 1, 1), valid_until=order.valid_until)
        assert kind(await session.submit(works)) is Accepted
        assert await books(ledger_url) == []

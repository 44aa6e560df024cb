"""Cash, positions and buying power at the paper broker, read from the ledger."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from uuid import UUID

import asyncpg

from openbell_server.brokers.http_client import decimal_text
from openbell_server.brokers.paper.ledger import Ledger, queries
from openbell_server.brokers.paper.matching import MarketOrder, Match, Quote
from openbell_server.brokers.paper.money import CASH, Holding, buying_power, fee, only_closes
from openbell_server.brokers.paper.wire import AccountBody, PositionBody
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import EXACT, OrderSide, exact_total

if TYPE_CHECKING:
    Writer = asyncpg.Connection[asyncpg.Record]
    Reader = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

_SHORTING_OFF: Final = "shorting is off for this account"
QuoteOf = Callable[[Symbol], Quote]


async def money_refusal(
    connection: "Writer",
    account_id: UUID,
    symbol: Symbol,
    order: MarketOrder,
    matched: Match,
    quote_of: QuoteOf,
    *,
    shorting: bool,
    except_number: int = 0,
) -> tuple[str, str] | None:
    """The code and text of a refusal if the account lacks the shares or the money for an order, else None.

    An order that only closes a position is always affordable. For a replace, except_number excludes the original order.
    """
    if order.side is OrderSide.SELL_SHORT and not shorting:
        return "shorting_off", _SHORTING_OFF
    flow, _ = await _balance(connection, account_id)
    holdings = await _holdings(connection, account_id, quote_of, except_number)
    holding = holdings.get(symbol) or Holding(symbol=symbol, price=quote_of(symbol).price)
    with_it = _with(holding, order, matched)
    if only_closes(order.side, with_it):
        return None
    if order.side is not OrderSide.BUY and not shorting:
        return "insufficient_position", _lacking(holding)
    fees = exact_total(fee(fill.quantity, fill.price) for fill in matched.fills)
    cash = EXACT.subtract(EXACT.add(CASH, flow), fees)
    if buying_power(cash, {**holdings, symbol: with_it}.values()) < 0:
        return "insufficient_buying_power", "the account's buying power does not cover this order"
    return None


async def set_cash(ledger: Ledger, account_id: UUID, cash: Decimal) -> None:
    """Deposit or withdraw the difference to this amount."""
    async with ledger.writing() as connection:
        flow, _ = await _balance(connection, account_id)
        amount = EXACT.subtract(cash, EXACT.add(CASH, flow))
        await queries.deposit(connection, account_id=account_id, amount=amount, made_at=datetime.now(UTC))


async def account(ledger: Ledger, account_id: UUID, quote_of: QuoteOf) -> AccountBody:
    async with ledger.reading() as connection:
        flow, fees = await _balance(connection, account_id)
        holdings = await _holdings(connection, account_id, quote_of, 0)
    cash = EXACT.add(CASH, flow)
    return AccountBody(
        cash=decimal_text(cash),
        buying_power=decimal_text(buying_power(cash, holdings.values())),
        fees_paid=decimal_text(fees),
        positions=tuple(
            PositionBody(holding.symbol, decimal_text(holding.quantity), decimal_text(holding.price))
            for holding in holdings.values()
            if holding.quantity
        ),
    )


def _lacking(holding: Holding) -> str:
    if holding.quantity <= 0:
        return f"the account holds no {holding.symbol}, and {_SHORTING_OFF}"
    held, selling = decimal_text(holding.quantity), decimal_text(holding.selling)
    working = f", of which {selling} are in working sells" if holding.selling else ""
    return f"the account holds {held} {holding.symbol}{working}, and {_SHORTING_OFF}"


def _with(holding: Holding, order: MarketOrder, matched: Match) -> Holding:
    """The holding if the whole order worked: the immediate fill at its price, the rest at the order's own price."""
    if order.side is not OrderSide.BUY:
        return replace(holding, selling=EXACT.add(holding.selling, order.remaining))
    at_once = exact_total(EXACT.multiply(fill.quantity, fill.price) for fill in matched.fills)
    rest = EXACT.subtract(order.remaining, exact_total(fill.quantity for fill in matched.fills))
    own_price = order.spec.limit_price or order.spec.stop_price or holding.price
    value = EXACT.add(at_once, EXACT.multiply(rest, own_price))
    return replace(
        holding, buying=EXACT.add(holding.buying, order.remaining), buying_value=EXACT.add(holding.buying_value, value)
    )


async def _balance(connection: "Writer | Reader", account_id: UUID) -> tuple[Decimal, Decimal]:
    row = await queries.balance(connection, account_id=account_id)
    return (row["flow"], row["fees"]) if row else (Decimal(0), Decimal(0))


async def _holdings(
    connection: "Writer | Reader", account_id: UUID, quote_of: QuoteOf, except_number: int
) -> dict[Symbol, Holding]:
    rows = queries.holdings(connection, account_id=account_id, except_number=except_number)
    return {row["symbol"]: Holding(price=quote_of(row["symbol"]).price, **row) async for row in rows}

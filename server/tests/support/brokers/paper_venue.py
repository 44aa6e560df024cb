"""The paper broker's venue with its ledger, and orders for it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from uuid import UUID, uuid4

from openbell_exchange.decisions import Refusal
from openbell_exchange.faults import CommandKind
from openbell_exchange.matching import Quote
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.prices import parse_prices
from openbell_server.brokers.paper.profiles import PAPER, Profile
from openbell_server.brokers.paper.venue import Command, NewOrder, PaperVenue
from openbell_server.brokers.paper.wire import AccountRules
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import OrderSide, OrderSpec, OrderType, TimeInForce
from support.brokers.paper_broker import soon

SYMBOLS = (Symbol("AAPL"), Symbol("MSFT"), Symbol("TSLA"))
Submit = tuple[Command, NewOrder]
Result = str | BaseException


class Venue:
    """A venue with its ledger; every symbol costs a hundred and has ten for each order."""

    def __init__(self, ledger: Ledger, rules: AccountRules) -> None:
        self.ledger = ledger
        self.market = Market(ledger, parse_prices("", datetime.now(UTC)), any_symbol=True)
        self.venue = PaperVenue(ledger, self.market, rules)

    async def together(self, submits: Sequence[Submit]) -> list[Result]:
        return await asyncio.gather(*(self.venue.submit(*each) for each in submits), return_exceptions=True)

    async def one_at_a_time(self, submits: Sequence[Submit]) -> list[Result]:
        return [result for each in submits for result in await self.together([each])]

    async def transactions(self) -> int:
        async with self.ledger.reading() as connection:
            return int(await connection.fetchval("select count(distinct xmin::text) from requests"))


@asynccontextmanager
async def opened(ledger_url: str, *, shorting: bool = True) -> AsyncIterator[Venue]:
    ledger = await Ledger.open(ledger_url)
    try:
        venue = Venue(ledger, AccountRules(shorting, any_tick=True))
        for symbol in SYMBOLS:
            await venue.market.set_price(symbol, Quote(Decimal(100), Decimal(10)))
        yield venue
    finally:
        await ledger.close()


def command(account_id: UUID, profile: Profile = PAPER, client_order_id: str | None = None) -> Command:
    return Command(
        kind=CommandKind.SUBMIT,
        profile=profile,
        account_id=account_id,
        client_order_id=client_order_id or uuid4().hex,
        received_at=datetime.now(UTC),
        key_id=None,
    )


def market_buy(symbol: Symbol = SYMBOLS[0], quantity: int = 1) -> NewOrder:
    spec = OrderSpec(order_type=OrderType.MARKET, quantity=Decimal(quantity), time_in_force=TimeInForce.DAY)
    return NewOrder(symbol=symbol, side=OrderSide.BUY, spec=spec, valid_until=soon())


def any_order(random: Random) -> NewOrder:
    order_type = random.choice(list(OrderType))
    has_limit = order_type in {OrderType.LIMIT, OrderType.STOP_LIMIT}
    has_stop = order_type in {OrderType.STOP, OrderType.STOP_LIMIT}
    spec = OrderSpec(
        order_type=order_type,
        quantity=Decimal(random.randint(1, 20)),
        limit_price=Decimal(random.randint(95, 105)) if has_limit else None,
        stop_price=Decimal(random.randint(95, 105)) if has_stop else None,
        time_in_force=random.choice([TimeInForce.DAY, TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL]),
    )
    return NewOrder(symbol=random.choice(SYMBOLS), side=random.choice(list(OrderSide)), spec=spec, valid_until=soon())


def code(result: Result) -> str:
    """`accepted`, or the code of the refusal."""
    if isinstance(result, BaseException) and not isinstance(result, Refusal):
        raise result
    return result.code if isinstance(result, Refusal) else "accepted"

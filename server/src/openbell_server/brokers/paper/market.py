"""The paper market: current quotes, and how time changes working orders."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import asyncpg

from openbell_exchange.listings import shipped_symbols
from openbell_exchange.matching import MarketOrder, Match, Quote, end, match, reference_price
from openbell_server.brokers.paper.booking import match_all
from openbell_server.brokers.paper.ledger import PAGE, Ledger, queries
from openbell_server.brokers.paper.prices import SYMBOLS_MAX, PriceFeed
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import TimeInForce


class Market:
    def __init__(self, ledger: Ledger, feed: PriceFeed, *, any_symbol: bool = False) -> None:
        self._ledger = ledger
        self._feed = feed
        self._any_symbol = any_symbol
        self._step = feed.step_at(datetime.now(UTC))

    @property
    def look_seconds(self) -> float:
        """How often to call pass_time."""
        return self._feed.look_seconds

    def is_listed(self, symbol: Symbol) -> bool:
        """A symbol is listed if it is shipped, in the feed's file, or has a price that was set."""
        sources = (shipped_symbols(), self._feed.symbols, self._ledger.prices)
        return self._any_symbol or any(symbol in source for source in sources)

    def quote(self, symbol: Symbol) -> Quote:
        """The price that was set, else the feed's price, else the reference price."""
        return self._ledger.prices.get(symbol) or self._feed.quote(symbol, self._step) or Quote(reference_price(symbol))

    async def set_price(self, symbol: Symbol, quote: Quote) -> None:
        """Fix a symbol's quote regardless of the feed; resting orders trigger and fill."""
        async with self._ledger.writing() as connection:
            await queries.set_price(connection, symbol=symbol, price=quote.price, size=quote.size)
            await _match_working(connection, {symbol: quote})
        self._ledger.prices[symbol] = quote

    async def free_price(self, symbol: Symbol) -> None:
        """Return a symbol to the feed or to its reference price; resting orders trigger and fill."""
        quote = self._feed.quote(symbol, self._step) or Quote(reference_price(symbol))
        async with self._ledger.writing() as connection:
            await queries.free_price(connection, symbol=symbol)
            await _match_working(connection, {symbol: quote})
        self._ledger.prices.pop(symbol, None)

    async def pass_time(self, now: datetime) -> None:
        """End the orders and hold the auctions that are due, then apply the price steps since the last call."""
        if await self._ledger.is_anything_due(now):
            await self._end(now, now)
        step = self._feed.step_at(now)
        if step <= self._step:
            return
        symbols = await self._ledger.working_symbols(SYMBOLS_MAX)
        for number in range(max(self._step, step - self._feed.catch_up) + 1, step + 1):
            quotes = self._feed.moves(number, symbols)
            if quotes:
                await self._move(quotes)
            self._step = number

    async def ring(self, bell: TimeInForce) -> None:
        """Hold the opening or closing auction now; the closing one also ends DAY and EXT orders."""
        closing = bell is TimeInForce.AT_CLOSE
        kinds = (TimeInForce.AT_CLOSE, TimeInForce.DAY, TimeInForce.EXT) if closing else (TimeInForce.AT_OPEN,)
        await self._end(datetime.now(UTC), datetime.max.replace(tzinfo=UTC), kinds)

    async def _move(self, quotes: Mapping[Symbol, Quote]) -> None:
        async with self._ledger.writing() as connection:
            # A price that was set does not follow the feed.
            moved = {symbol: quote for symbol, quote in quotes.items() if symbol not in self._ledger.prices}
            await _match_working(connection, moved)

    async def _end(self, now: datetime, due_by: datetime, kinds: tuple[TimeInForce, ...] = tuple(TimeInForce)) -> None:
        def decide(row: Mapping[str, Any], order: MarketOrder) -> Match:
            return end(order, self.quote(row["symbol"]).price)

        async with self._ledger.writing() as connection:
            # Every order found ends, so the next query returns the remaining ones.
            while rows := [
                row async for row in queries.due_orders(connection, due_by=due_by, kinds=list(kinds), page=PAGE)
            ]:
                await match_all(connection, rows, decide, now)


async def _match_working(connection: "asyncpg.Connection[asyncpg.Record]", quotes: Mapping[Symbol, Quote]) -> None:
    now = datetime.now(UTC)
    after = 0
    while rows := [
        row async for row in queries.working_orders(connection, symbols=list(quotes), after=after, page=PAGE)
    ]:
        await match_all(connection, rows, lambda row, order: match(order, quotes[row["symbol"]]), now)
        after = rows[-1]["number"]

"""The books of an account now: the saved ones and the trades since."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from openbell_server.application.money.ports import BookStore, NewFigures, TradeNews
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.money.profit import Book, Figures, OutOfOrder, Trade, in_order

# Few, because the event loop waits while they are added.
NEWS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class CurrentBooks:
    """Books of all open positions and of all symbols that traded since the last ones were saved."""

    read: TradeNews
    books: dict[Symbol, Book]
    # What is not saved yet, by symbol.
    news: dict[Symbol, NewFigures] = field(default_factory=dict)
    # Symbols with too many trades, whose books must be made again.
    left_out: set[Symbol] = field(default_factory=set)


class TooManyTrades(Exception):
    """A book has too many trades to be made again while somebody waits."""


@dataclass(frozen=True, slots=True)
class ReadBooks:
    """With trades_max, a book of more trades that must be made again is as it was saved last."""

    store: BookStore
    trades_max: int | None = None

    async def __call__(
        self, organization_id: OrganizationId, account_id: AccountId, symbols: Collection[Symbol] = ()
    ) -> CurrentBooks:
        """Books as of the newest event, also of these symbols."""
        read = await self.store.trade_news(organization_id, account_id, None, NEWS_MAX)
        current = await self._up_to(organization_id, account_id, read, frozenset(symbols))
        while current.read.is_more:  # ends: each round reads NEWS_MAX events
            more = await self.store.trade_news(organization_id, account_id, current.read.to, NEWS_MAX)
            missing = {symbol for symbol, _ in more.trades} - current.books.keys()
            found = await self.store.read_books(organization_id, account_id, missing) if missing else {}
            known = replace(current, books=found | current.books)
            current = await self._add(organization_id, account_id, known, more)
        return current

    async def first(self, organization_id: OrganizationId, account_id: AccountId) -> CurrentBooks:
        """Books as of at most NEWS_MAX events after the saved ones."""
        read = await self.store.trade_news(organization_id, account_id, None, NEWS_MAX)
        return await self._up_to(organization_id, account_id, read, frozenset())

    async def _up_to(
        self, organization_id: OrganizationId, account_id: AccountId, read: TradeNews, symbols: frozenset[Symbol]
    ) -> CurrentBooks:
        traded = frozenset(symbol for symbol, _ in read.trades)
        books = await self.store.read_books(organization_id, account_id, symbols | traded)
        return await self._add(organization_id, account_id, CurrentBooks(read, books), read)

    async def _add(
        self, organization_id: OrganizationId, account_id: AccountId, current: CurrentBooks, read: TradeNews
    ) -> CurrentBooks:
        if read.is_gap:
            by_symbol: dict[Symbol, list[Trade] | None] = dict.fromkeys(
                await self.store.traded_symbols(organization_id, account_id)
            )
        else:
            by_symbol = _by_symbol(read)
        books, news, left_out = dict(current.books), dict(current.news), set(current.left_out)
        for symbol, trades in by_symbol.items():
            if symbol in left_out:
                continue
            added = None if trades is None else _added(books, symbol, trades)
            if added is None:
                try:
                    made = await made_again(self.store, organization_id, account_id, symbol, self.trades_max)
                except TooManyTrades:
                    left_out.add(symbol)
                    continue
                books[symbol], news[symbol] = made[0], NewFigures(made[1], is_remade=True)
            else:
                before = news.get(symbol)
                together = added if before is None else _add_figures(dict(before.by_period), added)
                news[symbol] = NewFigures(together, is_remade=before is not None and before.is_remade)
        for symbol in left_out:
            books.pop(symbol, None)
            news.pop(symbol, None)
        return CurrentBooks(read, books, news, left_out)


async def made_again(
    store: BookStore,
    organization_id: OrganizationId,
    account_id: AccountId,
    symbol: Symbol,
    trades_max: int | None = None,
) -> tuple[Book, dict[datetime, Figures]]:
    """The book of a symbol and its figures by period, from everything that changed the position.

    Raises TooManyTrades if there are more than trades_max.
    """
    book, figures = Book(), dict[datetime, Figures]()
    async for entries in store.entries(organization_id, account_id, symbol):
        _add_figures(figures, book.add(entries))
        if trades_max is not None and book.total.trades > trades_max:
            raise TooManyTrades
    return book, figures


def _by_symbol(read: TradeNews) -> dict[Symbol, list[Trade] | None]:
    """The new trades of each symbol; None where its book must be made again."""
    found: dict[Symbol, list[Trade] | None] = {}
    for symbol, trade in read.trades:
        trades = found.setdefault(symbol, [])
        if trade is None or trades is None:
            found[symbol] = None
        else:
            trades.append(trade)
    return found


def _added(books: dict[Symbol, Book], symbol: Symbol, trades: list[Trade]) -> dict[datetime, Figures] | None:
    """The figures of these trades; None if one is older than the book."""
    try:
        return books.setdefault(symbol, Book()).add(in_order(trades))
    except OutOfOrder:
        return None


def _add_figures(total: dict[datetime, Figures], added: Mapping[datetime, Figures]) -> dict[datetime, Figures]:
    for period, figures in added.items():
        if period in total:
            total[period].add(figures)
        else:
            total[period] = figures
    return total

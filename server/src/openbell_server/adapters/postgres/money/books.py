"""Reads what changed the positions of an account, and keeps the books that are made of it."""

from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Final

import asyncpg
import msgspec

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role, transaction
from openbell_server.application.money.ports import NewFigures, TradeNews
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.money.profit import Adjustment, Book, Entry, Figures, Lot, Trade, divided
from openbell_server.domain.orders.broker_trades import TradeKind
from openbell_server.domain.orders.order_terms import EXACT, OrderSide
from openbell_server.domain.orders.positions import PositionCause

# The event loop is free between them, however many there are.
ENTRIES_AT_ONCE: Final = 500
# A long history is sorted before its first entry comes.
ENTRIES_SECONDS: Final = 60.0
_queries = named_queries.load("books")
_SUMS: Final = (
    "realized_average",
    "realized_fifo",
    "fees",
    "bought_quantity",
    "bought_value",
    "sold_quantity",
    "sold_value",
)
_COUNTS: Final = ("trades", "unknown", "without_fee")


class _TradeBody(msgspec.Struct):
    """The fields that a book needs of events about trades, external orders and positions."""

    symbol: Symbol
    kind: str = ""
    order_side: OrderSide = OrderSide.BUY
    execution_id: str = ""
    quantity: Decimal | None = None
    price: Decimal = Decimal(0)
    executed_at: datetime | None = None
    fee: Decimal | None = None


_decode: Final = msgspec.json.Decoder(_TradeBody).decode


@dataclass(frozen=True, slots=True)
class PostgresBookStore(PostgresStore):
    """Implements BookStore, BooksBehind and FigureStore."""

    async def trade_news(
        self, organization_id: OrganizationId, account_id: AccountId, after: int | None, limit: int
    ) -> TradeNews:
        rows = await self._rows(_queries.trade_news, organization_id, account_id, after=after, row_limit=limit)
        first, is_more = rows[0], len(rows) == limit
        events = [row for row in rows if row["event_no"] is not None]
        return TradeNews(
            after=first["after"],
            to=rows[-1]["event_no"] if is_more else first["newest"],
            trades=[_news(row) for row in events],
            is_more=is_more,
            is_gap=first["event_floor"] > first["after"],
        )

    async def read_books(
        self, organization_id: OrganizationId, account_id: AccountId, symbols: Collection[Symbol]
    ) -> dict[Symbol, Book]:
        rows = await self._rows(_queries.read_books, organization_id, account_id, symbols=list(symbols))
        return {Symbol(row["symbol"]): _book(row) for row in rows}

    async def traded_symbols(self, organization_id: OrganizationId, account_id: AccountId) -> list[Symbol]:
        return [row["symbol"] for row in await self._rows(_queries.traded_symbols, organization_id, account_id)]

    async def entries(
        self, organization_id: OrganizationId, account_id: AccountId, symbol: Symbol
    ) -> AsyncIterator[list[Entry]]:
        async with transaction(self.pool, self.role, organization_id) as connection:
            of_symbol = organization_id, account_id, symbol
            cursor = await connection.cursor(_queries.entries_of_symbol.sql, *of_symbol)
            while rows := await cursor.fetch(ENTRIES_AT_ONCE, timeout=ENTRIES_SECONDS):
                yield [_entry(row) for row in rows]

    async def figures_of_days(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        days: Sequence[datetime],
        symbol: Symbol | None,
        left_out: Collection[Symbol],
    ) -> dict[tuple[int, Symbol], Figures]:
        rows = await self._rows(
            _queries.figures_of_days,
            organization_id,
            account_id,
            day_starts=list(days),
            only_symbol=symbol,
            left_out=list(left_out),
        )
        return {(row["day"], Symbol(row["symbol"])): _total(row) for row in rows}

    async def accounts_behind_across_organizations(
        self, slots: Collection[int], events: int, seconds: float, limit: int
    ) -> list[tuple[OrganizationId, AccountId]]:
        rows = await self._rows_across(
            Role.EXECUTOR,
            _queries.accounts_behind_across_organizations,
            slots=list(slots),
            events_behind=events,
            seconds=seconds,
            row_limit=limit,
        )
        return [(row["organization_id"], row["account_id"]) for row in rows]

    async def save_books(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        read: TradeNews,
        books: Mapping[Symbol, Book],
        figures: Mapping[Symbol, NewFigures],
    ) -> bool:
        where: dict[str, Any] = {"organization_id": organization_id, "account_id": account_id}
        remade = [symbol for symbol, news in figures.items() if news.is_remade]
        rows = [
            {"symbol": symbol, "period": period, **_figures(each)}
            for symbol, news in figures.items()
            for period, each in news.by_period.items()
        ]
        async with transaction(self.pool, Role.EXECUTION, organization_id) as connection:
            saved = await _queries.save_head(connection, **where, saved_event_no=read.after, event_no=read.to)
            if saved is None:
                return False
            if remade:
                await _queries.remove_figures(connection, **where, symbols=remade)
            if rows:
                await _queries.add_figures(connection, **where, figures=_json(rows))
            kept = [_book_row(symbol, books[symbol]) for symbol in figures if books[symbol].last is not None]
            if kept:
                await _queries.save_books(connection, **where, books=_json(kept))
        return True


def _news(row: asyncpg.Record) -> tuple[Symbol, Trade | None]:
    body = _decode(row["body"])
    if row["kind"] != EventKind.BROKER_TRADE or body.kind != TradeKind.NORMAL:
        return body.symbol, None
    assert body.quantity is not None
    assert body.executed_at is not None
    return body.symbol, Trade(
        trade_id=body.execution_id,
        traded_at=body.executed_at,
        quantity=_signed(body.order_side, body.quantity),
        price=body.price,
        fee=body.fee,
    )


def _entry(row: asyncpg.Record) -> Entry:
    trade_id, made_at, quantity, price = row["trade_id"], row["made_at"], row["quantity"], row["price"]
    if row["cause"] is None:
        return Trade(trade_id=trade_id, traded_at=made_at, quantity=quantity, price=price, fee=row["fee"])
    if row["cause"] != PositionCause.EXTERNAL_ORDER:
        return Adjustment(trade_id=trade_id, traded_at=made_at, quantity=quantity, average_price=price)
    price = None if row["value"] is None else divided(row["value"], quantity)
    return Trade(trade_id=trade_id, traded_at=made_at, quantity=quantity, price=price)


def _signed(side: OrderSide, quantity: Decimal) -> Decimal:
    return quantity if side is OrderSide.BUY else EXACT.minus(quantity)


def _book(row: asyncpg.Record) -> Book:
    lots = msgspec.json.decode(row["lots"], type=list[tuple[Decimal, Decimal, datetime, str]])
    return Book(
        quantity=row["quantity"],
        cost=row["cost"],
        lots=deque(Lot(*lot) for lot in lots),
        total=_total(row),
        last=(row["last_traded_at"], row["last_trade_id"]),
    )


def _total(row: asyncpg.Record) -> Figures:
    return Figures(**{name: row[name] for name in (*_SUMS, *_COUNTS)})


def _book_row(symbol: Symbol, book: Book) -> dict[str, Any]:
    assert book.last is not None
    return {
        "symbol": symbol,
        "quantity": _text(book.quantity),
        "cost": None if book.cost is None else _text(book.cost),
        "lots": [(_text(lot.quantity), _text(lot.price), lot.opened_at, lot.trade_id) for lot in book.lots],
        "last_traded_at": book.last[0],
        "last_trade_id": book.last[1],
        **_figures(book.total),
    }


def _figures(figures: Figures) -> dict[str, Any]:
    sums = {name: _text(getattr(figures, name)) for name in _SUMS}
    return sums | {name: getattr(figures, name) for name in _COUNTS}


def _text(number: Decimal) -> str:
    return format(number, "f")


def _json(rows: list[dict[str, Any]]) -> str:
    return msgspec.json.encode(rows).decode()


@dataclass(frozen=True, slots=True)
class ExecutorBookStore(PostgresBookStore):
    """For executors, whose login has another role."""

    role: ClassVar[Role] = Role.EXECUTION

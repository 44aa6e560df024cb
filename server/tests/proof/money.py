"""Cost and profit of random trades, reported late, busted and corrected, against their definition in fractions."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from unittest import mock

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.postgres.money.books import PostgresBookStore
from openbell_server.application.events.account_log import log_position_adjusted
from openbell_server.application.money.read_books import ReadBooks, made_again
from openbell_server.application.money.save_books import SaveBooks
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.identifiers import Symbol, client_order_id
from openbell_server.domain.money import profit
from openbell_server.domain.money.profit import PERIOD, Adjustment, Book, CostMethod, Entry, Figures, Trade
from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange, OrderReport, ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, exact_total
from openbell_server.domain.orders.positions import PositionCause
from oracle.profit import Fill, answer
from proof.figures import Figures as ProofFigures
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_market_create, a_tenant

SEED = 20261119
SYMBOLS = (Symbol("AAPL"), Symbol("MSFT"), Symbol("TSLA"))
ORDERS_PER_SIDE = 3
REPORT_MOST = 40
DAYS = 4
PERIOD_SECONDS = int(PERIOD.total_seconds())
Names = Counter[str]


@dataclass(frozen=True, slots=True)
class Size:
    executions: int
    accounts: int
    checks: int


SIZES = {"full": Size(100_000, 40, 400), "gate": Size(1_200, 3, 12)}


@dataclass(slots=True)
class Order:
    symbol: Symbol
    side: OrderSide
    name: str
    fills: dict[str, BrokerExecution] = field(default_factory=dict)
    changes: dict[str, list[ExecutionChange]] = field(default_factory=dict)

    def current(self, fill: BrokerExecution) -> tuple[Decimal, Decimal, Decimal | None]:
        """Quantity, price and fee of a fill as they count now."""
        changes = self.changes.get(fill.execution_id, [])
        fee = next((each.fee for each in reversed(changes) if each.fee is not None), fill.fee)
        return (changes[-1].quantity, changes[-1].price, fee) if changes else (fill.quantity, fill.price, fee)


@dataclass(slots=True)
class Ledger:
    """What the broker of one account reported, and what it holds back."""

    harness: Harness
    random: Random
    orders: list[Order] = field(default_factory=list)
    adjusted: list[tuple[Symbol, Fill]] = field(default_factory=list)
    count: int = 0

    async def open(self) -> None:
        for symbol in SYMBOLS:
            for side in (OrderSide.BUY, OrderSide.SELL):
                for _ in range(ORDERS_PER_SIDE):
                    await self.harness.accept(replace(a_market_create("1" + 12 * "0", symbol), order_side=side))
                    (door,) = await self.harness.work()
                    self.orders.append(Order(symbol, side, client_order_id(door.action.action_id)))

    async def report(self) -> int:
        """One report of new fills, and sometimes of changes of earlier ones; returns how many it had."""
        order = self.random.choice(self.orders)
        changes = tuple(self._changes(order))
        fills = [self._fill() for _ in range(self.random.randint(1, REPORT_MOST))]
        order.fills |= {fill.execution_id: fill for fill in fills}
        report = OrderReport(
            client_order_id=order.name,
            broker_order_id=f"b-{order.name}",
            status=ReportStatus.WORKING,
            filled_quantity=exact_total(order.current(fill)[0] for fill in order.fills.values()),
            executions=tuple(fills),
            changes=changes,
        )
        left = await self.harness.report(report)
        assert not left, left
        return len(fills) + len(changes)

    def _fill(self) -> BrokerExecution:
        self.count += 1
        draw = self.random
        # Many fills at one second, and most in the order in which they are reported.
        seconds = draw.choice((self.count * 30, self.count * 30, self.count * 30 - draw.randrange(20_000)))
        return BrokerExecution(
            execution_id=f"e{self.count:06}",
            quantity=Decimal(draw.randint(1, 10**6)).scaleb(-draw.randint(0, 4)),
            price=Decimal(draw.randint(1, 10**8)).scaleb(-draw.randint(2, 6)),
            executed_at=datetime(2026, 11, 10, tzinfo=UTC) + timedelta(seconds=seconds // 60 * 60),
            fee=draw.choice((None, Decimal(0), Decimal(draw.randint(-50, 900)).scaleb(-2))),
        )

    def _changes(self, order: Order) -> Iterable[ExecutionChange]:
        """Changes of fills that were reported before; a busted fill stays busted."""
        for fill in self.random.sample(list(order.fills.values()), min(len(order.fills), self.random.randint(0, 2))):
            known = order.changes.setdefault(fill.execution_id, [])
            if known and not known[-1].quantity:
                continue
            quantity, price, _ = order.current(fill)
            is_bust = self.random.random() < 0.4
            change = ExecutionChange(
                execution_id=fill.execution_id,
                revision=len(known) + 1,
                quantity=Decimal(0) if is_bust else quantity + self.random.choice((0, 1, Decimal("0.5"))),
                price=price if is_bust else price + self.random.choice((0, Decimal("0.01"))),
                fee=None if is_bust else self.random.choice((None, Decimal("0.35"))),
            )
            known.append(change)
            yield change

    async def adjust(self) -> None:
        """The broker's position differs, and its average price is known or not."""
        draw, symbol = self.random, self.random.choice(SYMBOLS)
        change = Decimal(draw.randint(-500, 500) or 1)
        average = draw.choice((None, Decimal(draw.randint(1, 10**5)).scaleb(-2)))
        account = self.harness.account
        async with PostgresExecutionStore(self.harness.pool).account_transaction(account) as transaction:
            after = await transaction.add_to_position(symbol, change, PositionCause.UNEXPLAINED, average_price=average)
            log_position_adjusted(transaction, symbol, after - change, after, PositionCause.UNEXPLAINED, average)
        row = await self.harness.pool.fetchrow(
            "select change_no, changed_at from position_changes where account_id = $1 order by change_no desc limit 1",
            account.account_id,
        )
        assert row is not None
        price = None if average is None else Fraction(average)
        name = f"change {row['change_no']}"
        self.adjusted.append(
            (symbol, Fill(_micros(row["changed_at"]), name, Fraction(change), price, Fraction(0), takes_over=True))
        )

    def fills(self, symbol: Symbol) -> list[Fill]:
        """Everything that changed the position, as it counts now."""
        found = [fill for adjusted, fill in self.adjusted if adjusted == symbol]
        for order in self.orders:
            for fill in order.fills.values() if order.symbol == symbol else ():
                quantity, price, fee = order.current(fill)
                if quantity:
                    signed = Fraction(quantity) if order.side is OrderSide.BUY else -Fraction(quantity)
                    at = _micros(fill.executed_at)
                    found.append(Fill(at, fill.execution_id, signed, Fraction(price), Fraction(fee or 0)))
        return found


def differences(book: Book, figures: Mapping[datetime, Figures], fills: Sequence[Fill]) -> int:
    """How many figures of a book are not those of its trades by definition."""
    wanted = answer(fills, PERIOD_SECONDS * 10**6)
    found = Counter[bool]()
    found[book.quantity == wanted.quantity] += 1
    found[book.total.unknown == wanted.unknown] += 1
    found[_same(book.cost_by(CostMethod.AVERAGE), wanted.average_cost)] += 1
    found[_same(book.cost_by(CostMethod.FIFO), wanted.fifo_cost)] += 1
    ours = {_micros(period): each for period, each in figures.items()}
    for period in ours.keys() | wanted.by_period.keys():
        each = ours.get(period, Figures())
        expected = wanted.by_period.get(period, (None, None, None))
        for number, right in zip((each.realized_average, each.realized_fifo, each.fees), expected, strict=True):
            found[_same(number, right)] += 1
    return found[False]


def _same(ours: Decimal | None, theirs: Fraction | None) -> bool:
    return (None if ours is None else Fraction(ours)) == theirs


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def prove(figures: ProofFigures) -> None:
    figures.exactly("faults put into the calculation that no figure shows", len(list(unseen_faults())), 0)
    with LocalServices() as services:
        create_databases(services.postgres.url())
        migrate(services.postgres.url())
        asyncio.run(_prove(figures, services.postgres.url(), SIZES[figures.size]))


async def _prove(figures: ProofFigures, url: str, size: Size) -> None:
    async with AsyncExitStack() as stack:
        pool, draw = await open_pool(url), Random(SEED)
        stack.push_async_callback(pool.close)
        ledgers = [Ledger(Harness(pool, await a_tenant(pool)), draw) for _ in range(size.accounts)]
        for ledger in ledgers:
            await ledger.open()
        wrong, checks = Counter[str](), 0
        due, made = size.executions // size.checks, 0
        while made < size.executions:
            ledger = draw.choice(ledgers)
            made += await ledger.report()
            if draw.random() < 0.05:
                await ledger.adjust()
            if draw.random() < 0.2:
                await _save(pool, ledger)
            if made >= due * (checks + 1):
                checks += 1
                wrong["read"] += await _differing(pool, ledger, draw.choice(SYMBOLS))
        figures.at_least("executions, busts and corrections", made, size.executions)
        figures.exactly("figures read between that differ from the definition", wrong["read"], 0)
        again = await open_pool(url)
        stack.push_async_callback(again.close)
        for ledger in ledgers:
            for symbol in SYMBOLS:
                wrong["end"] += await _differing(again, ledger, symbol)
            await _save(again, ledger)
            wrong["saved"] += await _saved_differ(again, ledger)
        books = len(SYMBOLS) * len(ledgers)
        figures.at_least("books", books, books)
        figures.exactly("figures at the end, after a restart, that differ from the definition", wrong["end"], 0)
        figures.exactly("saved books that differ from a replay of all trades", wrong["saved"], 0)


async def _save(pool: Pool, ledger: Ledger) -> None:
    store = PostgresBookStore(pool)
    await SaveBooks(store, store, events_behind=1)([ledger.harness.account.slot])


async def _differing(pool: Pool, ledger: Ledger, symbol: Symbol) -> int:
    """Figures of one book that differ, from the saved ones and the news together."""
    account, store = ledger.harness.account, PostgresBookStore(pool)
    current = await ReadBooks(store)(account.organization_id, account.account_id, [symbol])
    news = current.news.get(symbol)
    figures = {} if news is not None and news.is_remade else await _saved_figures(pool, ledger, symbol)
    for period, each in ({} if news is None else news.by_period).items():
        figures.setdefault(period, Figures()).add(each)
    return differences(current.books.get(symbol, Book()), figures, ledger.fills(symbol))


async def _saved_figures(pool: Pool, ledger: Ledger, symbol: Symbol) -> dict[datetime, Figures]:
    rows = await pool.fetch(
        "select period, realized_average, realized_fifo, fees from profit_figures"
        " where account_id = $1 and symbol = $2",
        ledger.harness.account.account_id,
        symbol,
    )
    return {
        row["period"]: Figures(
            realized_average=row["realized_average"], realized_fifo=row["realized_fifo"], fees=row["fees"]
        )
        for row in rows
    }


async def _saved_differ(pool: Pool, ledger: Ledger) -> int:
    """Books that are not what all trades of the database give again."""
    account, store, found = ledger.harness.account, PostgresBookStore(pool), 0
    saved = await store.read_books(account.organization_id, account.account_id, SYMBOLS)
    for symbol in SYMBOLS:
        made, figures = await made_again(store, account.organization_id, account.account_id, symbol)
        of_symbol = await _saved_figures(pool, ledger, symbol)
        found += saved.get(symbol, Book()) != made
        found += {period: each.realized_fifo for period, each in of_symbol.items()} != {
            period: each.realized_fifo for period, each in figures.items()
        }
    return found


# Faults in the calculation: each must change a figure of some random trades.
def _newest_first(self: Book, closed: Decimal) -> Decimal:
    self.lots.reverse()
    cost = _TAKE_LOTS(self, closed)
    self.lots.reverse()
    return cost


def _whole_cost(self: Book, closed: Decimal) -> Decimal:
    cost, removed = self.cost, _REMOVE_COST(self, closed)
    self.cost = cost if self.quantity else self.cost
    return removed


def _closed_as_long(position: Decimal, change: Decimal) -> Decimal:
    return min(abs(position), abs(change)) if position * change < 0 else Decimal(0)


_TAKE_LOTS, _REMOVE_COST, _ADJUST = Book._take_lots, Book._remove_cost, Book._adjust
_FAULTS: Mapping[str, Callable[[], object]] = {
    "the newest units are closed first": lambda: mock.patch.object(Book, "_take_lots", _newest_first),
    "a sale leaves the cost": lambda: mock.patch.object(Book, "_remove_cost", _whole_cost),
    "the average is rounded to cents": lambda: mock.patch.object(profit, "COST_STEP", Decimal("0.01")),
    "a period is an hour": lambda: mock.patch.object(profit, "PERIOD", timedelta(hours=1)),
    "a short position is closed as a long one": lambda: mock.patch.object(
        profit,
        "_closed",
        lambda position, change: min(abs(position), abs(change)) if position * change < 0 else Decimal(0),
    ),
    "a position that the broker reports costs nothing": lambda: mock.patch.object(
        Book, "_adjust", lambda self, each: _ADJUST(self, replace(each, average_price=Decimal(0)))
    ),
    "fees are forgotten": lambda: mock.patch.object(
        Book, "_trade", lambda self, trade, kept=Book._trade: kept(self, replace(trade, fee=Decimal(0)))
    ),
}


def unseen_faults() -> Iterable[str]:
    """Faults with which every figure of random trades is as defined."""
    entries = _random_entries(Random(SEED))
    assert not _folded(entries), "the calculation is wrong without a fault"
    for name, fault in _FAULTS.items():
        with fault():  # type: ignore[attr-defined]
            if not _folded(entries):
                yield name


def _folded(entries: Sequence[Entry]) -> int:
    book = Book()
    try:
        figures = book.add(profit.in_order(entries))
    except Exception:  # noqa: BLE001 - a fault that ends in an error is seen
        return 1
    return differences(book, figures, [_fill_of(entry) for entry in entries])


def _fill_of(entry: Entry) -> Fill:
    at, quantity = _micros(entry.traded_at), Fraction(entry.quantity)
    if isinstance(entry, Adjustment):
        average = None if entry.average_price is None else Fraction(entry.average_price)
        return Fill(at, entry.trade_id, quantity, average, Fraction(0), takes_over=True)
    price = None if entry.price is None else Fraction(entry.price)
    return Fill(at, entry.trade_id, quantity, price, Fraction(entry.fee or 0))


def _random_entries(draw: Random) -> list[Entry]:
    entries: list[Entry] = []
    for number in range(400):
        at = datetime(2026, 11, 10, tzinfo=UTC) + timedelta(minutes=draw.randrange(3_000))
        quantity = Decimal(draw.choice((-1, 1)) * draw.randint(1, 99))
        price = Decimal(draw.randint(1, 999)).scaleb(-1)
        if number % 50 == 7:
            entries.append(Adjustment(trade_id=f"a{number}", traded_at=at, quantity=quantity, average_price=price))
        else:
            fee = Decimal(draw.randint(0, 9)).scaleb(-1)
            entries.append(Trade(trade_id=f"t{number}", traded_at=at, quantity=quantity, price=price, fee=fee))
    return entries

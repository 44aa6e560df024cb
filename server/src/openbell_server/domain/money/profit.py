"""Cost and profit of a position in one symbol, by average cost and by lots (first in, first out).

Trades count in the order in which they were made, whenever they were reported: the figures depend on the trades only.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum
from typing import Final

from openbell_server.domain.orders.order_terms import EXACT

# The average cost of a part of a position is rounded to this; the remainder stays with the rest of the position, so the
# sum of both is exact.
COST_STEP: Final = Decimal("1E-10")
_ROUNDED: Final = Context(prec=120, rounding=ROUND_HALF_EVEN)
# Figures are kept by quarter hours: in every time zone a day is a whole number of them.
PERIOD: Final = timedelta(minutes=15)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = Decimal(0)


class CostMethod(StrEnum):
    """What the units cost that a trade closes."""

    # As much as all open units on average.
    AVERAGE = "AVERAGE"
    # As much as the units that were opened first.
    FIFO = "FIFO"


class OutOfOrder(Exception):
    """A trade was made before the last one of the book: the book must be made again from all trades."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """A fill."""

    # Orders trades of the same time.
    trade_id: str
    traded_at: datetime
    # Negative for a sale.
    quantity: Decimal
    # None: unknown, of a fill that was not made here and whose price the broker does not report.
    price: Decimal | None
    # None: the broker does not report it.
    fee: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """A change of the position that no trade explains, as the broker reported the position."""

    trade_id: str
    traded_at: datetime
    quantity: Decimal
    # Of the whole position after it; None: unknown.
    average_price: Decimal | None


Entry = Trade | Adjustment


@dataclass(frozen=True, slots=True)
class Lot:
    """Units that were opened by one trade; negative if short."""

    quantity: Decimal
    price: Decimal
    opened_at: datetime
    trade_id: str


@dataclass(slots=True)
class Figures:
    """What a number of trades brought, before fees."""

    realized_average: Decimal = _NOTHING
    realized_fifo: Decimal = _NOTHING
    fees: Decimal = _NOTHING
    bought_quantity: Decimal = _NOTHING
    bought_value: Decimal = _NOTHING
    sold_quantity: Decimal = _NOTHING
    sold_value: Decimal = _NOTHING
    trades: int = 0
    # Changes whose price or cost is unknown: no figure includes what they brought.
    unknown: int = 0
    # Trades whose fee the broker did not report.
    without_fee: int = 0

    def realized(self, method: CostMethod) -> Decimal:
        return self.realized_average if method is CostMethod.AVERAGE else self.realized_fifo

    def add(self, other: "Figures") -> None:
        for name in ("realized_average", "realized_fifo", "fees", *_TURNOVER):
            setattr(self, name, EXACT.add(getattr(self, name), getattr(other, name)))
        self.trades += other.trades
        self.unknown += other.unknown
        self.without_fee += other.without_fee


_TURNOVER: Final = ("bought_quantity", "bought_value", "sold_quantity", "sold_value")


@dataclass(slots=True)
class Book:
    """A position with its cost, and what its trades brought."""

    quantity: Decimal = _NOTHING
    # Of the open units by average cost, negative if short; None while the cost of some is unknown.
    cost: Decimal | None = _NOTHING
    # Oldest first; empty while the cost is unknown.
    lots: deque[Lot] = field(default_factory=deque)
    total: Figures = field(default_factory=Figures)
    # When the last entry was made, and its id.
    last: tuple[datetime, str] | None = None

    def add(self, entries: Iterable[Entry]) -> dict[datetime, Figures]:
        """Add entries and return their figures by period; raises OutOfOrder before the first one that is too old."""
        found: dict[datetime, Figures] = {}
        for entry in entries:
            place = (entry.traded_at, entry.trade_id)
            if self.last is not None and place <= self.last:
                raise OutOfOrder(entry.trade_id)
            self.last = place
            gain = self._trade(entry) if isinstance(entry, Trade) else self._adjust(entry)
            self.total.add(gain)
            found.setdefault(period_of(entry.traded_at), Figures()).add(gain)
        return found

    def cost_by(self, method: CostMethod) -> Decimal | None:
        """What the open units cost; None if that is unknown."""
        if method is CostMethod.AVERAGE or self.cost is None:
            return self.cost
        total = _NOTHING
        for lot in self.lots:
            total = EXACT.add(total, EXACT.multiply(lot.quantity, lot.price))
        return total

    def _trade(self, trade: Trade) -> Figures:
        gain = Figures(trades=1, fees=trade.fee or _NOTHING, without_fee=int(trade.fee is None))
        if trade.price is None:
            self._move_unpriced(trade.quantity, gain)
            return gain
        value = EXACT.multiply(abs(trade.quantity), trade.price)
        if trade.quantity > 0:
            gain.bought_quantity, gain.bought_value = trade.quantity, value
        else:
            gain.sold_quantity, gain.sold_value = abs(trade.quantity), value
        closed = _closed(self.quantity, trade.quantity)
        if closed:
            self._close(closed, trade.price, gain)
        opened = EXACT.add(trade.quantity, closed)
        if opened:
            self._open(Lot(opened, trade.price, trade.traded_at, trade.trade_id))
        return gain

    def _close(self, closed: Decimal, price: Decimal, gain: Figures) -> None:
        """Take `closed` units, negative if short, out of the position at a price."""
        value = EXACT.multiply(closed, price)
        if self.cost is None:
            gain.unknown = 1
            self._take_quantity(closed)
            return
        removed = self._remove_cost(closed)
        gain.realized_average = EXACT.subtract(value, removed)
        gain.realized_fifo = EXACT.subtract(value, self._take_lots(closed))

    def _open(self, lot: Lot) -> None:
        self.quantity = EXACT.add(self.quantity, lot.quantity)
        if self.cost is None:
            return
        self.cost = EXACT.add(self.cost, EXACT.multiply(lot.quantity, lot.price))
        last = self.lots[-1] if self.lots else None
        if last is not None and last.price == lot.price:
            # Units that cost the same are one lot, as old as the first of them: no figure depends on the difference.
            joined = EXACT.add(last.quantity, lot.quantity)
            self.lots[-1] = Lot(joined, last.price, last.opened_at, last.trade_id)
        else:
            self.lots.append(lot)

    def _move_unpriced(self, change: Decimal, gain: Figures) -> None:
        gain.unknown = 1
        closed = _closed(self.quantity, change)
        if closed and self.cost is not None:
            self._remove_cost(closed)
            self._take_lots(closed)
        elif closed:
            self._take_quantity(closed)
        opened = EXACT.add(change, closed)
        if opened:
            self.quantity = EXACT.add(self.quantity, opened)
            self.cost = None
            self.lots.clear()

    def _adjust(self, adjustment: Adjustment) -> Figures:
        gain = Figures()
        if adjustment.average_price is None:
            self._move_unpriced(adjustment.quantity, gain)
            return gain
        gain.unknown = int(bool(self.quantity))
        self.quantity = EXACT.add(self.quantity, adjustment.quantity)
        self.cost = EXACT.multiply(self.quantity, adjustment.average_price)
        self.lots.clear()
        if self.quantity:
            self.lots.append(Lot(self.quantity, adjustment.average_price, adjustment.traded_at, adjustment.trade_id))
        return gain

    def _remove_cost(self, closed: Decimal) -> Decimal:
        """Reduce the position and its cost; returns the cost of the closed units."""
        assert self.cost is not None
        removed = self.cost
        if closed != self.quantity:
            removed = divided(EXACT.multiply(self.cost, closed), self.quantity)
        self.cost = EXACT.subtract(self.cost, removed)
        self.quantity = EXACT.subtract(self.quantity, closed)
        return removed

    def _take_quantity(self, closed: Decimal) -> None:
        """Reduce a position of unknown cost; once it is flat, its cost is known again."""
        self.quantity = EXACT.subtract(self.quantity, closed)
        if not self.quantity:
            self.cost = _NOTHING

    def _take_lots(self, closed: Decimal) -> Decimal:
        """Remove the oldest units; returns their cost."""
        cost = _NOTHING
        while closed:  # ends, because the lots add up to the position
            lot = self.lots.popleft()
            taken = closed if abs(closed) < abs(lot.quantity) else lot.quantity
            cost = EXACT.add(cost, EXACT.multiply(taken, lot.price))
            closed = EXACT.subtract(closed, taken)
            left = EXACT.subtract(lot.quantity, taken)
            if left:
                self.lots.appendleft(Lot(left, lot.price, lot.opened_at, lot.trade_id))
        return cost


def period_of(moment: datetime) -> datetime:
    """The start of the quarter hour."""
    return moment - (moment - _EPOCH) % PERIOD


def in_order(entries: Iterable[Entry]) -> Iterator[Entry]:
    return iter(sorted(entries, key=lambda entry: (entry.traded_at, entry.trade_id)))


def divided(number: Decimal, by: Decimal) -> Decimal:
    """Exact where the quotient has at most ten decimals, else rounded to them."""
    return _ROUNDED.divide(number, by).quantize(COST_STEP, context=_ROUNDED).normalize(_ROUNDED)


def _closed(position: Decimal, change: Decimal) -> Decimal:
    """How many units of the position the change closes, negative if they are short."""
    if not position or (position > 0) == (change > 0):
        return _NOTHING
    smaller = min(abs(position), abs(change))
    return smaller if position > 0 else -smaller

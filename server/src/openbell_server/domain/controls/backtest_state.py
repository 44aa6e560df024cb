"""An account's orders, position and equal orders, rebuilt from its record entry by entry."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Exposure
from openbell_server.domain.controls.kinds.exposure import could_trade
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import EXACT, OrderSide, Terms

# Only the newest equal orders count.
_EQUAL_ORDERS_MAX: Final = 16
_NONE: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSnapshot:
    """An order after one of its events."""

    # The intent's id; the broker's id for an order that Openbell did not send.
    key: IntentId | str
    symbol: Symbol
    order_side: OrderSide
    terms: Terms
    filled_quantity: Decimal
    is_open: bool


@dataclass(frozen=True, slots=True)
class ReplaceSettled:
    """A replace that can no longer change its order; the order's snapshots show whether it did."""

    intent_id: IntentId
    seq: int


@dataclass(frozen=True, slots=True)
class PositionAdjusted:
    """The broker's position differed from the sum of fills."""

    symbol: Symbol
    change: Decimal


@dataclass(slots=True)
class _Order:
    symbol: Symbol
    is_buy: bool
    order_side: OrderSide
    terms: Terms
    filled_quantity: Decimal
    is_open: bool = True
    # Quantities and limit prices of replaces that the broker may still accept, by their seq.
    replaces: dict[int, tuple[Decimal, Decimal | None]] = field(default_factory=dict)

    @property
    def working(self) -> Decimal:
        if not self.is_open:
            return _NONE
        most = self.terms.quantity
        if self.replaces:
            most = max(most, *(quantity for quantity, _ in self.replaces.values()))
        return max(_NONE, EXACT.subtract(most, self.filled_quantity))

    @property
    def nearest_limit(self) -> Decimal | None:
        """The limit that comes nearest to the other side, of the terms and of the replaces; None: there is no limit."""
        limits = [limit for _, limit in self.replaces.values() if limit is not None]
        if self.terms.limit_price is None or not limits:
            return self.terms.limit_price
        return max(self.terms.limit_price, *limits) if self.is_buy else min(self.terms.limit_price, *limits)


@dataclass(slots=True)
class _Book:
    buys: Decimal = _NONE
    sells: Decimal = _NONE
    sides: dict[OrderSide, int] = field(default_factory=lambda: dict.fromkeys(OrderSide, 0))
    # Open orders by their identity, those of BUY apart.
    open: dict[bool, dict[int, _Order]] = field(default_factory=lambda: {True: {}, False: {}})

    @property
    def orders(self) -> int:
        return sum(self.sides.values())


class RecordedState:
    """What the rules count, rebuilt from the record alone.

    Begins with open orders and positions; positions of `unknown` symbols are not known, and with None no position is.
    """

    def __init__(
        self,
        orders: Iterable[OrderSnapshot],
        positions: Mapping[Symbol, Decimal] | None,
        unknown: Collection[Symbol] = (),
    ) -> None:
        self._orders: dict[IntentId | str, _Order] = {}
        self._books: dict[Symbol, _Book] = {}
        self._open = 0
        self._positions = None if positions is None else dict(positions)
        self._unknown = frozenset(unknown)
        self._equal: dict[tuple[object, ...], deque[datetime]] = {}
        for order in orders:
            self._add(order.key, order.symbol, order.order_side, order.terms, order.filled_quantity, order.is_open)

    def order_of(self, intent_id: IntentId) -> tuple[Terms, Decimal] | None:
        order = self._orders.get(intent_id)
        return None if order is None else (order.terms, order.filled_quantity)

    def accepted(self, command: CommandFacts, intent_id: IntentId, seq: int, at: datetime) -> None:
        if command.action_type is ActionType.CREATE:
            self._add(intent_id, command.symbol, command.order_side, command.terms, _NONE)
            self._equal.setdefault(_likeness(command), deque(maxlen=_EQUAL_ORDERS_MAX)).appendleft(at)
        elif command.action_type is ActionType.REPLACE:
            self.replacing(intent_id, seq, command.terms.quantity, command.terms.limit_price)

    def update(self, snapshot: OrderSnapshot) -> None:
        """Apply a snapshot; new fills move the position."""
        order = self._orders.get(snapshot.key)
        if order is None:
            self._add(snapshot.key, snapshot.symbol, snapshot.order_side, snapshot.terms, _NONE)
            order = self._orders[snapshot.key]
        change = EXACT.subtract(snapshot.filled_quantity, order.filled_quantity)
        if change:
            self.moved(order.symbol, change if order.is_buy else -change)
        self._count(order, -1)
        order.terms, order.filled_quantity, order.is_open = snapshot.terms, snapshot.filled_quantity, snapshot.is_open
        self._count(order, 1)

    def replacing(self, intent_id: IntentId, seq: int, quantity: Decimal, limit_price: Decimal | None) -> None:
        """Count a replace in flight: the order may become as large as it requests, and get its price."""
        order = self._orders.get(intent_id)
        if order is not None:
            self._count(order, -1)
            order.replaces[seq] = quantity, limit_price
            self._count(order, 1)

    def settled(self, settled: ReplaceSettled) -> None:
        order = self._orders.get(settled.intent_id)
        if order is not None and settled.seq in order.replaces:
            self._count(order, -1)
            del order.replaces[settled.seq]
            self._count(order, 1)

    def moved(self, symbol: Symbol, change: Decimal) -> None:
        if self._positions is not None:
            self._positions[symbol] = EXACT.add(self._positions.get(symbol, _NONE), change)

    def exposure(
        self, command: CommandFacts, intent_id: IntentId | None, now: datetime, *, matches: bool = True
    ) -> Exposure:
        """The account's exposure, without the order that the command is about; on demand with what it could match."""
        book = self._books.get(command.symbol) or _Book()
        own = self._orders.get(intent_id) if intent_id is not None else None
        own = own if own is not None and own.is_open else None
        less = own.working if own is not None else _NONE
        is_own = int(own is not None)
        position = None
        if self._positions is not None and command.symbol not in self._unknown:
            position = self._positions.get(command.symbol, _NONE)
        is_buy = command.order_side is OrderSide.BUY
        limits = [order.nearest_limit for order in book.open[not is_buy].values()] if matches else []
        limit = command.terms.limit_price
        return Exposure(
            position=position,
            position_as_of=None if position is None else now,
            working_buys=EXACT.subtract(book.buys, less) if own is not None and own.is_buy else book.buys,
            working_sells=EXACT.subtract(book.sells, less) if own is not None and not own.is_buy else book.sells,
            open_orders=self._open - is_own,
            open_orders_of_symbol=book.orders - is_own,
            open_orders_of_side=book.sides[command.order_side] - is_own,
            matching_orders=sum(could_trade(is_buy=is_buy, limit=limit, other_limit=other) for other in limits),
            matching_price=_nearest(limits, is_buy=is_buy),
        )

    def holds_other_symbols(self, symbol: Symbol) -> bool:
        """Whether something is held or may be, or is not known, in another symbol."""
        if self._positions is None or self._unknown - {symbol}:
            return True
        held = any(quantity for each, quantity in self._positions.items() if each != symbol)
        return held or any(book.buys or book.sells for each, book in self._books.items() if each != symbol)

    def equal_orders(self, command: CommandFacts) -> list[datetime]:
        """When equal orders were accepted, newest first."""
        return list(self._equal.get(_likeness(command), ()))

    def _add(
        self,
        key: IntentId | str,
        symbol: Symbol,
        order_side: OrderSide,
        terms: Terms,
        filled_quantity: Decimal,
        is_open: bool = True,
    ) -> None:
        order = _Order(symbol, order_side is OrderSide.BUY, order_side, terms, filled_quantity, is_open)
        self._orders[key] = order
        self._count(order, 1)

    def _count(self, order: _Order, sign: int) -> None:
        if not order.is_open:
            return
        book = self._books.get(order.symbol)
        if book is None:
            book = self._books[order.symbol] = _Book()
        self._open += sign
        if sign > 0:
            book.open[order.is_buy][id(order)] = order
        else:
            del book.open[order.is_buy][id(order)]
        book.sides[order.order_side] += sign
        working = order.working if sign > 0 else -order.working
        if order.is_buy:
            book.buys = EXACT.add(book.buys, working)
        else:
            book.sells = EXACT.add(book.sells, working)


def _nearest(limits: list[Decimal | None], *, is_buy: bool) -> Decimal | None:
    """Of the limits of the other side the nearest to a BUY, or to a SELL."""
    prices = [limit for limit in limits if limit is not None]
    if not prices or len(prices) < len(limits):
        return None
    return min(prices) if is_buy else max(prices)


def _likeness(command: CommandFacts) -> tuple[object, ...]:
    """The key under which two orders are equal; 1.0 and 1.00 are."""
    terms = command.terms
    return (
        command.symbol,
        command.order_side,
        command.order_type,
        terms.quantity,
        terms.limit_price,
        terms.stop_price,
        terms.time_in_force,
    )

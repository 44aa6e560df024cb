"""An account's orders, position and equal orders as its record tells them, one entry after the other."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final

from openbell_server.domain.control_facts import Asked, Exposure
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import EXACT, OrderSide, Terms

# Of equal orders the newest decide.
_EQUAL_ORDERS_MAX: Final = 16
_NONE: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTold:
    """How an order stood once something had happened to it."""

    # The id of its intent; the broker's where it is not ours.
    key: IntentId | str
    symbol: Symbol
    order_side: OrderSide
    terms: Terms
    filled_quantity: Decimal
    is_open: bool


@dataclass(frozen=True, slots=True)
class ReplaceSettled:
    """A replace that changes its order no more; whether it did, the order tells."""

    intent_id: IntentId
    seq: int


@dataclass(frozen=True, slots=True)
class PositionAdjusted:
    """The broker held something else than was filled."""

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
    # The quantities that replaces ask for which may still be taken, by their seq.
    replaces: dict[int, Decimal] = field(default_factory=dict)

    @property
    def working(self) -> Decimal:
        """What may still fill at the most."""
        if not self.is_open:
            return _NONE
        most = max(self.terms.quantity, *self.replaces.values()) if self.replaces else self.terms.quantity
        return max(_NONE, EXACT.subtract(most, self.filled_quantity))


@dataclass(slots=True)
class _Book:
    """What is open of one symbol."""

    buys: Decimal = _NONE
    sells: Decimal = _NONE
    sides: dict[OrderSide, int] = field(default_factory=lambda: dict.fromkeys(OrderSide, 0))

    @property
    def orders(self) -> int:
        return sum(self.sides.values())


class RecordedState:
    """What the rules count, from the record alone: whatever was counted when commands were judged plays no part."""

    def __init__(
        self,
        orders: Iterable[OrderTold],
        positions: Mapping[Symbol, Decimal] | None,
        unknown: Collection[Symbol] = (),
    ) -> None:
        """Begin with orders as they stood, and with positions; nobody knows those of some symbols, or with None any."""
        self._orders: dict[IntentId | str, _Order] = {}
        self._books: dict[Symbol, _Book] = {}
        self._open = 0
        self._positions = None if positions is None else dict(positions)
        self._unknown = frozenset(unknown)
        self._equal: dict[tuple[object, ...], deque[datetime]] = {}
        for told in orders:
            self._add(told.key, told.symbol, told.order_side, told.terms, told.filled_quantity, told.is_open)

    def order_of(self, intent_id: IntentId) -> tuple[Terms, Decimal] | None:
        """The terms of an open order and what of it has filled."""
        order = self._orders.get(intent_id)
        return None if order is None else (order.terms, order.filled_quantity)

    def accepted(self, asked: Asked, intent_id: IntentId, seq: int, at: datetime) -> None:
        """A command was recorded: its order counts from now on."""
        if asked.action_type is ActionType.CREATE:
            self._add(intent_id, asked.symbol, asked.order_side, asked.terms, _NONE)
            self._equal.setdefault(_likeness(asked), deque(maxlen=_EQUAL_ORDERS_MAX)).appendleft(at)
        elif asked.action_type is ActionType.REPLACE:
            self.replacing(intent_id, seq, asked.terms.quantity)

    def told(self, told: OrderTold) -> None:
        """Take over how an order stands; what it filled since moves the position."""
        order = self._orders.get(told.key)
        if order is None:
            self._add(told.key, told.symbol, told.order_side, told.terms, _NONE)
            order = self._orders[told.key]
        change = EXACT.subtract(told.filled_quantity, order.filled_quantity)
        if change:
            self.moved(order.symbol, change if order.is_buy else -change)
        self._count(order, -1)
        order.terms, order.filled_quantity, order.is_open = told.terms, told.filled_quantity, told.is_open
        self._count(order, 1)

    def replacing(self, intent_id: IntentId, seq: int, quantity: Decimal) -> None:
        """A replace is on its way: the order may become as large as it asks for."""
        order = self._orders.get(intent_id)
        if order is not None:
            self._count(order, -1)
            order.replaces[seq] = quantity
            self._count(order, 1)

    def settled(self, settled: ReplaceSettled) -> None:
        """Count a replace no more."""
        order = self._orders.get(settled.intent_id)
        if order is not None and settled.seq in order.replaces:
            self._count(order, -1)
            del order.replaces[settled.seq]
            self._count(order, 1)

    def moved(self, symbol: Symbol, change: Decimal) -> None:
        """The position changed."""
        if self._positions is not None:
            self._positions[symbol] = EXACT.add(self._positions.get(symbol, _NONE), change)

    def exposure(self, asked: Asked, intent_id: IntentId | None, now: datetime) -> Exposure:
        """What the account had and might get, without the order that the command is about."""
        book = self._books.get(asked.symbol) or _Book()
        own = self._orders.get(intent_id) if intent_id is not None else None
        own = own if own is not None and own.is_open else None
        less = own.working if own is not None else _NONE
        is_own = int(own is not None)
        position = None
        if self._positions is not None and asked.symbol not in self._unknown:
            position = self._positions.get(asked.symbol, _NONE)
        return Exposure(
            position=position,
            position_as_of=None if position is None else now,
            working_buys=EXACT.subtract(book.buys, less) if own is not None and own.is_buy else book.buys,
            working_sells=EXACT.subtract(book.sells, less) if own is not None and not own.is_buy else book.sells,
            open_orders=self._open - is_own,
            open_orders_of_symbol=book.orders - is_own,
            open_orders_of_side=book.sides[asked.order_side] - is_own,
        )

    def equal_orders(self, asked: Asked) -> list[datetime]:
        """When equal orders were accepted, newest first."""
        return list(self._equal.get(_likeness(asked), ()))

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
        """Add an order to what is open, or take it out again."""
        if not order.is_open:
            return
        book = self._books.get(order.symbol)
        if book is None:
            book = self._books[order.symbol] = _Book()
        self._open += sign
        book.sides[order.order_side] += sign
        working = order.working if sign > 0 else -order.working
        if order.is_buy:
            book.buys = EXACT.add(book.buys, working)
        else:
            book.sells = EXACT.add(book.sells, working)


def _likeness(asked: Asked) -> tuple[object, ...]:
    """What two orders have in common that are taken for the same one; 1.0 and 1.00 are."""
    terms = asked.terms
    return (
        asked.symbol,
        asked.order_side,
        asked.order_type,
        terms.quantity,
        terms.limit_price,
        terms.stop_price,
        terms.time_in_force,
    )

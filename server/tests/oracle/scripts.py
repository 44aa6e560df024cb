"""Seeded random scripts: steps of a price, and what is asked of one order after each of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from openbell_exchange.matching import Quote
from openbell_server.domain.orders.order_terms import OrderSide, OrderSpec, OrderType, Terms, TimeInForce

ORDERS_MAX = 6
_STEPS = 14
_KINDS = (
    TimeInForce.DAY,
    TimeInForce.DAY,
    TimeInForce.EXT,
    TimeInForce.GOOD_TILL_CANCEL,
    TimeInForce.GOOD_TILL_CANCEL,
    TimeInForce.IMMEDIATE_OR_CANCEL,
    TimeInForce.FILL_OR_KILL,
)


@dataclass(frozen=True)
class Submit:
    """A new order."""

    side: OrderSide
    spec: OrderSpec


@dataclass(frozen=True)
class Replace:
    """Other terms, with the time in force that it has."""

    terms: Terms


@dataclass(frozen=True)
class Cancel:
    """No more of it."""


Command = Submit | Replace | Cancel


@dataclass(frozen=True)
class Script:
    """The market's quotes, None for the bell that ends a day, and for each order what is asked after which of them."""

    quotes: tuple[Quote | None, ...]
    orders: tuple[dict[int, tuple[Command, ...]], ...]


def make_script(seed: int, number: int) -> Script:
    """The same for the same numbers."""
    chance = Random(f"{seed} {number}")
    cents = 5_000
    quotes: list[Quote | None] = []
    for _ in range(_STEPS):
        cents += chance.choice((-7, -3, -2, -1, 0, 1, 2, 3, 7))
        size = Decimal(chance.choice((1, 5, 10, 20, 50)))
        quotes.append(Quote(_price(cents), size))
    if chance.random() < 0.5:
        quotes[chance.randrange(4, _STEPS - 2)] = None
    orders = tuple(dict(_commands(chance, quotes)) for _ in range(chance.randint(1, ORDERS_MAX)))
    return Script(tuple(quotes), orders)


def _commands(chance: Random, quotes: list[Quote | None]) -> Iterator[tuple[int, tuple[Command, ...]]]:
    step = chance.choice([step for step in range(_STEPS - 3) if quotes[step]])
    order_type, kind = chance.choice(list(OrderType)), chance.choice(_KINDS)
    terms = _terms(chance, order_type, kind)
    asked: list[Command] = [
        Submit(
            chance.choice(list(OrderSide)),
            OrderSpec(
                order_type=order_type,
                quantity=terms.quantity,
                limit_price=terms.limit_price,
                stop_price=terms.stop_price,
                time_in_force=kind,
            ),
        )
    ]
    while True:
        draw = chance.random()
        if draw < 0.25 and order_type is not OrderType.MARKET:
            changed = _terms(chance, order_type, kind)
            if changed != terms:
                terms = changed
                asked.append(Replace(terms))
        elif draw < 0.35:
            asked.append(Cancel())
        else:
            later = [each for each in range(step + 1, _STEPS) if quotes[each]]
            if asked:
                yield step, tuple(asked)
            if not later or draw > 0.85:
                return
            step, asked = chance.choice(later[:3]), []


def _terms(chance: Random, order_type: OrderType, kind: TimeInForce) -> Terms:
    near = [_price(5_000 + chance.randint(-12, 12)) for _ in range(2)]
    return Terms(
        quantity=Decimal(chance.choice((1, 5, 8, 10, 20, 30, 60))),
        limit_price=near[0] if order_type in {OrderType.LIMIT, OrderType.STOP_LIMIT} else None,
        stop_price=near[1] if order_type in {OrderType.STOP, OrderType.STOP_LIMIT} else None,
        time_in_force=kind,
    )


def _price(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)

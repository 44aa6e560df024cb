"""The same controls by fractions, which never round: what a value is, and between which prices an order may be."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from openbell_server.domain.controls.evaluate import evaluate
from openbell_server.domain.controls.facts import Gate, Rate
from openbell_server.domain.controls.findings import Finding
from openbell_server.domain.orders.order_terms import EXACT, PLACES_MAX, OrderSide
from support.builders.control_commands import BUY, NOW, a_book, a_rule, asks, knows, priced, repeated, share


@dataclass(frozen=True, kw_only=True)
class Valued:
    """An order that a limit of values judges; kind is limit, stop or market."""

    side: OrderSide
    kind: str
    quantity: str
    price: str
    multiplier: str
    rate: str
    buffer: str

    @property
    def one(self) -> Fraction:
        one = Fraction(self.price) * Fraction(self.multiplier) * Fraction(self.rate)
        return one if self.side is BUY and self.kind == "limit" else one * (1 + Fraction(self.buffer) / 100)

    @property
    def value(self) -> Fraction:
        return self.one * Fraction(self.quantity)

    def judged(self, bound: str) -> Finding:
        facts = knows(
            instrument=share(multiplier=Decimal(self.multiplier), quote_currency="EUR"),
            price=priced(self.price),
            rates_of_exchange={("EUR", "USD"): Rate(rate=Decimal(self.rate), as_of=NOW)},
        )
        command = asks(self.side, self.quantity, **({} if self.kind == "market" else {self.kind: self.price}))
        parameters = {"value": bound, "currency": "USD", "buffer_percent": self.buffer}
        return only_line("NOTIONAL_MAX", parameters, command, facts)


@dataclass(frozen=True, kw_only=True)
class Collared:
    """A price beside a reference; kind is limit or stop."""

    side: OrderSide
    kind: str
    reference: str
    up: str
    down: str
    passive: str | None

    @property
    def band(self) -> tuple[Fraction | None, Fraction | None]:
        """The lowest and the highest price that pass; None: there is none."""
        above, below = Fraction(self.up), Fraction(self.down)
        wide = None if self.passive is None else Fraction(self.passive)
        lowest: Fraction | None = below
        highest: Fraction | None = above
        if self.kind == "stop":
            lowest, highest = max(below, wide or below), max(above, wide or above)
        elif self.side is BUY:
            lowest = wide
        else:
            highest = wide
        market = Fraction(self.reference)
        return (
            None if lowest is None else market * (1 - lowest / 100),
            None if highest is None else market * (1 + highest / 100),
        )

    def passes(self, price: str) -> bool:
        lowest, highest = self.band
        return (lowest is None or lowest <= Fraction(price)) and (highest is None or Fraction(price) <= highest)

    def judged(self, price: str) -> Finding:
        wide = {} if self.passive is None else {"passive_percent": self.passive}
        command = asks(self.side, limit=price) if self.kind == "limit" else asks(self.side, stop=price)
        parameters = {"up_percent": self.up, "down_percent": self.down, **wide}
        return only_line("PRICE_COLLAR", parameters, command, knows(price=priced(self.reference)))


def only_line(code: str, parameters: dict[str, Any], command: Any, facts: Any) -> Finding:
    [line] = evaluate(a_book(a_rule(code, parameters)), command, facts, Gate.ACCEPT)
    assert line.missing is None
    assert repeated(line) is not line.refuses
    return line


def scaled(units: int, places: int) -> str:
    """So many units of the last place, as text; Python's own context would round long ones."""
    return format(EXACT.scaleb(Decimal(units), -places), "f")


def written(value: Fraction | None) -> list[str]:
    """The value and the numbers next to it, where they are numbers that a rule or an order can have."""
    units = Fraction(0) if value is None else value * 10**PLACES_MAX
    # What has more digits lies between two of them.
    around = range(int(units) - 1, int(units) + 3)
    return [scaled(unit, PLACES_MAX) for unit in around if 0 < unit < 10 ** (2 * PLACES_MAX)]


def disagreements(count: int, seed: int) -> tuple[int, list[str]]:
    """How many verdicts at and next to an edge were compared, and those that fractions say otherwise."""
    chance, compared, wrong = Random(seed), 0, []

    def number() -> str:
        digits = chance.choice((2, 4, 18, 24, 36))
        return scaled(chance.randrange(1, 10**digits), min(digits, PLACES_MAX))

    def percent() -> str:
        return scaled(chance.randrange(10_001), 2)

    for _ in range(count):
        side, reference = chance.choice(list(OrderSide)), number()
        names = ("quantity", "price", "multiplier", "rate")
        kind = chance.choice(("limit", "stop", "market"))
        order = Valued(side=side, kind=kind, **{name: number() for name in names}, buffer=percent())
        for bound in written(order.value):
            compared += 1
            if order.judged(bound).refuses is not (order.value > Fraction(bound)):
                wrong.append(f"{order} against {bound}")
        passive = chance.choice((None, percent()))
        kind = chance.choice(("limit", "stop"))
        collar = Collared(side=side, kind=kind, reference=reference, up=percent(), down=percent(), passive=passive)
        for price in {price for edge in collar.band for price in written(edge)}:
            compared += 1
            if collar.judged(price).refuses is collar.passes(price):
                wrong.append(f"{collar} against {price}")
    return compared, wrong

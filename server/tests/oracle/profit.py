"""Cost and profit by their definition, in fractions: all trades are walked from the first one for each question."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Fill:
    """A fill as it counts at last; quantity is negative for a sale, price None if unknown.

    With `takes_over`, what the broker reported instead of a fill: price is what a unit of the whole position cost.
    """

    at: int
    name: str
    quantity: Fraction
    price: Fraction | None
    fee: Fraction
    takes_over: bool = False


@dataclass
class Answer:
    quantity: Fraction
    average_cost: Fraction | None
    fifo_cost: Fraction | None
    # By period: realized by average, by lots, fees.
    by_period: dict[int, tuple[Fraction, Fraction, Fraction]]
    unknown: int


def rounded(number: Fraction, digits: int = 10) -> Fraction:
    """To so many decimals, a half to the even one."""
    scaled = number * 10**digits
    low = scaled.numerator // scaled.denominator
    rest = scaled - low
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
    return Fraction(low + up, 10**digits)


def taken_from(queue: list[list[Fraction]], out: Fraction) -> Fraction:
    """Take units from the front of the queue; returns what they cost."""
    cost = Fraction(0)
    while out:
        taken = min(out, queue[0][0])
        cost += taken * queue[0][1]
        queue[0][0] -= taken
        out -= taken
        if not queue[0][0]:
            queue.pop(0)
    return cost


def answer(fills: Sequence[Fill], period: int) -> Answer:
    held = Fraction(0)
    cost: Fraction | None = Fraction(0)
    # One unit price per opened quantity, oldest first.
    queue: list[list[Fraction]] = []
    by_period: dict[int, tuple[Fraction, Fraction, Fraction]] = {}
    unknown = 0
    for fill in sorted(fills, key=lambda fill: (fill.at, fill.name)):
        start = fill.at - fill.at % period
        average, fifo = Fraction(0), Fraction(0)
        if fill.takes_over and fill.price is not None:
            unknown += bool(held)
            held += fill.quantity
            cost, queue = held * fill.price, [[abs(held), fill.price]] if held else []
            by_period.setdefault(start, (Fraction(0), Fraction(0), Fraction(0)))
            continue
        away = fill.quantity
        is_unknown = fill.price is None
        if held * away < 0:
            out = min(abs(held), abs(away))
            sign = 1 if held > 0 else -1
            if cost is None:
                is_unknown = True
            else:
                gone = cost if out == abs(held) else rounded(cost * out / abs(held))
                oldest = sign * taken_from(queue, out)
                cost -= gone
                if fill.price is not None:
                    average = sign * out * fill.price - gone
                    fifo = sign * out * fill.price - oldest
            held -= sign * out
            away += sign * out
            if not held:
                cost = Fraction(0)
        if away:
            held += away
            if fill.price is None:
                cost = None
                queue = []
            elif cost is not None:
                cost += away * fill.price
                queue.append([abs(away), fill.price])
        unknown += is_unknown
        before = by_period.get(start, (Fraction(0), Fraction(0), Fraction(0)))
        by_period[start] = (before[0] + average, before[1] + fifo, before[2] + fill.fee)
    sign = 1 if held > 0 else -1
    lots = None if cost is None else sum((size * price * sign for size, price in queue), Fraction(0))
    return Answer(held, cost, lots, by_period, unknown)

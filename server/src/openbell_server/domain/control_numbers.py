"""Exact numbers of rules: values, percents and ages; nothing is rounded before it was compared."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Context, Decimal
from typing import Final

from openbell_server.domain.control_facts import Asked, Facts, ReferencePrice
from openbell_server.domain.control_times import utc_text
from openbell_server.domain.orders import EXACT

NOTHING: Final = Decimal(0)
# A value in another currency is a product of five of our numbers, each of up to 36 digits.
WIDE: Final = Context(prec=400)
_MILLISECOND: Final = timedelta(milliseconds=1)


def shown(number: Decimal) -> str:
    """A number that was calculated, without exponent and without idle zeros."""
    normal = WIDE.normalize(number)
    return format(normal or NOTHING, "f")


def product(*factors: Decimal) -> Decimal:
    """All of them multiplied, unrounded."""
    value = Decimal(1)
    for factor in factors:
        value = WIDE.multiply(value, factor)
    return value


def moved(price: Decimal, percent: Decimal) -> Decimal:
    """A price with so many percent of it on top; fewer than none takes away."""
    return WIDE.scaleb(WIDE.multiply(price, WIDE.add(Decimal(100), percent)), -2)


def at_work(asked: Asked) -> Decimal:
    """What may still fill of the order if the command is done: fills are part of the position already."""
    return max(NOTHING, EXACT.subtract(asked.terms.quantity, asked.filled_quantity))


def millis(span: timedelta) -> int:
    """Whole milliseconds, rounded down."""
    return span // _MILLISECOND


def fresh_price(facts: Facts, max_age_millis: int) -> ReferencePrice | None:
    """The reference price, unless it is older than that; one of a time as far ahead is no price of now either."""
    price = facts.price
    if price is None or price.price <= 0 or abs(facts.now - price.as_of) > max_age_millis * _MILLISECOND:
        return None
    return price


def price_inputs(price: ReferencePrice) -> dict[str, str]:
    """Where a reference price is from, for the receipt."""
    return {
        "reference_price": shown(price.price),
        "reference_as_of": utc_text(price.as_of),
        "reference_source": price.source,
    }


def count_since(times: Sequence[datetime], now: datetime, window_millis: int) -> int:
    """How many times, newest first, are younger than the window; one exactly as old as it is not."""
    since, count = now - window_millis * _MILLISECOND, 0
    for time in times:
        if time <= since:
            break
        count += 1
    return count

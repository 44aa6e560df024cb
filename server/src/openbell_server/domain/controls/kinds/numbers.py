"""Exact arithmetic of rules: values, percentages and ages; nothing is rounded before it is compared."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Context, Decimal
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Facts, ReferencePrice
from openbell_server.domain.controls.kinds.times import utc_text
from openbell_server.domain.orders.order_terms import EXACT

NOTHING: Final = Decimal(0)
# A value in another currency is a product of five numbers of up to 36 digits each.
WIDE: Final = Context(prec=400)
_MILLISECOND: Final = timedelta(milliseconds=1)


def shown(number: Decimal) -> str:
    """A calculated number without exponent and trailing zeros."""
    normal = WIDE.normalize(number)
    return format(normal or NOTHING, "f")


def product(*factors: Decimal) -> Decimal:
    """The product, unrounded."""
    value = Decimal(1)
    for factor in factors:
        value = WIDE.multiply(value, factor)
    return value


def moved(price: Decimal, percent: Decimal) -> Decimal:
    """The price changed by a percentage, which may be negative."""
    return WIDE.scaleb(WIDE.multiply(price, WIDE.add(Decimal(100), percent)), -2)


def at_work(command: CommandFacts) -> Decimal:
    """The quantity that may still fill after the command; the position already includes the fills."""
    return max(NOTHING, EXACT.subtract(command.terms.quantity, command.filled_quantity))


def millis(span: timedelta) -> int:
    """Whole milliseconds, rounded down."""
    return span // _MILLISECOND


def fresh_price(facts: Facts, max_age_millis: int) -> ReferencePrice | None:
    """The reference price, unless it is missing or its time is further from now than the limit, past or future."""
    price = facts.price
    if price is None or price.price <= 0 or abs(facts.now - price.as_of) > max_age_millis * _MILLISECOND:
        return None
    return price


def price_inputs(price: ReferencePrice) -> dict[str, str]:
    """A reference price as receipt inputs."""
    return {
        "reference_price": shown(price.price),
        "reference_as_of": utc_text(price.as_of),
        "reference_source": price.source,
    }


def count_since(times: Sequence[datetime], now: datetime, window_millis: int) -> int:
    """How many times, sorted newest first, are inside the window; the window's start is exclusive."""
    since, count = now - window_millis * _MILLISECOND, 0
    for time in times:
        if time <= since:
            break
        count += 1
    return count

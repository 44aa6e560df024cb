"""When a paper order fills and at what price: pure rules over one reference price per symbol."""

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from openbell_server.domain.broker_orders import ReportStatus
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders import OrderSide, OrderSpec, TimeInForce

LOT: Final = Decimal(1000)
_LOWEST_CENTS: Final = 1_000
_HIGHEST_CENTS: Final = 50_000
_NOW_OR_NEVER: Final = frozenset({TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL})


@dataclass(frozen=True, slots=True)
class Fill:
    """A quantity at a price."""

    quantity: Decimal
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How an order stands at a reference price."""

    status: ReportStatus
    fills: tuple[Fill, ...] = ()
    triggered: bool


def reference_price(symbol: Symbol) -> Decimal:
    """The price of a symbol nobody has set: the same on every machine, 10.00 to 500.00."""
    number = int.from_bytes(hashlib.sha256(symbol.encode()).digest()[:8])
    return Decimal(_LOWEST_CENTS + number % (_HIGHEST_CENTS - _LOWEST_CENTS + 1)).scaleb(-2)


def match(side: OrderSide, spec: OrderSpec, reference: Decimal, *, triggered: bool = False) -> Match:
    """Fill, rest or end; the reference is never worse than the limit of an order that fills, so it is the price."""
    buying = side is OrderSide.BUY
    if not triggered:
        stop = spec.stop_price
        triggered = stop is None or (reference >= stop if buying else reference <= stop)
    limit = spec.limit_price
    if triggered and (limit is None or (reference <= limit if buying else reference >= limit)):
        return Match(status=ReportStatus.FILLED, fills=_executions(spec.quantity, reference), triggered=True)
    if spec.time_in_force in _NOW_OR_NEVER:
        return Match(status=ReportStatus.EXPIRED, triggered=triggered)
    return Match(status=ReportStatus.WORKING, triggered=triggered)


def _executions(quantity: Decimal, price: Decimal) -> tuple[Fill, ...]:
    """More than a lot takes two executions, so that clients meet partial fills."""
    if quantity <= LOT:
        return (Fill(quantity, price),)
    return Fill(LOT, price), Fill(quantity - LOT, price)

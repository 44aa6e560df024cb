"""When an order fills and at what price. Pure."""

import hashlib
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Final

from openbell_exchange.terms import (
    EXACT,
    OrderSide,
    OrderSpec,
    OrderType,
    ReportStatus,
    Symbol,
    Terms,
    TimeInForce,
    exact_total,
)

LOT: Final = Decimal(1000)
# They do not trade before their auction.
AUCTIONS: Final = frozenset({TimeInForce.AT_OPEN, TimeInForce.AT_CLOSE})
_LOWEST_CENTS: Final = 1_000
_HIGHEST_CENTS: Final = 50_000
# Prices below a dollar have four decimals, others two.
_DOLLAR: Final = Decimal(1)
_CENT, _FINE_TICK = Decimal("0.01"), Decimal("0.0001")
_NOW_OR_NEVER: Final = frozenset({TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL})
_STOPS: Final = frozenset({OrderType.STOP, OrderType.STOP_LIMIT})


@dataclass(frozen=True, slots=True)
class Quote:
    """The price and quantity offered to each order; size None is unlimited."""

    price: Decimal
    size: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    quantity: Decimal
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketOrder:
    """An order's terms and state as matching needs them."""

    side: OrderSide
    spec: OrderSpec
    filled: Decimal = Decimal(0)
    triggered: bool = False

    @property
    def remaining(self) -> Decimal:
        return EXACT.subtract(self.spec.quantity, self.filled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An order's new status and fills after a quote."""

    status: ReportStatus
    fills: tuple[Fill, ...] = ()
    triggered: bool


@lru_cache(maxsize=1024)
def reference_price(symbol: Symbol) -> Decimal:
    """The default price of a symbol: 10.00 to 500.00, derived from its name, so the same everywhere."""
    number = int.from_bytes(hashlib.sha256(symbol.encode()).digest()[:8])
    return Decimal(_LOWEST_CENTS + number % (_HIGHEST_CENTS - _LOWEST_CENTS + 1)).scaleb(-2)


def unsupported_reason(spec: OrderSpec) -> str | None:
    """Why the market does not support such an order, or None if it does."""
    if spec.time_in_force in AUCTIONS and spec.order_type in _STOPS:
        return (
            f"a {spec.order_type} order cannot wait for an auction ({spec.time_in_force}); MARKET and LIMIT orders can"
        )
    return None


def off_tick_reason(spec: OrderSpec) -> str | None:
    """Which price is no multiple of its tick, with the nearest prices that are, or None if all fit."""
    for name, price in (("limit_price", spec.limit_price), ("stop_price", spec.stop_price)):
        if price is None:
            continue
        tick = _CENT if price >= _DOLLAR else _FINE_TICK
        rest = EXACT.remainder(price, tick)
        if rest:
            below = EXACT.subtract(price, rest)
            nearest = [below, EXACT.add(below, tick)] if below else [tick]
            valid = " or ".join(f"{EXACT.quantize(each, tick):f}" for each in nearest)
            return f"a {name} of {price:f} is not a multiple of {tick}: use {valid}"
    return None


def match(order: MarketOrder, quote: Quote) -> Match:
    """Match an order against a quote: on arrival, at a new price and after a replace."""
    if order.spec.time_in_force in AUCTIONS:
        return Match(status=ReportStatus.WORKING, triggered=order.triggered)
    if not (order.triggered or _triggers(order, quote.price)):
        # IOC and FOK apply only after the stop has triggered.
        return Match(status=ReportStatus.WORKING, triggered=False)
    available = _available(order, quote) if _is_marketable(order, quote.price) else Decimal(0)
    if order.spec.time_in_force is TimeInForce.FILL_OR_KILL and available < order.remaining:
        available = Decimal(0)
    fills = _executions(available, quote) if available else ()
    if available == order.remaining:
        status = ReportStatus.FILLED
    elif order.spec.time_in_force in _NOW_OR_NEVER:
        status = ReportStatus.EXPIRED
    else:
        status = ReportStatus.WORKING
    return Match(status=status, fills=fills, triggered=True)


def end(order: MarketOrder, price: Decimal) -> Match:
    """What happens at the order's due time: an auction fills it completely or not at all; a day order expires."""
    if order.spec.time_in_force in AUCTIONS and _is_marketable(order, price):
        return fill_rest(order, price)
    return Match(status=ReportStatus.EXPIRED, triggered=order.triggered)


def fill_rest(order: MarketOrder, price: Decimal) -> Match:
    fills = _executions(order.remaining, Quote(price))
    return Match(status=ReportStatus.FILLED, fills=fills, triggered=order.triggered)


def after(order: MarketOrder, matched: Match) -> MarketOrder:
    filled = exact_total((order.filled, *(fill.quantity for fill in matched.fills)))
    return replace(order, filled=filled, triggered=matched.triggered)


def replaced(order: MarketOrder, terms: Terms) -> MarketOrder:
    """The order with new terms; a triggered order stays triggered."""
    return replace(order, spec=spec_with(order.spec.order_type, terms))


def spec_with(order_type: OrderType, terms: Terms) -> OrderSpec:
    # Not asdict, which copies each value and costs as much as matching the order.
    return OrderSpec(
        order_type=order_type,
        quantity=terms.quantity,
        limit_price=terms.limit_price,
        stop_price=terms.stop_price,
        time_in_force=terms.time_in_force,
    )


def _triggers(order: MarketOrder, price: Decimal) -> bool:
    stop = order.spec.stop_price
    return stop is None or (price >= stop if order.side is OrderSide.BUY else price <= stop)


def _is_marketable(order: MarketOrder, price: Decimal) -> bool:
    """The fill price is the quote's price, not the limit."""
    limit = order.spec.limit_price
    return limit is None or (price <= limit if order.side is OrderSide.BUY else price >= limit)


def _available(order: MarketOrder, quote: Quote) -> Decimal:
    return order.remaining if quote.size is None else min(order.remaining, quote.size)


def _executions(quantity: Decimal, quote: Quote) -> tuple[Fill, ...]:
    """With unlimited size, more than a lot makes two executions, so that clients see partial fills."""
    if quote.size is not None or quantity <= LOT:
        return (Fill(quantity, quote.price),)
    return Fill(LOT, quote.price), Fill(EXACT.subtract(quantity, LOT), quote.price)

"""Order sides, types, times in force, and exact decimal numbers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from typing import Final

from openbell_server.domain.errors import InvalidCommand


class OrderSide(StrEnum):
    """Buy, sell, or sell short."""

    BUY = "BUY"
    SELL = "SELL"
    SELL_SHORT = "SELL_SHORT"


class OrderType(StrEnum):
    """The four order types."""

    MARKET = "MARKET"
    LIMIT = "LIMIT"
    STOP = "STOP"
    STOP_LIMIT = "STOP_LIMIT"


class TimeInForce(StrEnum):
    """How long an order works. Only the broker expires an order, never a timer of Openbell."""

    DAY = "DAY"
    GOOD_TILL_CANCEL = "GOOD_TILL_CANCEL"
    IMMEDIATE_OR_CANCEL = "IMMEDIATE_OR_CANCEL"
    FILL_OR_KILL = "FILL_OR_KILL"
    AT_OPEN = "AT_OPEN"
    AT_CLOSE = "AT_CLOSE"
    EXT = "EXT"


class RouteStrategy(StrEnum):
    """The requested route; the broker's capabilities list those it supports."""

    SMART = "SMART"
    ARCA = "ARCA"
    EDGA = "EDGA"
    EDGX = "EDGX"
    IEX = "IEX"
    MEMX = "MEMX"
    XASE = "XASE"
    XBOS = "XBOS"
    XCIS = "XCIS"
    XNMS = "XNMS"
    XNYS = "XNYS"


# Digits after the point.
PLACES_MAX: Final = 18
# At most 18 digits on either side; no sign, no exponent, no leading zero, ASCII only.
DECIMAL_PATTERN: Final = r"^(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?$"
_DECIMAL = re.compile(DECIMAL_PATTERN, re.ASCII)


def exact_decimal(text: str, field: str) -> Decimal:
    """Parse a positive decimal without rounding; raises InvalidCommand otherwise."""
    if not _DECIMAL.fullmatch(text):
        raise InvalidCommand(field, "must be a plain decimal string with at most 18 digits on either side of the point")
    number = Decimal(text)
    if number <= 0:
        raise InvalidCommand(field, "must be greater than zero")
    return number


# Python's default context rounds at 28 digits; a product of two of our numbers has up to 72.
EXACT: Final = Context(prec=120)


def exact_total(numbers: Iterable[Decimal]) -> Decimal:
    """The sum, unrounded."""
    total = Decimal(0)
    for number in numbers:
        total = EXACT.add(total, number)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a replace may change of an order; the quantity is the total, fills included."""

    quantity: Decimal
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    time_in_force: TimeInForce


@dataclass(frozen=True, slots=True, kw_only=True)
class _Priced:
    """The type of an order with its quantity and prices; a price is present exactly where the type has one."""

    order_type: OrderType
    quantity: Decimal
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None

    def __post_init__(self) -> None:
        wants_limit = self.order_type in {OrderType.LIMIT, OrderType.STOP_LIMIT}
        wants_stop = self.order_type in {OrderType.STOP, OrderType.STOP_LIMIT}
        if (self.limit_price is not None) != wants_limit:
            raise InvalidCommand(
                "price", f"must be {'given' if wants_limit else 'absent'} for a {self.order_type} order"
            )
        if (self.stop_price is not None) != wants_stop:
            raise InvalidCommand(
                "stop_price", f"must be {'given' if wants_stop else 'absent'} for a {self.order_type} order"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSpec(_Priced):
    time_in_force: TimeInForce

    @property
    def terms(self) -> Terms:
        """The spec without its type, which no replace can change."""
        return Terms(
            quantity=self.quantity,
            limit_price=self.limit_price,
            stop_price=self.stop_price,
            time_in_force=self.time_in_force,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementSpec(_Priced):
    """The new terms of an order; without a time in force the order keeps its own."""

    time_in_force: TimeInForce | None = None

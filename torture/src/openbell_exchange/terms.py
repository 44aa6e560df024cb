"""Symbols, sides, types, times in force, exact numbers: the terms of an order."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from typing import Final, NewType

Symbol = NewType("Symbol", str)
SYMBOL_PATTERN: Final = r"^[A-Z0-9.\-/:_]{1,32}$"
_SYMBOL = re.compile(SYMBOL_PATTERN)


def canonical_symbol(text: str) -> Symbol | None:
    """The canonical spelling, or None for text that is no symbol."""
    # Some non-ASCII letters have an ASCII capital (ſ → S, ß → SS); they are not accepted as spellings.
    upper = text.upper()
    return Symbol(upper) if text.isascii() and _SYMBOL.fullmatch(upper) else None


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


class ReportStatus(StrEnum):
    """The status of an order at its broker."""

    WORKING = "WORKING"
    # Not an end: the order works again on the next day, or the broker reports its end separately.
    DONE_FOR_DAY = "DONE_FOR_DAY"
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"
    REJECTED = "REJECTED"


# Python's default context rounds at 28 digits; a product of two of our numbers has up to 72.
EXACT: Final = Context(prec=120)


def exact_total(numbers: Iterable[Decimal]) -> Decimal:
    """The sum, unrounded."""
    total = Decimal(0)
    for number in numbers:
        total = EXACT.add(total, number)
    return total


def decimal_text(number: Decimal) -> str:
    """The exact number, never with an exponent."""
    return format(number, "f")


class InvalidTerms(ValueError):
    """A term of an order is wrong; `message` completes "the field …"."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field} {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a replace may change of an order; the quantity is the total, fills included."""

    quantity: Decimal
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    time_in_force: TimeInForce


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedTerms:
    """The type of an order with its quantity and prices; raises InvalidTerms unless exactly its type's prices exist."""

    order_type: OrderType
    quantity: Decimal
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None

    def __post_init__(self) -> None:
        wants_limit = self.order_type in {OrderType.LIMIT, OrderType.STOP_LIMIT}
        wants_stop = self.order_type in {OrderType.STOP, OrderType.STOP_LIMIT}
        if (self.limit_price is not None) != wants_limit:
            raise InvalidTerms("price", f"must be {'given' if wants_limit else 'absent'} for a {self.order_type} order")
        if (self.stop_price is not None) != wants_stop:
            raise InvalidTerms(
                "stop_price", f"must be {'given' if wants_stop else 'absent'} for a {self.order_type} order"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSpec(PricedTerms):
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

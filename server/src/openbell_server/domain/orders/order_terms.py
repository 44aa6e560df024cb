"""Order sides, types, times in force, and exact decimal numbers."""

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from openbell_exchange.terms import EXACT as EXACT
from openbell_exchange.terms import OrderSide as OrderSide
from openbell_exchange.terms import OrderSpec as OrderSpec
from openbell_exchange.terms import OrderType as OrderType
from openbell_exchange.terms import PricedTerms
from openbell_exchange.terms import Terms as Terms
from openbell_exchange.terms import TimeInForce as TimeInForce
from openbell_exchange.terms import exact_total as exact_total
from openbell_server.domain.errors import InvalidCommand


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementSpec(PricedTerms):
    """The new terms of an order; without a time in force the order keeps its own."""

    time_in_force: TimeInForce | None = None

"""Instruments, quotes and positions at a broker."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from openbell_server.domain.identifiers import Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One symbol at a broker; None where the broker does not report a value."""

    symbol: Symbol
    asset_class: str
    quote_currency: str
    tradable: bool
    fractional: bool
    tick: Decimal | None = None
    lot: Decimal | None = None
    multiplier: Decimal = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The latest prices of a symbol; None where the broker does not report a value."""

    symbol: Symbol
    as_of: datetime
    bid: Decimal | None = None
    ask: Decimal | None = None
    last: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPosition:
    """An account's position in a symbol; negative if short."""

    symbol: Symbol
    quantity: Decimal
    average_price: Decimal | None = None

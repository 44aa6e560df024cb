"""What can be traded at a broker and by which rules, what it costs there now, and what an account holds."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from openbell_server.domain.identifiers import Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One symbol at a broker; what the broker does not tell is None."""

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
    """The latest prices of a symbol; what the broker does not tell is None."""

    symbol: Symbol
    as_of: datetime
    bid: Decimal | None = None
    ask: Decimal | None = None
    last: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPosition:
    """What an account holds of a symbol, less than nothing if it is short."""

    symbol: Symbol
    quantity: Decimal
    average_price: Decimal | None = None

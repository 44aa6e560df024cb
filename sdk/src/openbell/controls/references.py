"""Reference prices and exchange rates."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from openbell.models import Record
from openbell.requests import Request, change, text_of


class ReferencePrice(Record, frozen=True, kw_only=True):
    """A price that commands are checked against; source is a quote, a fill, or given by a caller."""

    broker: str
    symbol: str
    price: Decimal
    as_of: datetime
    source: str
    bid: Decimal | None = None
    ask: Decimal | None = None


class ExchangeRate(Record, frozen=True, kw_only=True):
    """The value of one unit of from_currency in to_currency."""

    from_currency: str
    to_currency: str
    rate: Decimal
    as_of: datetime


class References(Record, frozen=True, kw_only=True):
    """The current values after a call of give_references; newer values were not replaced."""

    prices: tuple[ReferencePrice, ...] = ()
    rates: tuple[ExchangeRate, ...] = ()


class GivenPrice(Record, frozen=True, kw_only=True):
    """A price of a symbol at a broker; as_of defaults to now."""

    broker: str
    symbol: str
    price: Decimal
    as_of: datetime | None = None


class GivenRate(Record, frozen=True, kw_only=True):
    """The value of one unit of from_currency in to_currency; as_of defaults to now."""

    from_currency: str
    to_currency: str
    rate: Decimal
    as_of: datetime | None = None


def references_request(
    prices: Sequence[GivenPrice], rates: Sequence[GivenRate], organization_id: str | None
) -> Request:
    body: dict[str, Any] = {
        "prices": [
            {"broker": each.broker, "symbol": each.symbol, "price": format(each.price, "f"), **_moment(each.as_of)}
            for each in prices
        ],
        "rates": [
            {
                "from_currency": each.from_currency,
                "to_currency": each.to_currency,
                "rate": format(each.rate, "f"),
                **_moment(each.as_of),
            }
            for each in rates
        ],
    }
    request = change("PUT", "/v1/reference-prices", body)
    if organization_id is not None:
        request.headers["x-organization-id"] = organization_id
    return request


def _moment(as_of: datetime | None) -> dict[str, str]:
    return {} if as_of is None else {"as_of": text_of("as_of", as_of)}

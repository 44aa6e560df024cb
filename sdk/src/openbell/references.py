"""Reference prices and rates of exchange: what is given, what is asked, and how the platform answers."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import msgspec

from openbell.connection import Connection
from openbell.models import Record
from openbell.requests import Request, change, text_of


class ReferencePrice(Record, frozen=True, kw_only=True):
    """A price that commands are judged by: from a quote, a fill, or given."""

    broker: str
    symbol: str
    price: Decimal
    as_of: datetime
    source: str
    bid: Decimal | None = None
    ask: Decimal | None = None


class ExchangeRate(Record, frozen=True, kw_only=True):
    """What one unit of a currency is in another."""

    from_currency: str = msgspec.field(name="from")
    to_currency: str = msgspec.field(name="to")
    rate: Decimal
    as_of: datetime


class References(Record, frozen=True, kw_only=True):
    """What there is after something was given: newer ones have stayed."""

    prices: tuple[ReferencePrice, ...] = ()
    rates: tuple[ExchangeRate, ...] = ()


class ReferencePriceList(Record, frozen=True, kw_only=True):
    """Prices by symbol."""

    data: tuple[ReferencePrice, ...] = ()


class GivenPrice(Record, frozen=True, kw_only=True):
    """A price of a symbol at a broker; without a time it is of now."""

    broker: str
    symbol: str
    price: Decimal
    as_of: datetime | None = None


class GivenRate(Record, frozen=True, kw_only=True):
    """What one unit of a currency is in another; without a time it is of now."""

    from_currency: str
    to_currency: str
    rate: Decimal
    as_of: datetime | None = None


def give_references(prices: Sequence[GivenPrice], rates: Sequence[GivenRate], organization_id: str | None) -> Request:
    """Prices and rates, for an organization that a service account names."""
    body: dict[str, Any] = {
        "prices": [
            {"broker": each.broker, "symbol": each.symbol, "price": format(each.price, "f"), **_moment(each.as_of)}
            for each in prices
        ],
        "rates": [
            {
                "from": each.from_currency,
                "to": each.to_currency,
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


def reference_prices(connection: Connection, symbols: Sequence[str], account_id: str | None) -> Request:
    """The prices that an account is judged by."""
    path = f"/v1/accounts/{quote(connection.account(account_id), safe='')}/reference-prices"
    return Request("GET", path, {"symbols": ",".join(symbols)} if symbols else {})


def _moment(as_of: datetime | None) -> dict[str, str]:
    return {} if as_of is None else {"as_of": text_of("as_of", as_of)}

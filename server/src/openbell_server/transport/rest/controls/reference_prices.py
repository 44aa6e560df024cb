"""The routes of reference prices and exchange rates."""

from typing import Annotated
from uuid import UUID

from litestar import get, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.controls.set_reference_prices import (
    ENTRIES_MAX,
    Given,
    GivenPrice,
    GivenRate,
    SetReferencePrices,
)
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.facts import ReferencePrice
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.transport.rest.access.accounts import BrokerText, CurrencyText
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.intents.bodies import DecimalText, SymbolText
from openbell_server.transport.rest.query_parameters import symbols_of
from openbell_server.transport.rest.strict_json import body_reader
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from


class GivenPriceBody(Struct, forbid_unknown_fields=True, frozen=True):
    """A price of a symbol at a broker; as_of defaults to now."""

    broker: BrokerText
    symbol: SymbolText
    price: DecimalText
    as_of: Moment | None = None


class GivenRateBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The price of one unit of a currency in another; as_of defaults to now."""

    from_currency: CurrencyText
    to_currency: CurrencyText
    rate: DecimalText
    as_of: Moment | None = None


class ReferencesRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Prices and rates, together at most the limit."""

    prices: Annotated[list[GivenPriceBody], Meta(max_length=ENTRIES_MAX)] = []
    rates: Annotated[list[GivenRateBody], Meta(max_length=ENTRIES_MAX)] = []

    def to_given(self) -> Given:
        return Given(
            [GivenPrice(each.broker, each.symbol, each.price, each.as_of) for each in self.prices],
            [GivenRate(each.from_currency, each.to_currency, each.rate, each.as_of) for each in self.rates],
        )


class PriceBody(Struct, frozen=True):
    """A reference price; source is quote, fill or given."""

    broker: str
    symbol: str
    price: str
    as_of: Moment
    source: str
    bid: str | UnsetType = UNSET
    ask: str | UnsetType = UNSET


class RateBody(Struct, frozen=True):
    """The price of one unit of a currency in another."""

    from_currency: str
    to_currency: str
    rate: str
    as_of: Moment


class ReferencesBody(Struct, frozen=True):
    """The stored values after the request, one per symbol and currency pair; newer stored values were not replaced."""

    prices: list[PriceBody]
    rates: list[RateBody]


class PricesBody(PageOf[PriceBody], frozen=True):
    """Prices by symbol; symbols without a price are omitted."""


def reference_routes(enter: Enter, references: SetReferencePrices) -> list[HTTPRouteHandler]:
    @put("/v1/reference-prices")
    async def put_reference_prices(request: AnyRequest) -> ReferencesBody:
        caller = await enter(request, Operation.EDIT_REFERENCES)
        stored = await references.give(caller, body_reader(request, ReferencesRequest, ReferencesRequest.to_given))
        prices = [_body(*place, stored.prices[place]) for place in sorted(stored.prices)]
        rates = [
            RateBody(*pair, format(stored.rates[pair].rate, "f"), stored.rates[pair].as_of)
            for pair in sorted(stored.rates)
        ]
        return ReferencesBody(prices, rates)

    @get("/v1/accounts/{account_id:uuid}/reference-prices")
    async def list_reference_prices(request: AnyRequest, account_id: FromPath[UUID]) -> PricesBody:
        caller = await enter(request, Operation.READ_CONTROLS)
        broker, found = await references.show(caller, AccountId(account_id), symbols_of(request))
        return PricesBody([_body(broker, symbol, price) for symbol, price in found])

    return [put_reference_prices, list_reference_prices]


def _body(broker: str, symbol: Symbol, price: ReferencePrice) -> PriceBody:
    return body_from(PriceBody, price, broker=broker, symbol=symbol)

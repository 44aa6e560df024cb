"""The routes of reference prices and rates of exchange."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Request, get, put
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType, field

from openbell_server.application.give_references import ENTRIES_MAX, Given, GivenPrice, GivenRate, GiveReferences
from openbell_server.domain.authorization import Operation
from openbell_server.domain.control_facts import ReferencePrice
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.intents import plain
from openbell_server.transport.rest.accounts import BrokerText, CurrencyText
from openbell_server.transport.rest.entry import Enter
from openbell_server.transport.rest.intent_bodies import DecimalText, SymbolText
from openbell_server.transport.rest.intent_queries import symbols_of
from openbell_server.transport.rest.intents import json_body_of
from openbell_server.transport.rest.strict_json import read_json
from openbell_server.transport.rest.wire_types import Moment


class GivenPriceBody(Struct, forbid_unknown_fields=True, frozen=True):
    """A price of a symbol at a broker; without a time it is of now."""

    broker: BrokerText
    symbol: SymbolText
    price: DecimalText
    as_of: Moment | None = None


class GivenRateBody(Struct, forbid_unknown_fields=True, frozen=True):
    """What one unit of a currency is in another; without a time it is of now."""

    from_currency: CurrencyText = field(name="from")
    to_currency: CurrencyText = field(name="to")
    rate: DecimalText
    as_of: Moment | None = None


class ReferencesRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Prices and rates, together no more than the limit."""

    prices: Annotated[list[GivenPriceBody], Meta(max_length=ENTRIES_MAX)] = []
    rates: Annotated[list[GivenRateBody], Meta(max_length=ENTRIES_MAX)] = []

    def to_given(self) -> Given:
        """What is given."""
        return Given(
            [GivenPrice(each.broker, each.symbol, each.price, each.as_of) for each in self.prices],
            [GivenRate(each.from_currency, each.to_currency, each.rate, each.as_of) for each in self.rates],
        )


class PriceBody(Struct, frozen=True):
    """A price to judge by: quote, fill or given says where it is from."""

    broker: str
    symbol: str
    price: str
    as_of: Moment
    source: str
    bid: str | UnsetType = UNSET
    ask: str | UnsetType = UNSET


class RateBody(Struct, frozen=True):
    """What one unit of a currency is in another."""

    from_currency: str = field(name="from")
    to_currency: str = field(name="to")
    rate: str
    as_of: Moment


class ReferencesBody(Struct, frozen=True):
    """What there is after, each symbol and each pair of currencies once; what was newer has stayed."""

    prices: list[PriceBody]
    rates: list[RateBody]


class PricesBody(Struct, frozen=True):
    """Prices by symbol; one that there is none of is left out."""

    data: list[PriceBody]


def reference_routes(enter: Enter, references: GiveReferences) -> list[HTTPRouteHandler]:
    """Giving and reading."""

    @put("/v1/reference-prices")
    async def put_reference_prices(request: Request[Any, Any, State]) -> ReferencesBody:
        """Keep prices and rates, unless there are newer ones."""
        caller = await enter(request, Operation.EDIT_REFERENCES)

        async def decode() -> Given:
            return read_json(await json_body_of(request), ReferencesRequest).to_given()

        kept = await references.give(caller, decode)
        prices = [_body(*place, kept.prices[place]) for place in sorted(kept.prices)]
        rates = [
            RateBody(*pair, format(kept.rates[pair].rate, "f"), kept.rates[pair].as_of) for pair in sorted(kept.rates)
        ]
        return ReferencesBody(prices, rates)

    @get("/v1/accounts/{account_id:uuid}/reference-prices")
    async def list_reference_prices(request: Request[Any, Any, State], account_id: FromPath[UUID]) -> PricesBody:
        """The prices that commands of the account are judged by."""
        caller = await enter(request, Operation.READ_CONTROLS)
        broker, found = await references.show(caller, AccountId(account_id), symbols_of(request))
        return PricesBody([_body(broker, symbol, price) for symbol, price in found])

    return [put_reference_prices, list_reference_prices]


def _body(broker: str, symbol: Symbol, price: ReferencePrice) -> PriceBody:
    return PriceBody(
        broker=broker,
        symbol=symbol,
        price=format(price.price, "f"),
        as_of=price.as_of,
        source=price.source,
        bid=plain(price.bid) or UNSET,
        ask=plain(price.ask) or UNSET,
    )

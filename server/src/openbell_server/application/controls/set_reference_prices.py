"""Set and read the reference prices and exchange rates that rules compare with."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, Protocol

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountRecords, AccountStore
from openbell_server.application.controls.ports.markets import ReferenceStore
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import broker_and_profile, known_brokers, names_of_broker
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.facts import Rate, ReferencePrice
from openbell_server.domain.errors import InvalidCommand, InvalidParameter, Problem
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.order_terms import exact_decimal

ENTRIES_MAX: Final = 500
# A caller's clock may be ahead of the database's.
AHEAD_MAX: Final = timedelta(seconds=5)
_CURRENCY: Final = re.compile(r"[A-Z]{3}", re.ASCII)
_SPELLING: Final = "must be 1 to 32 of A-Z, 0-9 and . - / : _"


class Clock(Protocol):
    """The database's clock."""

    async def now(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class GivenPrice:
    """A price as the caller sent it; as_of None means now."""

    broker: str
    symbol: str
    price: str
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class GivenRate:
    """An exchange rate as the caller sent it; as_of None means now."""

    from_currency: str
    to_currency: str
    rate: str
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class Given:
    """The prices and rates of one request."""

    prices: Sequence[GivenPrice]
    rates: Sequence[GivenRate]


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored prices and rates after a request; a newer stored value is not overwritten."""

    prices: Mapping[tuple[str, Symbol], ReferencePrice]
    rates: Mapping[tuple[str, str], Rate]


@dataclass(frozen=True, slots=True)
class SetReferencePrices:
    """Prices of an organization by broker; they apply to no other organization."""

    accounts: AccountStore
    records: AccountRecords
    references: ReferenceStore
    brokers: Mapping[str, BrokerDefinition]
    clock: Clock

    async def give(self, caller: Principal, decode: Callable[[], Awaitable[Given]]) -> Kept:
        """Store each price and rate that is newer than the stored one."""
        disabled = await self.records.is_organization_disabled(caller.organization_id)
        if disabled is None:
            raise Problem("not_found", "there is no such organization")
        if disabled:
            raise Problem("organization_disabled", "the organization is disabled")
        given, latest = await decode(), await self.clock.now() + AHEAD_MAX
        if not 1 <= len(given.prices) + len(given.rates) <= ENTRIES_MAX:
            raise InvalidCommand("", f"must have 1 to {ENTRIES_MAX} prices and rates")
        by_broker: dict[str, list[tuple[Symbol, Decimal, datetime | None]]] = {}
        known = known_brokers(self.brokers)
        for place, price in enumerate(given.prices):
            symbol, number = self._symbol(place, price, known), exact_decimal(price.price, f"/prices/{place}/price")
            moment = _moment(price.as_of, latest, f"/prices/{place}/as_of")
            for broker in names_of_broker(price.broker):
                by_broker.setdefault(broker, []).append((symbol, number, moment))
        rates = [_rate(place, rate, latest) for place, rate in enumerate(given.rates)]
        prices: dict[tuple[str, Symbol], ReferencePrice] = {}
        for broker, some in by_broker.items():
            there = await self.references.give_prices(caller.organization_id, broker, some)
            for symbol, stored in there.items():
                prices.setdefault((broker_and_profile(broker)[0], symbol), stored)
        return Kept(prices, await self.references.give_rates(caller.organization_id, rates) if rates else {})

    async def show(
        self, caller: Principal, account_id: AccountId, spelled: Collection[str] | None
    ) -> tuple[str, list[tuple[Symbol, ReferencePrice]]]:
        """The account's broker and the prices of the symbols, at most ENTRIES_MAX; None lists all symbols."""
        account = await find_account(self.accounts, caller, Operation.READ_CONTROLS, account_id)
        symbols = None
        if spelled is not None:
            known = [self.brokers[account.broker].canonical_symbol(text) for text in spelled]
            symbols = [symbol for symbol in known if symbol is not None]
            if not 1 <= len(symbols) <= ENTRIES_MAX or len(symbols) < len(known):
                raise InvalidParameter(
                    "symbols", f"must be 1 to {ENTRIES_MAX} symbols with commas between; each {_SPELLING}"
                )
        found = await self.references.list_prices(caller.organization_id, account.broker, symbols, ENTRIES_MAX)
        return broker_and_profile(account.broker)[0], [*found.items()]

    def _symbol(self, place: int, given: GivenPrice, known: Collection[str]) -> Symbol:
        if given.broker not in known:
            raise InvalidCommand(f"/prices/{place}/broker", f"must be one of {', '.join(known)}")
        symbol = self.brokers[given.broker].canonical_symbol(given.symbol)
        if symbol is None:
            raise InvalidCommand(f"/prices/{place}/symbol", _SPELLING)
        return symbol


def _rate(place: int, given: GivenRate, latest: datetime) -> tuple[str, str, Decimal, datetime | None]:
    for name, currency in (("from_currency", given.from_currency), ("to_currency", given.to_currency)):
        if not _CURRENCY.fullmatch(currency):
            raise InvalidCommand(
                f"/rates/{place}/{name}", "must be the three capital letters of a currency, such as USD"
            )
    if given.from_currency == given.to_currency:
        raise InvalidCommand(f"/rates/{place}/to_currency", "must be another currency than from_currency")
    rate = exact_decimal(given.rate, f"/rates/{place}/rate")
    return given.from_currency, given.to_currency, rate, _moment(given.as_of, latest, f"/rates/{place}/as_of")


def _moment(as_of: datetime | None, latest: datetime, field: str) -> datetime | None:
    try:
        moment = None if as_of is None else as_of.astimezone(UTC)
    except OverflowError:
        # Near year 1 or 9999 the conversion to UTC leaves the calendar.
        raise InvalidCommand(field, "must be in the years 1 to 9999 of UTC") from None
    if moment is not None and moment > latest:
        raise InvalidCommand(field, f"must not be in the future, which is later than {latest.isoformat()}")
    return moment

"""Refresh the prices and instruments that rules need from the brokers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from openbell_server.application.controls.ports.markets import KeptPrice, MarketKeeping
from openbell_server.application.execution.follow_broker import SignIns
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import BrokerSession, NotSignedIn
from openbell_server.domain.identifiers import OrganizationId, Symbol
from openbell_server.domain.markets.instruments import Quote
from openbell_server.domain.orders.order_terms import EXACT

QUOTE_SECONDS: Final = 5.0
INSTRUMENT_SECONDS: Final = 3600.0
# After a failure, instruments are queried again after this time.
RETRY_SECONDS: Final = 60.0
SYMBOLS_AT_ONCE_MAX: Final = 50
# Few in one round, because some brokers need one call per instrument.
INSTRUMENTS_AT_ONCE_MAX: Final = 5
ASK_SECONDS: Final = 10.0
# Rules that need these prices and instruments.
JUDGING_CODES: Final = ("NOTIONAL_MAX", "TICK", "LOT", "PRICE_COLLAR")
ACCOUNTS_AT_ONCE_MAX: Final = 4

# An organization's symbol at a broker.
Place = tuple[OrganizationId, str, Symbol]


@dataclass(slots=True)
class RefreshMarkets:
    """Queries brokers through sessions that give commands priority; results are stored per organization."""

    store: MarketKeeping
    sessions: Mapping[str, BrokerSession]
    signed_in: SignIns
    slots: SlotLeases
    clock: Callable[[], float]
    # Places whose price a rule needs: fills there are stored as prices too.
    priced: set[Place] = field(default_factory=set)
    # Failed calls by broker and error type; the process logs and clears them.
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    # When instruments are queried again.
    _ask_at: dict[Place, float] = field(default_factory=dict)
    _unknown: set[Place] = field(default_factory=set)

    async def sweep(self) -> None:
        """Query every due price and instrument once."""
        found = await self.store.wanted_across_organizations(self.slots.held(), JUDGING_CODES)
        wanted = _by_account([each for each in found if not self.signed_in.is_pending(each[0].account_id)])
        places = {_place(account, symbol) for account, symbols in wanted.items() for symbol in symbols}
        self.priced.intersection_update(places)
        self.priced.update(places)
        self._ask_at = {place: at for place, at in self._ask_at.items() if place in places}
        self._unknown.intersection_update(places)
        at_once = asyncio.Semaphore(ACCOUNTS_AT_ONCE_MAX)

        async def one(account: BrokerAccount, symbols: Sequence[Symbol]) -> None:
            async with at_once:
                await self._keep(account, symbols)

        await asyncio.gather(*(one(account, symbols) for account, symbols in wanted.items()))

    async def _keep(self, account: BrokerAccount, symbols: Sequence[Symbol]) -> None:
        session, now = self.sessions.get(account.broker), self.clock()
        if session is None:
            return
        due = [symbol for symbol in symbols if self._ask_at.get(_place(account, symbol), now) <= now]
        if due:
            with self._trouble_of(account):
                await self._describe(account, session, due[:INSTRUMENTS_AT_ONCE_MAX])
        # A symbol that the broker does not know could make the whole query fail.
        known = [symbol for symbol in symbols if _place(account, symbol) not in self._unknown]
        for first in range(0, len(known), SYMBOLS_AT_ONCE_MAX):
            with self._trouble_of(account):
                await self._quote(account, session, known[first : first + SYMBOLS_AT_ONCE_MAX])

    async def _quote(self, account: BrokerAccount, session: BrokerSession, symbols: Sequence[Symbol]) -> None:
        async with asyncio.timeout(ASK_SECONDS):
            quotes = await session.quotes(account.account_id, symbols)
        await self.store.save_quotes(account, _prices(quotes, symbols))

    async def _describe(self, account: BrokerAccount, session: BrokerSession, symbols: Sequence[Symbol]) -> None:
        # If the call fails, the next one is after RETRY_SECONDS.
        self._ask_again(account, symbols, RETRY_SECONDS)
        async with asyncio.timeout(ASK_SECONDS):
            found = {each.symbol: each for each in await session.instruments(account.account_id, symbols)}
        await self.store.save_instruments(account, {symbol: found.get(symbol) for symbol in symbols})
        self._ask_again(account, symbols, INSTRUMENT_SECONDS)
        self._unknown.difference_update(_place(account, symbol) for symbol in found)
        self._unknown.update(_place(account, symbol) for symbol in symbols if symbol not in found)

    @contextmanager
    def _trouble_of(self, account: BrokerAccount) -> Iterator[None]:
        """Count an error, so that it does not stop the other accounts."""
        try:
            yield
        except NotSignedIn:
            # The account's credential status shows the reason.
            return
        except Exception as error:  # noqa: BLE001 - it is counted, and the call is repeated
            self.failures[account.broker, type(error).__name__] += 1

    def _ask_again(self, account: BrokerAccount, symbols: Collection[Symbol], seconds: float) -> None:
        for symbol in symbols:
            self._ask_at[_place(account, symbol)] = self.clock() + seconds


def _by_account(wanted: Sequence[tuple[BrokerAccount, Symbol]]) -> dict[BrokerAccount, list[Symbol]]:
    """Each symbol of an organization at a broker once, under an account that can query it."""
    first: dict[Place, BrokerAccount] = {}
    for account, symbol in wanted:
        first.setdefault(_place(account, symbol), account)
    by_account: dict[BrokerAccount, list[Symbol]] = {}
    for (_, _, symbol), account in first.items():
        by_account.setdefault(account, []).append(symbol)
    return by_account


def _prices(quotes: Sequence[Quote], asked: Collection[Symbol]) -> list[KeptPrice]:
    """The price of a quote is halfway between bid and ask, or the last trade; other quotes are left out."""
    prices = []
    for quote in quotes:
        price = quote.last
        if quote.bid is not None and quote.ask is not None:
            price = EXACT.divide(EXACT.add(quote.bid, quote.ask), Decimal(2))
        if price is not None and quote.symbol in asked:
            prices.append(KeptPrice(symbol=quote.symbol, price=price, as_of=quote.as_of, bid=quote.bid, ask=quote.ask))
    return prices


def _place(account: BrokerAccount, symbol: Symbol) -> Place:
    return account.organization_id, account.broker, symbol

"""Stores and caches the instruments, reference prices and exchange rates of each organization."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final, Generic, TypeVar

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection, Pool, Role, transaction
from openbell_server.adapters.postgres.market_rows import (
    price_of,
    read_instruments,
    read_prices,
    read_rates,
    want_symbols,
)
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.facts import Rate, ReferencePrice
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.markets.instruments import Instrument

PRICE_SECONDS: Final = 1.0
INSTRUMENT_SECONDS: Final = 60.0
WANTED_SECONDS: Final = 60.0
KEPT_MAX: Final = 10_000
_queries = named_queries.load("markets")
_Value = TypeVar("_Value")


@dataclass(slots=True)
class _CacheEntry(Generic[_Value]):
    """A cached value; with the lock, only one of several concurrent callers reads it again."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    value: _Value | None = None
    until: float = float("-inf")


@dataclass(frozen=True, slots=True)
class _Cache(Generic[_Value]):
    """An LRU cache of KEPT_MAX keys; a missing value is read again after PRICE_SECONDS."""

    seconds: float
    clock: Callable[[], float]
    entries: OrderedDict[Hashable, _CacheEntry[_Value]] = field(default_factory=OrderedDict)

    async def get(self, key: Hashable, read: Callable[[], Awaitable[_Value | None]], *, refresh: bool) -> _Value | None:
        entry = self.entries.setdefault(key, _CacheEntry())
        self.entries.move_to_end(key)
        if len(self.entries) > KEPT_MAX:
            self.entries.popitem(last=False)
        if not refresh and self.clock() < entry.until:
            return entry.value
        async with entry.lock:
            if refresh or self.clock() >= entry.until:
                # Taken before the read, so the value is never older than its age in the cache.
                now = self.clock()
                entry.value = await read()
                entry.until = now + (PRICE_SECONDS if entry.value is None else self.seconds)
            return entry.value


@dataclass(slots=True)
class PostgresMarketStore:
    """Implements MarketStore and ReferenceStore; a process has one, for its cache."""

    pool: Pool
    clock: Callable[[], float] = time.monotonic
    role: Role = Role.TENANT
    _prices: _Cache[ReferencePrice] = field(init=False)
    _instruments: _Cache[Instrument] = field(init=False)
    _rates: _Cache[Rate] = field(init=False)
    # When this process last recorded that an account needs a symbol.
    _wanted: OrderedDict[tuple[AccountId, Symbol], float] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self._prices = _Cache(PRICE_SECONDS, self.clock)
        self._instruments = _Cache(INSTRUMENT_SECONDS, self.clock)
        self._rates = _Cache(PRICE_SECONDS, self.clock)

    async def find_price(self, account: TradingAccount, symbol: Symbol) -> ReferencePrice | None:
        return await self._find(self._prices, read_prices, account, symbol)

    async def find_instrument(self, account: TradingAccount, symbol: Symbol) -> Instrument | None:
        return await self._find(self._instruments, read_instruments, account, symbol)

    async def find_rate(self, organization_id: OrganizationId, from_currency: str, to_currency: str) -> Rate | None:
        pair = (from_currency, to_currency)

        async def read() -> Rate | None:
            async with transaction(self.pool, self.role, organization_id) as connection:
                return (await read_rates(connection, organization_id, [pair])).get(pair)

        return await self._rates.get((organization_id, pair), read, refresh=False)

    async def give_prices(
        self, organization_id: OrganizationId, broker: str, prices: Sequence[tuple[Symbol, Decimal, datetime | None]]
    ) -> dict[Symbol, ReferencePrice]:
        symbols = [symbol for symbol, _, _ in prices]
        nothing = [None] * len(prices)
        async with transaction(self.pool, self.role, organization_id) as connection:
            await _queries.save_prices(
                connection,
                organization_id=organization_id,
                broker=broker,
                source="given",
                symbols=symbols,
                market_prices=[price for _, price, _ in prices],
                bids=nothing,
                asks=nothing,
                as_ofs=[as_of for _, _, as_of in prices],
            )
            return await read_prices(connection, organization_id, broker, symbols)

    async def give_rates(
        self, organization_id: OrganizationId, rates: Sequence[tuple[str, str, Decimal, datetime | None]]
    ) -> dict[tuple[str, str], Rate]:
        async with transaction(self.pool, self.role, organization_id) as connection:
            await _queries.save_rates(
                connection,
                organization_id=organization_id,
                from_currencies=[rate[0] for rate in rates],
                to_currencies=[rate[1] for rate in rates],
                rates=[rate[2] for rate in rates],
                as_ofs=[rate[3] for rate in rates],
            )
            return await read_rates(connection, organization_id, [rate[:2] for rate in rates])

    async def list_prices(
        self, organization_id: OrganizationId, broker: str, symbols: Collection[Symbol] | None, limit: int
    ) -> dict[Symbol, ReferencePrice]:
        async with transaction(self.pool, self.role, organization_id) as connection:
            rows = _queries.list_prices(
                connection,
                organization_id=organization_id,
                broker=broker,
                some_symbols=None if symbols is None else list(symbols),
                row_limit=limit,
            )
            return {row["symbol"]: price_of(row) async for row in rows}

    async def _find(
        self,
        cache: _Cache[_Value],
        read_symbols: Callable[[Connection, OrganizationId, str, Collection[Symbol]], Awaitable[dict[Symbol, _Value]]],
        account: TradingAccount,
        symbol: Symbol,
    ) -> _Value | None:
        organization_id, broker = account.organization_id, account.broker
        # Recorded for each account, because another account that needs the symbol may be closed first.
        is_due = self.clock() - self._wanted.get((account.id, symbol), float("-inf")) > WANTED_SECONDS
        if is_due:
            self._note_wanted(account.id, symbol)

        async def read() -> _Value | None:
            async with transaction(self.pool, self.role, organization_id) as connection:
                if is_due:
                    await want_symbols(connection, organization_id, account.id, [symbol])
                return (await read_symbols(connection, organization_id, broker, [symbol])).get(symbol)

        return await cache.get((organization_id, broker, symbol), read, refresh=is_due)

    def _note_wanted(self, account_id: AccountId, symbol: Symbol) -> None:
        """Called before the row is written; if the write fails, it is repeated after WANTED_SECONDS."""
        self._wanted[account_id, symbol] = self.clock()
        self._wanted.move_to_end((account_id, symbol))
        if len(self._wanted) > KEPT_MAX:
            self._wanted.popitem(last=False)

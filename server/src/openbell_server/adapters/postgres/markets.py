"""What rules judge by: instruments, reference prices and rates of exchange, each an organization's own."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final, Generic, TypeVar

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import OUTDATED, Connection, Pool, Role, transaction
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.control_facts import Rate, ReferencePrice
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.instruments import Instrument

PRICE_SECONDS: Final = 1.0
INSTRUMENT_SECONDS: Final = 60.0
WANTED_SECONDS: Final = 60.0
KEPT_MAX: Final = 10_000
_queries = named_queries.load("markets")
_Value = TypeVar("_Value")


# These read in a transaction of the caller's, under whatever lock it holds. They need the newest schema, as do the
# rules that ask for them.
async def read_prices(
    connection: Connection, organization_id: OrganizationId, broker: str, symbols: Collection[Symbol]
) -> dict[Symbol, ReferencePrice]:
    """The newest prices, however old, of those that have one."""
    rows = _queries.read_prices(connection, organization_id=organization_id, broker=broker, symbols=list(symbols))
    return {row["symbol"]: _price(row) async for row in rows}


async def read_instruments(
    connection: Connection, organization_id: OrganizationId, broker: str, symbols: Collection[Symbol]
) -> dict[Symbol, Instrument]:
    """What the broker says of those that it knows."""
    rows = _queries.read_instruments(connection, organization_id=organization_id, broker=broker, symbols=list(symbols))
    return {row["symbol"]: Instrument(**row) async for row in rows}


async def read_rates(
    connection: Connection, organization_id: OrganizationId, pairs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Rate]:
    """Rates of exchange, by the currency they are from and the one they are to."""
    rows = _queries.read_rates(
        connection,
        organization_id=organization_id,
        from_currencies=[pair[0] for pair in pairs],
        to_currencies=[pair[1] for pair in pairs],
    )
    return {
        (row["from_currency"], row["to_currency"]): Rate(rate=row["rate"], as_of=row["as_of"]) async for row in rows
    }


def _price(row: asyncpg.Record) -> ReferencePrice:
    return ReferencePrice(price=row["price"], as_of=row["as_of"], source=row["source"], bid=row["bid"], ask=row["ask"])


@dataclass(slots=True)
class _Kept(Generic[_Value]):
    """What was read lately; its lock lets one of all who miss it read it again."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    value: _Value | None = None
    until: float = float("-inf")


@dataclass(frozen=True, slots=True)
class _Lately(Generic[_Value]):
    """The last values of so many keys, each for a time; what is missing is looked for again sooner."""

    seconds: float
    clock: Callable[[], float]
    kept: OrderedDict[Hashable, _Kept[_Value]] = field(default_factory=OrderedDict)

    async def get(self, key: Hashable, read: Callable[[], Awaitable[_Value | None]], *, anew: bool) -> _Value | None:
        kept = self.kept.setdefault(key, _Kept())
        self.kept.move_to_end(key)
        if len(self.kept) > KEPT_MAX:
            self.kept.popitem(last=False)
        if not anew and self.clock() < kept.until:
            return kept.value
        async with kept.lock:
            if anew or self.clock() >= kept.until:
                # From before it is read: it is never older than that.
                now = self.clock()
                kept.value = await read()
                kept.until = now + (PRICE_SECONDS if kept.value is None else self.seconds)
            return kept.value


@dataclass(slots=True)
class PostgresMarketStore:
    """Implements MarketStore and ReferenceStore; one for a process."""

    pool: Pool
    clock: Callable[[], float] = time.monotonic
    _prices: _Lately[ReferencePrice] = field(init=False)
    _instruments: _Lately[Instrument] = field(init=False)
    _rates: _Lately[Rate] = field(init=False)
    # When this process last noted that a symbol of an account is wanted.
    _wanted: OrderedDict[tuple[AccountId, Symbol], float] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self._prices = _Lately(PRICE_SECONDS, self.clock)
        self._instruments = _Lately(INSTRUMENT_SECONDS, self.clock)
        self._rates = _Lately(PRICE_SECONDS, self.clock)

    async def find_price(self, account: TradingAccount, symbol: Symbol) -> ReferencePrice | None:
        """The newest price, however old."""
        return await self._find(self._prices, read_prices, account, symbol)

    async def find_instrument(self, account: TradingAccount, symbol: Symbol) -> Instrument | None:
        """What the broker says of the symbol."""
        return await self._find(self._instruments, read_instruments, account, symbol)

    async def find_rate(self, organization_id: OrganizationId, from_currency: str, to_currency: str) -> Rate | None:
        """What one unit of a currency is in another."""
        pair = (from_currency, to_currency)

        async def read() -> Rate | None:
            try:
                async with transaction(self.pool, Role.TENANT, organization_id) as connection:
                    return (await read_rates(connection, organization_id, [pair])).get(pair)
            except OUTDATED:
                return None

        return await self._rates.get((organization_id, pair), read, anew=False)

    async def give_prices(
        self, organization_id: OrganizationId, broker: str, prices: Sequence[tuple[Symbol, Decimal, datetime | None]]
    ) -> dict[Symbol, ReferencePrice]:
        """Keep prices, unless there are newer ones; those that are there after."""
        symbols = [symbol for symbol, _, _ in prices]
        nothing = [None] * len(prices)
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            await _queries.save_prices(
                connection,
                organization_id=organization_id,
                broker=broker,
                source="given",
                symbols=symbols,
                prices=[price for _, price, _ in prices],
                bids=nothing,
                asks=nothing,
                as_ofs=[as_of for _, _, as_of in prices],
            )
            return await read_prices(connection, organization_id, broker, symbols)

    async def give_rates(
        self, organization_id: OrganizationId, rates: Sequence[tuple[str, str, Decimal, datetime | None]]
    ) -> dict[tuple[str, str], Rate]:
        """Keep rates of exchange, unless there are newer ones; those that are there after."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
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
        """The prices of these symbols, or of all of them."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            rows = _queries.list_prices(
                connection,
                organization_id=organization_id,
                broker=broker,
                some_symbols=None if symbols is None else list(symbols),
                row_limit=limit,
            )
            return {row["symbol"]: _price(row) async for row in rows}

    async def _find(
        self,
        lately: _Lately[_Value],
        read_some: Callable[[Connection, OrganizationId, str, Collection[Symbol]], Awaitable[dict[Symbol, _Value]]],
        account: TradingAccount,
        symbol: Symbol,
    ) -> _Value | None:
        organization_id, broker = account.organization_id, account.broker
        # Others may keep it fresh for accounts of theirs that end before this one.
        is_news = self.clock() - self._wanted.get((account.id, symbol), float("-inf")) > WANTED_SECONDS
        if is_news:
            self._note_wanted(account.id, symbol)

        async def read() -> _Value | None:
            try:
                async with transaction(self.pool, Role.TENANT, organization_id) as connection:
                    if is_news:
                        await _queries.want_symbol(
                            connection, organization_id=organization_id, account_id=account.id, symbol=symbol
                        )
                    return (await read_some(connection, organization_id, broker, [symbol])).get(symbol)
            except OUTDATED:
                return None

        return await lately.get((organization_id, broker, symbol), read, anew=is_news)

    def _note_wanted(self, account_id: AccountId, symbol: Symbol) -> None:
        """Before it is written: if that fails, it is written a minute later."""
        self._wanted[account_id, symbol] = self.clock()
        self._wanted.move_to_end((account_id, symbol))
        if len(self._wanted) > KEPT_MAX:
            self._wanted.popitem(last=False)

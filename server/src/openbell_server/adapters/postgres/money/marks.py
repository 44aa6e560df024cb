"""Reads what the symbols of an account are worth."""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from openbell_server.adapters.postgres.connection import PostgresStore, Role, transaction
from openbell_server.adapters.postgres.market_rows import read_instruments, read_prices, want_symbols
from openbell_server.application.money.ports import Mark
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.identifiers import Symbol


@dataclass(frozen=True, slots=True)
class PostgresMarks(PostgresStore):
    """Implements MarkStore."""

    async def read_marks(self, account: TradingAccount, symbols: Collection[Symbol]) -> dict[Symbol, Mark]:
        if not symbols:
            return {}
        organization_id = account.organization_id
        async with transaction(self.pool, self.role, organization_id) as connection:
            prices = await read_prices(connection, organization_id, account.broker, symbols)
            instruments = await read_instruments(connection, organization_id, account.broker, symbols)
            await want_symbols(connection, organization_id, account.id, symbols)
        marks = {}
        for symbol in symbols:
            price, instrument = prices.get(symbol), instruments.get(symbol)
            marks[symbol] = Mark(
                currency=None if instrument is None else instrument.quote_currency,
                multiplier=Decimal(1) if instrument is None else instrument.multiplier,
                price=None if price is None else price.price,
                as_of=None if price is None else price.as_of,
            )
        return marks


@dataclass(frozen=True, slots=True)
class ExecutorMarks(PostgresMarks):
    """For executors, whose login has another role."""

    role: ClassVar[Role] = Role.EXECUTION

"""Cash, positions and buying power at the paper broker, read from the ledger."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from uuid import UUID

import asyncpg

from openbell_exchange.money import Holding, buying_power
from openbell_exchange.standings import QuoteOf, Standing
from openbell_exchange.terms import EXACT, decimal_text, exact_total
from openbell_server.brokers.paper.ledger import Ledger, queries
from openbell_server.brokers.paper.wire import AccountBody, PositionBody

if TYPE_CHECKING:
    Writer = asyncpg.Connection[asyncpg.Record]
    Reader = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

# Limits memory.
_KEPT_MAX: Final = 10_000
# The least difference of two amounts on the wire; the ledger has more digits.
_LEAST: Final = Decimal("1E-18")


class Standings:
    """The standings of accounts that submitted, kept until anything else than submits is written."""

    def __init__(self, ledger: Ledger, quote_of: QuoteOf) -> None:
        self._ledger = ledger
        self._quote_of = quote_of
        self._changes = ledger.changes
        self._kept: dict[UUID, Standing] = {}

    async def of(self, connection: "Writer", account_ids: set[UUID]) -> dict[UUID, Standing]:
        """The connection must be the writer's, so that nothing is written meanwhile."""
        if self._changes != self._ledger.changes or len(self._kept) > _KEPT_MAX:
            self._kept, self._changes = {}, self._ledger.changes
        unknown = account_ids - self._kept.keys()
        if unknown:
            self._kept |= await read_standings(connection, unknown, self._quote_of)
        return {account_id: self._kept[account_id].at_prices(self._quote_of) for account_id in account_ids}

    def keep(self, standings: Mapping[UUID, Standing]) -> None:
        """As they are after the submits that were written."""
        self._kept |= standings


async def read_standings(
    connection: "Writer | Reader", account_ids: Collection[UUID], quote_of: QuoteOf, except_number: int = 0
) -> dict[UUID, Standing]:
    """The standing of each account; for a replace, except_number excludes the original order."""
    standings: dict[UUID, Standing] = {}
    async for row in queries.standings(connection, account_ids=[*account_ids], except_number=except_number):
        standing = standings.setdefault(row["account_id"], Standing(row["flow"], row["fees"], {}))
        symbol = row["symbol"]
        if symbol is not None:
            standing.holdings[symbol] = Holding(
                symbol=symbol,
                price=quote_of(symbol).price,
                quantity=row["quantity"],
                buying=row["buying"],
                buying_value=row["buying_value"],
                buying_quantity=row["buying_quantity"],
                selling=row["selling"],
            )
    return standings


async def set_cash(ledger: Ledger, account_id: UUID, cash: Decimal, quote_of: QuoteOf) -> None:
    """Deposit or withdraw the difference to this amount."""
    async with ledger.writing() as connection:
        standing = (await read_standings(connection, [account_id], quote_of))[account_id]
        amount = EXACT.subtract(cash, standing.cash)
        await queries.deposit(connection, account_id=account_id, amount=amount, made_at=datetime.now(UTC))


async def account(ledger: Ledger, account_id: UUID, quote_of: QuoteOf) -> AccountBody:
    async with ledger.reading() as connection:
        standing = (await read_standings(connection, [account_id], quote_of))[account_id]
    holdings = standing.holdings.values()
    held = exact_total(EXACT.multiply(holding.quantity, holding.price) for holding in holdings)
    return AccountBody(
        cash=_amount(standing.cash),
        equity=_amount(EXACT.add(standing.cash, held)),
        buying_power=_amount(buying_power(standing.cash, holdings)),
        fees_paid=decimal_text(standing.fees),
        positions=tuple(
            PositionBody(holding.symbol, decimal_text(holding.quantity), decimal_text(holding.price))
            for holding in holdings
            if holding.quantity
        ),
    )


def _amount(number: Decimal) -> str:
    return decimal_text(number.quantize(_LEAST, context=EXACT).normalize(EXACT))

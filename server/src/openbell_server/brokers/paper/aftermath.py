"""Later changes to an order that a fault plan requests: a fill after cancel, a bust, a correction."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import asyncpg

from openbell_server.brokers.paper.booking import Update, append, change, market_order
from openbell_server.brokers.paper.ledger import Ledger, queries
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.money import fee
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import EXACT

_CORRECTION: Final = Decimal("0.01")


async def fill_canceled(ledger: Ledger, market: Market, number: int) -> None:
    """Fill the rest of a cancelled order."""
    async with ledger.writing() as connection:
        row: asyncpg.Record | None = await queries.order_by_number(connection, number=number)
        if row is None or row["status"] != ReportStatus.CANCELED:
            return
        remaining, price = market_order(dict(row)).remaining, market.quote(row["symbol"]).price
        filled = Update(
            order_number=number,
            status=ReportStatus.FILLED,
            filled_quantity=row["quantity"],
            ordinal=row["ordinal"] + 1,
            quantity=remaining,
            price=price,
            fee=fee(remaining, price),
        )
        await change(connection, [filled], {number: False})
        await append(connection, [filled], datetime.now(UTC))


async def change_first_execution(ledger: Ledger, number: int, *, take_back: bool) -> None:
    """Bust an order's first execution or raise its price by a cent; does nothing if there is none."""
    async with ledger.writing() as connection:
        row: asyncpg.Record | None = await queries.first_execution(connection, order_number=number)
        if row is None:
            return
        await queries.change_execution(
            connection,
            order_number=number,
            ordinal=row["ordinal"],
            quantity=Decimal(0) if take_back else row["quantity"],
            price=row["price"] if take_back else EXACT.add(row["price"], _CORRECTION),
            changed_at=datetime.now(UTC),
        )

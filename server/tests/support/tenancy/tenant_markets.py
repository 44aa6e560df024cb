"""What an organization knows of its markets, and what statements about that are called with."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.domain.identifiers import Symbol
from support.builders.tenant import Tenant


async def with_markets(pool: Pool, tenant: Tenant) -> Tenant:
    """A price, an instrument, a rate of exchange, and a symbol that somebody asked about."""
    markets, account = PostgresMarketStore(pool), tenant.account
    now = datetime.now(UTC)
    await markets.give_prices(account.organization_id, account.broker, [(Symbol("AAPL"), Decimal(10), now)])
    await markets.give_rates(account.organization_id, [("EUR", "USD", Decimal("1.1"), now)])
    assert await markets.find_price(account, Symbol("AAPL")) is not None
    async with transaction(pool, Role.EXECUTION, account.organization_id) as connection:
        await named_queries.load("markets").save_instruments(
            connection,
            organization_id=account.organization_id,
            broker=account.broker,
            symbols=["AAPL"],
            **_an_instrument(),
        )
    return tenant


def values_of_markets() -> dict[str, Any]:
    return (
        _an_instrument()
        | _amounts()
        | {
            "from_currencies": ["EUR"],
            "to_currencies": ["USD"],
            "rates": [Decimal(2)],
            "as_ofs": [datetime.now(UTC)],
            "source": "given",
            "some_symbols": ["AAPL"],
            "codes": ["QTY_MAX"],
            "wanted_seconds": 600.0,
            "cause": "EXECUTION",
            "as_of": datetime.now(UTC),
            "market_prices": [Decimal(11)],
            "bids": [None],
            "asks": [None],
        }
    )


def _amounts() -> dict[str, Any]:
    amounts = ("cash", "equity", "buying_power", "initial_margin", "maintenance_margin")
    return {"currency": "USD"} | dict.fromkeys(amounts, Decimal(1))


def _an_instrument() -> dict[str, Any]:
    return {
        "asset_classes": ["us_equity"],
        "quote_currencies": ["USD"],
        "tradables": [True],
        "fractionals": [True],
        "ticks": [None],
        "lots": [None],
        "multipliers": [Decimal(1)],
    }

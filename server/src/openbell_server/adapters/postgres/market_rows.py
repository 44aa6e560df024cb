"""Reads prices, instruments, exchange rates and losses in the caller's transaction and under its locks."""

from collections.abc import Collection

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection
from openbell_server.domain.controls.facts import Rate, ReferencePrice
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.markets.instruments import Instrument
from openbell_server.domain.money.losses import LossMark

_queries = named_queries.load("markets")


async def read_prices(
    connection: Connection, organization_id: OrganizationId, broker: str, symbols: Collection[Symbol]
) -> dict[Symbol, ReferencePrice]:
    """The newest prices, however old; symbols without a price are left out."""
    rows = _queries.read_prices(connection, organization_id=organization_id, broker=broker, symbols=list(symbols))
    return {row["symbol"]: price_of(row) async for row in rows}


async def read_instruments(
    connection: Connection, organization_id: OrganizationId, broker: str, symbols: Collection[Symbol]
) -> dict[Symbol, Instrument]:
    """Symbols that the broker does not know are left out."""
    rows = _queries.read_instruments(connection, organization_id=organization_id, broker=broker, symbols=list(symbols))
    return {row["symbol"]: Instrument(**row) async for row in rows}


async def want_symbols(
    connection: Connection, organization_id: OrganizationId, account_id: AccountId, symbols: Collection[Symbol]
) -> None:
    """Have executors keep the prices and instruments of these symbols fresh."""
    await _queries.want_symbols(
        connection, organization_id=organization_id, account_id=account_id, symbols=sorted(symbols)
    )


async def read_rates(
    connection: Connection, organization_id: OrganizationId, pairs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Rate]:
    """Exchange rates by pairs (from, to) of currencies."""
    rows = _queries.read_rates(
        connection,
        organization_id=organization_id,
        from_currencies=[pair[0] for pair in pairs],
        to_currencies=[pair[1] for pair in pairs],
    )
    return {
        (row["from_currency"], row["to_currency"]): Rate(rate=row["rate"], as_of=row["as_of"]) async for row in rows
    }


def price_of(row: asyncpg.Record) -> ReferencePrice:
    return ReferencePrice(price=row["price"], as_of=row["as_of"], source=row["source"], bid=row["bid"], ask=row["ask"])


async def read_losses(
    connection: Connection, organization_id: OrganizationId, account_id: AccountId
) -> dict[tuple[str, str], LossMark]:
    """What the account lost on its last measured day, by currency and time zone."""
    rows = _queries.read_losses(connection, organization_id=organization_id, account_id=account_id)
    return {(row["currency"], row["timezone"]): mark_of(row) async for row in rows}


def mark_of(row: asyncpg.Record) -> LossMark:
    return LossMark(
        day=row["day"],
        opening=row["opening"],
        highest=row["highest"],
        profit=row["profit"],
        lost_from_opening=row["lost_from_opening"],
        lost_from_highest=row["lost_from_highest"],
        as_of=row["as_of"],
    )

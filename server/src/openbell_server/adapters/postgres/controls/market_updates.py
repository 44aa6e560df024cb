"""Stores the quotes and instruments that executors receive from brokers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role, transaction
from openbell_server.application.controls.ports.markets import KeptPrice
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.markets.instruments import Instrument

WANTED_SECONDS: Final = 600.0
WANTED_MAX: Final = 1_000
ACCOUNTS_MAX: Final = 1_000
_queries = named_queries.load("markets")


@dataclass(frozen=True, slots=True)
class PostgresMarketKeeping(PostgresStore):
    """Implements MarketKeeping."""

    role: ClassVar[Role] = Role.EXECUTION

    async def wanted_across_organizations(
        self, slots: Collection[int], codes: Collection[str]
    ) -> list[tuple[BrokerAccount, Symbol]]:
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            rows = _queries.wanted_across_organizations(
                connection, slots=list(slots), wanted_seconds=WANTED_SECONDS, row_limit=WANTED_MAX
            )
            wanted = [(_account(row), Symbol(row["symbol"])) async for row in rows]
            rows = _queries.accounts_with_rules_across_organizations(
                connection, slots=list(slots), codes=list(codes), row_limit=ACCOUNTS_MAX
            )
            ruled = [_account(row) async for row in rows]
        by_organization: dict[OrganizationId, dict[AccountId, BrokerAccount]] = {}
        for account in ruled:
            by_organization.setdefault(account.organization_id, {})[account.account_id] = account
        for organization_id, accounts in by_organization.items():
            wanted += await self._traded(organization_id, accounts)
        return wanted[:WANTED_MAX]

    async def _traded(
        self, organization_id: OrganizationId, accounts: Mapping[AccountId, BrokerAccount]
    ) -> list[tuple[BrokerAccount, Symbol]]:
        """Read per organization, because executors may not read positions and orders across organizations."""
        rows = await self._rows(
            _queries.traded_symbols, organization_id, account_ids=list(accounts), row_limit=WANTED_MAX
        )
        return [(accounts[row["account_id"]], row["symbol"]) for row in rows]

    async def save_quotes(self, account: BrokerAccount, prices: Sequence[KeptPrice]) -> None:
        if not prices:
            return
        await self._one(
            _queries.save_prices,
            account.organization_id,
            broker=account.broker,
            source="quote",
            symbols=[each.symbol for each in prices],
            market_prices=[each.price for each in prices],
            bids=[each.bid for each in prices],
            asks=[each.ask for each in prices],
            as_ofs=[each.as_of for each in prices],
        )

    async def save_instruments(self, account: BrokerAccount, instruments: Mapping[Symbol, Instrument | None]) -> None:
        known = [*instruments.values()]
        await self._one(
            _queries.save_instruments,
            account.organization_id,
            broker=account.broker,
            symbols=[*instruments],
            asset_classes=[each and each.asset_class for each in known],
            quote_currencies=[each and each.quote_currency for each in known],
            tradables=[each is not None and each.tradable for each in known],
            fractionals=[each is not None and each.fractional for each in known],
            ticks=[each and each.tick for each in known],
            lots=[each and each.lot for each in known],
            multipliers=[1 if each is None else each.multiplier for each in known],
        )


def _account(row: asyncpg.Record) -> BrokerAccount:
    return BrokerAccount(row["organization_id"], row["account_id"], row["broker"], row["slot"])

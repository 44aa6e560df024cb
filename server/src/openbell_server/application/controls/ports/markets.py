"""Prices and instruments in the database."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.controls.facts import Rate, ReferencePrice
from openbell_server.domain.identifiers import OrganizationId, Symbol
from openbell_server.domain.markets.instruments import Instrument


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPrice:
    symbol: Symbol
    price: Decimal
    as_of: datetime
    bid: Decimal | None
    ask: Decimal | None


class MarketKeeping(Protocol):
    """Where executors store prices and instruments of brokers."""

    async def wanted_across_organizations(
        self, slots: Collection[int], codes: Collection[str]
    ) -> list[tuple[BrokerAccount, Symbol]]:
        """Symbols read lately, and those that accounts with rules of these codes hold or have orders for; bounded."""

    async def save_quotes(self, account: BrokerAccount, prices: Sequence[KeptPrice]) -> None:
        """Store prices unless newer ones are stored."""

    async def save_instruments(self, account: BrokerAccount, instruments: Mapping[Symbol, Instrument | None]) -> None:
        """Store instruments; None for a symbol that the broker does not know."""


class ReferenceStore(Protocol):
    """Prices and exchange rates that callers set."""

    async def give_prices(
        self, organization_id: OrganizationId, broker: str, prices: Sequence[tuple[Symbol, Decimal, datetime | None]]
    ) -> dict[Symbol, ReferencePrice]:
        """Store prices unless newer ones are stored; returns the stored ones. A price without a time is of now."""

    async def give_rates(
        self, organization_id: OrganizationId, rates: Sequence[tuple[str, str, Decimal, datetime | None]]
    ) -> dict[tuple[str, str], Rate]:
        """Store exchange rates unless newer ones are stored; returns the stored ones."""

    async def list_prices(
        self, organization_id: OrganizationId, broker: str, symbols: Collection[Symbol] | None, limit: int
    ) -> dict[Symbol, ReferencePrice]:
        """Prices by symbol; symbols None lists all."""

"""What keeping prices and instruments fresh needs from the database."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.domain.control_facts import Rate, ReferencePrice
from openbell_server.domain.identifiers import OrganizationId, Symbol
from openbell_server.domain.instruments import Instrument


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPrice:
    """A price that a broker quotes."""

    symbol: Symbol
    price: Decimal
    as_of: datetime
    bid: Decimal | None
    ask: Decimal | None


class MarketKeeping(Protocol):
    """Where executors keep what brokers tell of markets."""

    async def wanted_across_organizations(
        self, slots: Collection[int], codes: Collection[str]
    ) -> list[tuple[BrokerAccount, Symbol]]:
        """What somebody asked about lately, and what accounts with rules of these codes hold or order; bounded."""

    async def save_quotes(self, account: BrokerAccount, prices: Sequence[KeptPrice]) -> None:
        """Keep prices, unless there are newer ones."""

    async def save_instruments(self, account: BrokerAccount, told: Mapping[Symbol, Instrument | None]) -> None:
        """Keep what a broker says of symbols; None of one that it does not know."""


class ReferenceStore(Protocol):
    """Prices and rates of exchange that somebody gives."""

    async def give_prices(
        self, organization_id: OrganizationId, broker: str, prices: Sequence[tuple[Symbol, Decimal, datetime | None]]
    ) -> dict[Symbol, ReferencePrice]:
        """Keep prices, unless there are newer ones; those that are there after. Without a time one is of now."""

    async def give_rates(
        self, organization_id: OrganizationId, rates: Sequence[tuple[str, str, Decimal, datetime | None]]
    ) -> dict[tuple[str, str], Rate]:
        """Keep rates of exchange, unless there are newer ones; those that are there after."""

    async def list_prices(
        self, organization_id: OrganizationId, broker: str, symbols: Collection[Symbol] | None, limit: int
    ) -> dict[Symbol, ReferencePrice]:
        """The prices of these symbols, or of all of them, by symbol."""

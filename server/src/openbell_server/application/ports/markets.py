"""What keeping prices and instruments fresh needs from the database."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.domain.identifiers import Symbol
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

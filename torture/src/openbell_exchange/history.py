"""An order with all that became of it, as the views of a broker need it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from openbell_exchange.terms import EXACT, OrderType, ReportStatus, TimeInForce, exact_total


@dataclass(frozen=True, slots=True)
class Step:
    """One update of an order."""

    number: int
    happened_at: datetime
    status: ReportStatus
    ordinal: int | None
    revision: int | None


@dataclass(frozen=True, slots=True)
class Fill:
    """One execution, and its later changes: by revision, its quantity and price."""

    ordinal: int
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    changes: Mapping[int, tuple[Decimal, Decimal]]


@dataclass(frozen=True, slots=True)
class Member:
    """One order of the chain; its total counts what the chain had filled before it."""

    client_order_id: str
    began_at: datetime
    total: Decimal
    limit_price: Decimal | None
    stop_price: Decimal | None
    time_in_force: TimeInForce


@dataclass(frozen=True, slots=True)
class History:
    """An order with its replaces, updates and fills, oldest first."""

    number: int
    account_id: UUID
    symbol: str
    side: str
    order_type: OrderType
    members: Sequence[Member]
    steps: Sequence[Step]
    fills: Sequence[Fill]

    @property
    def is_working(self) -> bool:
        return self.steps[-1].status is ReportStatus.WORKING

    @property
    def filled(self) -> Decimal:
        """Without the later changes of fills."""
        return exact_total(fill.quantity for fill in self.fills)

    def index_at(self, time: datetime) -> int:
        """Which of the chain worked then."""
        return max((i for i, member in enumerate(self.members) if member.began_at <= time), default=0)

    def fills_of(self, index: int) -> list[Fill]:
        """What filled while this one of the chain worked."""
        return [fill for fill in self.fills if self.index_at(fill.executed_at) == index]

    def quantity_of(self, index: int) -> Decimal:
        """What this one of the chain may fill by itself."""
        before = exact_total(f.quantity for f in self.fills if self.index_at(f.executed_at) < index)
        return EXACT.subtract(self.members[index].total, before)

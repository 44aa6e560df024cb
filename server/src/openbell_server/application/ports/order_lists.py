"""What lists of orders, executions and positions are read from."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from openbell_server.domain.action_lifecycle import Reason
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId, Symbol
from openbell_server.domain.order_aggregate import Order
from openbell_server.domain.orders import OrderSide, OrderType


class ListedStatus(StrEnum):
    """Which orders are listed: those that may still fill, or are in doubt; those that are over; or all."""

    WORKING = "WORKING"
    CLOSED = "CLOSED"
    ALL = "ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFilter:
    """Which orders of an account are listed; what is None lets all pass."""

    status: ListedStatus = ListedStatus.ALL
    symbol: str | None = None
    order_side: OrderSide | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOrder:
    """The order of an intent as it stands, with the number of the action that asked for it."""

    number: int
    intent_id: IntentId
    # Whose client order id the broker knows it by.
    order_action_id: ActionId
    client_reference_id: str | None
    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    order: Order
    # Of the latest action.
    reason: Reason | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedExecution:
    """An execution as the broker told it first, and as it stands where the broker said something else later."""

    execution_id: str
    intent_id: IntentId
    symbol: Symbol
    order_side: OrderSide
    told_quantity: Decimal
    told_price: Decimal
    executed_at: datetime
    recorded_at: datetime
    # None: as it was told. Quantity 0: taken back.
    quantity: Decimal | None
    price: Decimal | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ListedPosition:
    """What an account holds of a symbol; less than nothing where it is short."""

    symbol: Symbol
    quantity: Decimal
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPositions:
    """What an account holds after the event with this number."""

    event_no: int
    # When the broker's word was last taken over, if ever.
    as_of: datetime | None
    positions: Sequence[ListedPosition]


class OrderLists(Protocol):
    """Orders, executions and positions as they stand."""

    async def list_orders(
        self, organization_id: OrganizationId, account_id: AccountId, wanted: OrderFilter, numbers: range, limit: int
    ) -> list[ListedOrder]:
        """Orders that pass a filter, in the order they were asked for, among some numbers."""

    async def list_working_orders(
        self, organization_id: OrganizationId, account_id: AccountId, wanted: OrderFilter, after: int, limit: int
    ) -> list[ListedOrder]:
        """Those that are not over, from the one after a number."""

    async def show_order(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId
    ) -> ListedOrder | None:
        """The order of an intent."""

    async def list_executions(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        intent_id: IntentId | None,
        since: datetime,
        skipped: int,
        until: datetime | None,
        limit: int,
    ) -> list[ListedExecution]:
        """Executions recorded since a moment, after so many of that moment itself, in the order they were recorded."""

    async def list_positions(
        self, organization_id: OrganizationId, account_id: AccountId, limit: int
    ) -> ListedPositions:
        """What the account holds, all of it at one moment."""

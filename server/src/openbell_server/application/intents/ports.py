"""The database as intents use it: accept a command, read actions, orders, executions, positions and statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from openbell_server.application.controls.ports.orders import OrderStore
from openbell_server.application.paging import ListOrder
from openbell_server.application.ports.accept_step import AcceptStore
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId, Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.intent_statistics import IntentStatistics, TimeWindow
from openbell_server.domain.orders.intents import ActionType, IntentAction
from openbell_server.domain.orders.order_aggregate import Certainty, Order
from openbell_server.domain.orders.order_terms import OrderSide, OrderType
from openbell_server.domain.orders.positions import PositionCause


class ListedStatus(StrEnum):
    """Which orders are listed: WORKING ones may still fill or are unknown."""

    WORKING = "WORKING"
    CLOSED = "CLOSED"
    ALL = "ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFilter:
    """Which orders of an organization are listed, and in which order; None matches all."""

    account_id: AccountId | None = None
    intent_id: IntentId | None = None
    status: ListedStatus = ListedStatus.ALL
    certainty: Certainty | None = None
    symbol: str | None = None
    order_side: OrderSide | None = None
    order: ListOrder = ListOrder.OLDEST_FIRST

    @property
    def is_open(self) -> bool:
        """Whether only open orders match: those that are unknown are not closed."""
        return self.status is ListedStatus.WORKING or self.certainty is Certainty.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFilter:
    """Which executions are listed, by recording time: since is included, until excluded."""

    account_id: AccountId | None = None
    intent_id: IntentId | None = None
    symbol: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    order: ListOrder = ListOrder.OLDEST_FIRST


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOrder:
    """The current order of an intent."""

    account_id: AccountId
    intent_id: IntentId
    # The action whose client order id the broker has.
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
    """An execution as the broker first reported it, and its later correction."""

    account_id: AccountId
    environment: Environment
    execution_id: str
    intent_id: IntentId
    symbol: Symbol
    order_side: OrderSide
    reported_quantity: Decimal
    reported_price: Decimal
    executed_at: datetime
    recorded_at: datetime
    # The correction; None if there was none, quantity 0 if the broker busted the execution.
    quantity: Decimal | None
    price: Decimal | None
    # After its correction; None: not reported.
    fee: Decimal | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ListedPosition:
    """The position of an account in a symbol; negative if it is short."""

    symbol: Symbol
    quantity: Decimal
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPositions:
    """The positions of an account after the event with this number."""

    event_no: int
    # When the broker's positions were last adopted; None: never.
    as_of: datetime | None
    positions: Sequence[ListedPosition]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionChange:
    """One change of a position; `quantity` is the position after it."""

    number: int
    symbol: Symbol
    cause: PositionCause
    intent_id: IntentId | None
    change: Decimal
    quantity: Decimal
    # Of the fills of an external order, negative for sells; None: unknown.
    value: Decimal | None
    # The broker's, of the whole position after it was adopted; None: unknown.
    average_price: Decimal | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSearch:
    """A page of orders: those of the filter beyond an intent, in the spellings of the symbol, of one environment."""

    wanted: OrderFilter
    beyond: IntentId
    symbols: frozenset[Symbol] | None
    environment: Environment | None
    # Only of these accounts; None does not filter.
    account_ids: frozenset[AccountId] | None
    # How many intents are looked at, whether they match or not.
    looked_at_max: int


class OrderLists(Protocol):
    async def list_orders(
        self, organization_id: OrganizationId, search: OrderSearch, limit: int
    ) -> list[ListedOrder]: ...

    async def last_looked_at(self, organization_id: OrganizationId, search: OrderSearch) -> IntentId | None:
        """The last intent that a search looks at; None if it looks at all that there are."""

    async def list_executions(
        self,
        organization_id: OrganizationId,
        wanted: ExecutionFilter,
        since: datetime,
        until: datetime,
        skipped: int,
        limit: int,
    ) -> list[ListedExecution]:
        """Executions in recording order, both times included; the first `skipped` are left out."""

    async def list_positions(
        self, organization_id: OrganizationId, account_id: AccountId, limit: int
    ) -> ListedPositions:
        """All positions are read in one statement."""

    async def list_position_changes(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        symbol: Symbol | None,
        beyond: int,
        order: ListOrder,
        limit: int,
    ) -> list[PositionChange]:
        """The changes after a number, or with the newest first before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAction:
    action: IntentAction
    state: ActionState
    reason: Reason | None
    # When it was about to be sent to the broker.
    dispatched_at: datetime | None
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFilter:
    """Which actions of an account are listed; None matches all; `since` is included, `until` is not."""

    symbol: str | None = None
    action_type: ActionType | None = None
    client_reference_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    order: ListOrder = ListOrder.OLDEST_FIRST


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvidence:
    """Why an outcome is unknown, and the look-ups made so far."""

    since: datetime
    probes: Sequence[tuple[datetime, bool]]
    # Since when the action is flagged for an operator, and how often the command may have been sent.
    flagged_at: datetime | None
    writes: int
    # Together they determine what would settle the outcome.
    action_type: ActionType
    broker: str
    # The broker's ids of orders that may be this one.
    candidates: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The current order of an intent."""

    order: Order
    unknown: UnknownEvidence | None
    updated_at: datetime


class IntentStore(AcceptStore, OrderStore, Protocol):
    async def find_action(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, seq: int | None = None
    ) -> RecordedAction | None:
        """The action with this seq, or the latest."""

    async def find_action_by_id(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, action_id: ActionId
    ) -> RecordedAction | None: ...

    async def find_action_by_key(
        self, organization_id: OrganizationId, account_id: AccountId, key: str, command_hash: bytes
    ) -> RecordedAction | None:
        """The action recorded under this key for the same command."""

    async def find_execution(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId
    ) -> Execution | None: ...

    async def list_actions(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[RecordedAction]:
        """Actions of an account in commit order, beginning after a number."""

    async def list_some_actions(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        wanted: ActionFilter,
        numbers: range,
        limit: int,
    ) -> list[RecordedAction]:
        """Actions that match a filter, in the filter's order, within a range of numbers."""

    async def numbers_between(
        self, organization_id: OrganizationId, account_id: AccountId, since: datetime | None, until: datetime | None
    ) -> range:
        """The numbers of an account's actions; with since or until, a range that covers those times."""

    async def list_actions_of_intent(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, after: int, limit: int
    ) -> list[RecordedAction]:
        """Actions of an intent, beginning after a seq."""


class StatisticsStore(Protocol):
    async def count_intents(
        self, organization_id: OrganizationId, account_id: AccountId, window: TimeWindow
    ) -> IntentStatistics: ...

"""The transaction under an account's lock, which controls, events and execution share."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.controls.facts import CommandFacts, Facts, Need
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.controls.symbol_controls import DoorFacts
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import (
    AccountId,
    ActionId,
    IntentId,
    OrganizationId,
    Symbol,
    client_order_id,
)
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange, OrderName
from openbell_server.domain.orders.external_orders import ExternalOrder
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, Terms
from openbell_server.domain.orders.positions import PositionCause


@dataclass(frozen=True, slots=True)
class BrokerAccount:
    organization_id: OrganizationId
    account_id: AccountId
    broker: str
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerms:
    """The terms of an order that neither fills nor replaces change."""

    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    route_strategy: RouteStrategy
    client_reference_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedAction:
    action_id: ActionId
    intent_id: IntentId
    seq: int
    action_type: ActionType
    state: ActionState
    attempt_id: UUID | None
    send_started_at: datetime | None
    settled_at: datetime | None
    # The action whose client order id the broker has for the order.
    order_action_id: ActionId
    misses: Sequence[datetime]
    order: Order
    terms: OrderTerms
    # The new terms of a REPLACE; None for other actions.
    replacement: Terms | None = None
    # Facts for the check before sending; None for a cancel and after the door, which are not checked.
    at_door: DoorFacts | None = None
    # How often it was sent again after the first time, and since when it is flagged for operators.
    resends: int = 0
    flagged_at: datetime | None = None
    unknown_since: datetime | None = None

    @property
    def writes(self) -> int:
        """How often it may have been sent to the broker."""
        return 1 + self.resends

    @property
    def order_name(self) -> OrderName:
        """The ids under which the broker may know the order."""
        return OrderName(
            client_order_id=client_order_id(self.order_action_id), broker_order_ids=self.order.broker_order_ids
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """An account on hold: the database was restored and may have lost what was sent before."""

    epoch: int
    # None: the restore was not noticed yet.
    began_at: datetime | None
    look_back_to: datetime | None


@dataclass(frozen=True, slots=True)
class AccountStanding:
    """The credential of an account, valid for these epochs."""

    epochs: tuple[int, int]
    # The version of the credential that must be used; None without a credential.
    credential_version: int | None
    credential_status: CredentialStatus


@dataclass(frozen=True, slots=True)
class LastReconciliation:
    """How far an account was reconciled with its broker."""

    # The newest event of the account's log now.
    event_no: int
    # The broker's list was read up to this time; None: never.
    reconciled_at: datetime | None
    # When an operator last lifted a halt; orders from before were checked then.
    resumed_at: datetime | None


@dataclass(frozen=True, slots=True)
class HeldPositions:
    """The positions of an account by our count."""

    # When the broker's positions were last adopted; None: never.
    as_of: datetime | None
    quantities: Mapping[Symbol, Decimal]
    # When each position last changed.
    moved_at: Mapping[Symbol, datetime]


class AccountTransaction(Protocol):
    """One transaction under the account's lock; events are numbered in the order of the calls."""

    @property
    def now(self) -> datetime:
        """The database's clock when the lock was requested."""

    @property
    def hold(self) -> Hold | None:
        """Set while nothing may be sent for the account."""

    @property
    def halt_code(self) -> str | None:
        """Why only cancels may be sent until an operator lifts the halt; None without a halt."""

    @property
    def epochs(self) -> tuple[int, int]:
        """Of the database, new after a restore, and of the account, new after any change of it or its credential."""

    @property
    def was_restored(self) -> bool:
        """Whether the database was ever restored, so that brokers may have orders that it lost."""

    async def superseded(self) -> list[TrackedAction]:
        """Replaces and creates cancelled before they were sent, and the cancels of such creates; bounded."""

    async def standing(self) -> AccountStanding: ...

    async def ready(self, limit: int, *, commands: int, cancels: bool, cancels_unseen: bool) -> list[TrackedAction]:
        """Queued actions that wait for no other action of their intent, in commit order; cancels alone, if any.

        They are at most `limit`, others at most `commands` too; without `cancels` none is a cancel. A cancel waits for
        a CREATE with an unknown outcome unless cancels_unseen, and for no other unknown command.
        """

    async def rule_book(self, epochs: tuple[int, int]) -> RuleBook:
        """The rules at these epochs of organization and account, which cannot change before this transaction ends."""

    async def facts_at_door(
        self, action: TrackedAction, asked: CommandFacts, rules: Sequence[Rule], needs: frozenset[Need]
    ) -> Facts:
        """The facts that these rules need about a command just before it is sent, read under the lock."""

    async def keep_refusal(self, action: TrackedAction, receipt: Receipt) -> None:
        """Store the receipt of a command that is refused before sending."""

    async def in_doubt(self) -> list[TrackedAction]:
        """Actions that were sent without a known outcome; bounded."""

    async def has_queued(self, *, cancels: bool = False) -> bool:
        """Whether the account has queued actions, or queued cancels."""

    async def of_intents(self, intent_ids: Sequence[IntentId]) -> list[TrackedAction]:
        """All actions of these intents, in their order."""

    async def intents_of(self, action_ids: Sequence[ActionId]) -> dict[ActionId, IntentId]: ...

    async def intents_of_broker_orders(self, broker_order_ids: Sequence[str]) -> dict[str, IntentId]:
        """Intents by broker order id, for brokers that do not store our ids."""

    async def adopt_forgotten_orders(self, action_ids: Sequence[ActionId]) -> dict[ActionId, ActionId]:
        """Link actions to orders that the broker has for the same commands from before a restore; returns old ids."""

    async def add_forgotten_orders(self, action_ids: Sequence[ActionId]) -> None:
        """Record orders that the broker has under our ids and our record does not."""

    async def end_hold(self, hold: Hold) -> None: ...

    async def open_doors(self, action_ids: Sequence[ActionId], attempt_id: UUID) -> dict[ActionId, datetime]:
        """QUEUED → DISPATCHING, by exactly one caller per action; returns when each door opened."""

    async def save_action(self, action: TrackedAction, state: ActionState, reason: Reason | None) -> None: ...

    async def add_probe(self, action_id: ActionId, asked_at: datetime, *, found: bool) -> None:
        """Record a look-up as evidence, with the time before it was made."""

    async def save_order(self, action: TrackedAction, order: Order) -> None: ...

    async def flag_action(self, action_id: ActionId) -> datetime | None:
        """Flag an action for operators; returns the time, or None if it was flagged before."""

    async def to_flag(self, stuck_after_seconds: float, flag_after_seconds: float) -> list[TrackedAction]:
        """Actions abandoned in DISPATCHING, and unflagged ones UNKNOWN for long; bounded."""

    async def count_repeat(self, action: TrackedAction) -> None:
        """Count one more send of an unknown cancel."""

    async def door_facts(self, action: TrackedAction) -> DoorFacts:
        """Facts for the check before an action is sent again."""

    async def record_resend(self, action: TrackedAction, attempt_id: UUID) -> datetime:
        """Count one more send under a new attempt and return when; earlier look-ups no longer count."""

    async def add_executions(self, intent_id: IntentId, fills: Sequence[BrokerExecution]) -> set[str]:
        """Store fills; returns the ids of new ones."""

    async def add_execution_changes(self, intent_id: IntentId, changes: Sequence[ExecutionChange]) -> None:
        """Store corrections and busts of fills, each once."""

    async def executions_of(self, intent_id: IntentId) -> tuple[list[BrokerExecution], list[ExecutionChange]]:
        """All fills of an order, and their corrections and busts."""

    async def last_reconciliation(self) -> LastReconciliation: ...

    async def save_reconciliation(self, reconciled_at: datetime, event_no: int | None) -> None:
        """The broker's list was read up to a time; with event_no, no reconciliation is due until a later event."""

    async def open_orders(self) -> list[TrackedAction]:
        """Orders that may be open at the broker, each as the action that created it; bounded."""

    async def forgotten_among(self, action_ids: Collection[ActionId]) -> set[ActionId]:
        """Those that a restored database lost."""

    async def skipped_among(self, action_ids: Collection[ActionId]) -> set[ActionId]:
        """Those that were skipped, so they were never sent."""

    async def external_orders_among(self, broker_order_ids: Collection[str]) -> dict[str, ExternalOrder]:
        """Recorded external orders by broker order id."""

    async def external_orders_named(self, client_order_ids: Collection[str]) -> list[ExternalOrder]:
        """Recorded external orders with these client order ids."""

    async def open_external_orders(self) -> list[ExternalOrder]:
        """External orders that may still fill; bounded."""

    async def save_external_order(self, order: ExternalOrder) -> None: ...

    async def set_candidates(self, action_id: ActionId, broker_order_ids: Sequence[str]) -> None:
        """Record the orders at the broker that may belong to an action."""

    async def halt(self, code: str, detail: str) -> bool:
        """Allow only cancels until an operator lifts the halt; returns False if the account was halted before."""

    async def add_to_position(
        self,
        symbol: Symbol,
        change: Decimal,
        cause: PositionCause,
        intent_id: IntentId | None = None,
        *,
        value: Decimal | None = None,
        average_price: Decimal | None = None,
    ) -> Decimal:
        """Returns the position after the change, and records the change unless it is 0.

        intent_id of an execution; the signed value of the fills of an external order; the broker's average price of the
        whole position where it was adopted.
        """

    async def held_positions(self) -> HeldPositions: ...

    async def save_positions_as_of(self, as_of: datetime) -> None:
        """Record that the positions equal the broker's at that time."""

    async def keep_fill_price(self, symbol: Symbol, price: Decimal, executed_at: datetime) -> None:
        """Store the price of a fill as reference price, unless a newer one is stored."""

    async def balances(self) -> Balances | None:
        """The balances stored last; None: never."""

    async def save_balances(self, balances: Balances) -> bool:
        """Store the balances; returns False, and changes nothing, if newer ones are stored."""

    def append_event(self, kind: EventKind, intent_id: IntentId | None, seq: int | None, body: str) -> None:
        """Append to the account's log; the number is assigned when the transaction ends."""

"""What execution needs from the database: one transaction per account, and what to look at next."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from openbell_server.domain.account_events import EventKind
from openbell_server.domain.action_lifecycle import ActionState, Reason
from openbell_server.domain.broker_orders import (
    BrokerExecution,
    ExecutionChange,
    OrderName,
)
from openbell_server.domain.control_facts import Asked, Facts, Need
from openbell_server.domain.control_rules import Rule, RuleBook
from openbell_server.domain.controls import DoorFacts
from openbell_server.domain.credentials import CredentialStatus
from openbell_server.domain.external_orders import ExternalOrder
from openbell_server.domain.identifiers import (
    AccountId,
    ActionId,
    IntentId,
    OrganizationId,
    Symbol,
    client_order_id,
)
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import Order
from openbell_server.domain.orders import OrderSide, OrderType, RouteStrategy, Terms
from openbell_server.domain.receipts import Receipt


@dataclass(frozen=True, slots=True)
class BrokerAccount:
    """An account as execution knows it."""

    organization_id: OrganizationId
    account_id: AccountId
    broker: str
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerms:
    """What was asked for once; neither fills nor replaces change it."""

    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    route_strategy: RouteStrategy
    client_reference_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedAction:
    """An unsettled or reported action with its order."""

    action_id: ActionId
    intent_id: IntentId
    seq: int
    action_type: ActionType
    state: ActionState
    attempt_id: UUID | None
    send_started_at: datetime | None
    settled_at: datetime | None
    # The action whose client order id the broker knows the order by.
    order_action_id: ActionId
    misses: Sequence[datetime]
    order: Order
    terms: OrderTerms
    # What a REPLACE asks for; None for any other.
    replacement: Terms | None = None
    # What it is judged by at the door; a cancel, and whatever is past it, is not judged.
    at_door: DoorFacts | None = None
    # How often it was written again after its first door, None on a schema that cannot count it; and since when
    # somebody should look at it.
    resends: int | None = 0
    flagged_at: datetime | None = None
    unknown_since: datetime | None = None

    @property
    def writes(self) -> int:
        """How often it may have been written to the broker."""
        return 1 + (self.resends or 0)

    @property
    def order_name(self) -> OrderName:
        """What its broker may know the order by."""
        return OrderName(
            client_order_id=client_order_id(self.order_action_id), broker_order_ids=self.order.broker_order_ids
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """Why an account may send nothing: the database was restored, and may have forgotten what was sent before."""

    epoch: int
    # None: nobody has noticed the restore yet.
    began_at: datetime | None
    look_back_to: datetime | None


@dataclass(frozen=True, slots=True)
class AccountStanding:
    """How an account stands with its broker, for as long as its epochs last."""

    epochs: tuple[int, int]
    # The version of its credential that must be used; None while it has none.
    credential_version: int | None
    credential_status: CredentialStatus


@dataclass(frozen=True, slots=True)
class LastReconciliation:
    """How far an account was compared with its broker."""

    # Of our log, now.
    event_no: int
    # The broker's list was read up to then; None: never.
    reconciled_at: datetime | None
    # When an operator last let the account go on; what was there by then has been looked at.
    resumed_at: datetime | None
    # Whether the schema has a place for what the broker says the account holds.
    keeps_positions: bool = True


@dataclass(frozen=True, slots=True)
class HeldPositions:
    """What an account holds by our count."""

    # When the broker's word was last taken over; None: never.
    as_of: datetime | None
    quantities: Mapping[Symbol, Decimal]
    # When each of them last changed.
    moved_at: Mapping[Symbol, datetime]


class AccountTransaction(Protocol):
    """One transaction that holds the account's lock; what it appends is numbered in the order of the calls."""

    @property
    def now(self) -> datetime:
        """The database's clock when the lock was asked for."""

    @property
    def hold(self) -> Hold | None:
        """Set while no door of the account may open."""

    @property
    def halt_code(self) -> str | None:
        """Why nothing but cancels may pass until an operator lifts it; None where all may."""

    @property
    def epochs(self) -> tuple[int, int]:
        """Of the database, which a restore ends, and of the account, which any change of it or its credential ends."""

    @property
    def was_restored(self) -> bool:
        """Whether the database was ever restored, so that brokers may have orders we forgot."""

    async def superseded(self) -> list[TrackedAction]:
        """Replaces and creates that are cancelled before they were sent, with the cancels of such creates; bounded."""

    async def standing(self) -> AccountStanding:
        """How the account stands with its broker."""

    async def ready(self, limit: int, *, commands: int, cancels: bool, cancels_unseen: bool) -> list[TrackedAction]:
        """Queued actions that wait for no other of their intent: cancels first, if at all, then in commit order.

        At most so many of them are other than cancels. A cancel waits for no command in doubt, unless that is a new
        order, and unseen ones cannot be cancelled.
        """

    async def rule_book(self, epochs: tuple[int, int]) -> RuleBook:
        """What applies at these epochs, of the organization and of the account, which nobody ends before this ends."""

    async def facts_at_door(
        self, action: TrackedAction, asked: Asked, rules: Sequence[Rule], needs: frozenset[Need]
    ) -> Facts:
        """What these rules must know of a command that is about to pass its door, as it is under the lock."""

    async def keep_refusal(self, action: TrackedAction, receipt: Receipt) -> None:
        """Keep the receipt of a command that may not pass its door, where the schema can."""

    async def in_doubt(self) -> list[TrackedAction]:
        """Actions past their door without an outcome; a bounded number."""

    async def has_queued(self, *, cancels: bool = False) -> bool:
        """Whether an action of the account waits for its door, or a cancel does: without one nothing is superseded."""

    async def of_intents(self, intent_ids: Sequence[IntentId]) -> list[TrackedAction]:
        """All actions of these intents, in order."""

    async def intents_of(self, action_ids: Sequence[ActionId]) -> dict[ActionId, IntentId]:
        """Which intents these actions belong to."""

    async def intents_of_broker_orders(self, broker_order_ids: Sequence[str]) -> dict[str, IntentId]:
        """Which intents the orders belong to that the broker calls so, for brokers that know no ids of ours."""

    async def adopt_forgotten_orders(self, action_ids: Sequence[ActionId]) -> dict[ActionId, ActionId]:
        """Give actions the orders that the broker has for the same commands from before a restore; by which id each."""

    async def add_forgotten_orders(self, action_ids: Sequence[ActionId]) -> None:
        """Remember orders that the broker has under ids of ours and our record does not."""

    async def end_hold(self, hold: Hold) -> None:
        """Let the account trade again."""

    async def open_doors(self, action_ids: Sequence[ActionId], attempt_id: UUID) -> dict[ActionId, datetime]:
        """QUEUED → DISPATCHING; exactly one caller ever does this for an action. When each door opened."""

    async def save_action(self, action: TrackedAction, state: ActionState, reason: Reason | None) -> None:
        """Write an action's next state."""

    async def add_probe(self, action_id: ActionId, asked_at: datetime, *, found: bool) -> None:
        """Keep a look-up as evidence, with the time before it was made."""

    async def save_order(self, action: TrackedAction, order: Order) -> None:
        """Write the facts of an action's order, where they differ from those it has."""

    async def flag_action(self, action_id: ActionId) -> datetime | None:
        """Mark an action as one that somebody should look at, once; since when, or None if it was marked before."""

    async def to_flag(self, stuck_after_seconds: float, flag_after_seconds: float) -> list[TrackedAction]:
        """Actions abandoned past their door, and those UNKNOWN for long that nobody was told to look at; bounded."""

    async def count_repeat(self, action: TrackedAction) -> None:
        """Count one more write of a cancel in doubt, where that can be counted."""

    async def door_facts(self, action: TrackedAction) -> DoorFacts:
        """What an action past its door would be judged by, were it to pass once more."""

    async def record_resend(self, action: TrackedAction, attempt_id: UUID) -> datetime:
        """Count one more write of an action in doubt, in other hands, and say when; its look-ups begin anew."""

    async def add_executions(self, intent_id: IntentId, fills: Sequence[BrokerExecution]) -> set[str]:
        """Store fills; the ids of those never seen before."""

    async def add_execution_changes(self, intent_id: IntentId, changes: Sequence[ExecutionChange]) -> None:
        """Store what a broker says of fills afterwards, each once."""

    async def executions_of(self, intent_id: IntentId) -> tuple[list[BrokerExecution], list[ExecutionChange]]:
        """All fills of an order, and all that was said of them afterwards."""

    async def last_reconciliation(self) -> LastReconciliation | None:
        """How far the account was compared with its broker; None where the schema keeps no such thing yet."""

    async def save_reconciliation(self, reconciled_at: datetime, event_no: int | None) -> None:
        """The broker's list was read up to a time; with an event, nothing is to be looked for until another one."""

    async def open_orders(self) -> list[TrackedAction]:
        """Orders that the broker may have, each as the action that asked for it; a bounded number."""

    async def forgotten_among(self, action_ids: Collection[ActionId]) -> set[ActionId]:
        """Those that a restored database forgot."""

    async def skipped_among(self, action_ids: Collection[ActionId]) -> set[ActionId]:
        """Those that were never sent and never will be."""

    async def external_orders_among(self, broker_order_ids: Collection[str]) -> dict[str, ExternalOrder]:
        """Orders that are not ours and are kept, by the broker's ids."""

    async def external_orders_named(self, client_order_ids: Collection[str]) -> list[ExternalOrder]:
        """Those of them that bear these ids of ours."""

    async def open_external_orders(self) -> list[ExternalOrder]:
        """Those of them that may still fill; a bounded number."""

    async def save_external_order(self, order: ExternalOrder) -> None:
        """Keep an order that is not ours as the broker tells it."""

    async def set_candidates(self, action_id: ActionId, broker_order_ids: Sequence[str]) -> None:
        """Say which orders at the broker may be an action's; nobody guesses which."""

    async def halt(self, code: str, detail: str) -> bool:
        """Let no new order of the account pass, until an operator lifts it; whether it was not so before."""

    async def add_to_position(self, symbol: Symbol, change: Decimal) -> Decimal:
        """Count a fill; what the account holds of the symbol after it."""

    async def held_positions(self) -> HeldPositions:
        """What the account holds by our count."""

    async def adjust_position(self, symbol: Symbol, change: Decimal, cause: str) -> None:
        """Count what no fill explains, and keep why."""

    async def save_positions_as_of(self, as_of: datetime) -> None:
        """The positions are what the broker said at that time."""

    async def keep_fill_price(self, symbol: Symbol, price: Decimal, executed_at: datetime) -> None:
        """Judge by the price of a fill from now on, unless a newer one is known."""

    def append_event(self, kind: EventKind, intent_id: IntentId | None, seq: int | None, body: str) -> None:
        """Append to the account's log; numbered when the transaction ends."""


class ExecutionStore(Protocol):
    """Where execution keeps its record."""

    def account_transaction(self, account: BrokerAccount) -> AbstractAsyncContextManager[AccountTransaction]:
        """A transaction under the account's lock."""

    async def find_account_across_organizations(self, account_id: AccountId) -> BrokerAccount | None:
        """Whose account this is, and where it trades."""

    async def accounts_waiting_across_organizations(
        self, slots: Collection[int], older_than_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an action that has been queued for long."""

    async def accounts_in_doubt_across_organizations(
        self, slots: Collection[int], stuck_after_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an action that passed the door and has no outcome."""

    async def accounts_to_flag_across_organizations(
        self, slots: Collection[int], stuck_after_seconds: float, flag_after_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an action whose doubt nobody sees yet, or nobody was told to look at."""

    async def accounts_held_across_organizations(
        self, slots: Collection[int], settle_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots that wait since a restore to be compared with their broker, for at least so long."""

    async def accounts_with_open_orders_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        """Accounts of these slots with orders that a broker may have."""

    async def accounts_touched_across_organizations(self, broker: str, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts of these slots that something happened to since they were last left alone."""

    async def accounts_untold_across_organizations(self, broker: str, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts of these slots with rules, of which the broker never said what they hold; bounded."""

"""What use cases need from the database. Every method names the organization first, or says that it crosses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.action_lifecycle import ActionState, Reason
from openbell_server.domain.api_keys import ApiKey
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId, ReceiptId, Symbol
from openbell_server.domain.intent_statistics import IntentStatistics, TimeWindow
from openbell_server.domain.intents import ActionType, Command, IntentAction
from openbell_server.domain.order_aggregate import Order
from openbell_server.domain.orders import OrderSide, OrderType, Terms
from openbell_server.domain.principals import Principal
from openbell_server.domain.receipts import Receipt


class AcceptStatus(StrEnum):
    """What the accept step says of one command of its set."""

    ACCEPTED = "ACCEPTED"
    REPLAYED = "REPLAYED"
    CANCEL_PENDING = "CANCEL_PENDING"
    SAME_KEY_IN_SET = "SAME_KEY_IN_SET"
    DEFERRED = "DEFERRED"
    STALE_CONTROLS = "STALE_CONTROLS"
    CLOCK_SKEW = "CLOCK_SKEW"
    NOT_FOUND = "NOT_FOUND"
    ORDER_TERMINAL = "ORDER_TERMINAL"
    ORDER_UNKNOWN = "ORDER_UNKNOWN"
    IMMUTABLE_FIELD = "IMMUTABLE_FIELD"
    QUANTITY_NOT_ABOVE_FILLED = "QUANTITY_NOT_ABOVE_FILLED"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One command on its way into the accept step, with everything that is written if it is accepted."""

    action_id: ActionId
    intent_id: IntentId
    receipt_id: ReceiptId
    account: TradingAccount
    principal: Principal
    command: Command
    command_hash: bytes
    idempotency_key: str | None
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The accept step's answer to one submission."""

    status: AcceptStatus
    intent_id: IntentId
    seq: int | None
    number: int | None
    command_hash: bytes | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAction:
    """An action with where it stands."""

    action: IntentAction
    state: ActionState
    reason: Reason | None
    settled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFilter:
    """Which actions of an account are listed; what is None lets all pass, and both times are outside."""

    symbol: str | None = None
    action_type: ActionType | None = None
    client_reference_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvidence:
    """Why an outcome is unknown, and what was done to find out."""

    since: datetime
    probes: Sequence[tuple[datetime, bool]]
    # Since when somebody was asked to look at it, and how often the command may have been written.
    flagged_at: datetime | None
    writes: int
    # What it is about, and whom: what would settle it follows from these.
    action_type: ActionType
    broker: str
    # Orders at the broker that may be the one, by the broker's ids.
    candidates: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How the order of an intent stands."""

    order: Order
    unknown: UnknownEvidence | None
    updated_at: datetime


class Ids(Protocol):
    """Where new ids come from."""

    async def new_ids(self, count: int) -> list[UUID]:
        """UUIDv7 on the database's clock."""


class KeyStore(Protocol):
    """API keys."""

    async def find_key_across_organizations(self, key_id: str) -> ApiKey | None:
        """The key with this public id; the caller is not known yet, so no organization can be named."""


@dataclass(frozen=True, slots=True)
class TokenCaller:
    """What we know ourselves of one whom an access token names."""

    is_denied: bool
    organization_id: OrganizationId | None
    is_internal: bool


class TokenCallerStore(Protocol):
    """Those whom access tokens name."""

    async def find_caller_across_organizations(
        self, provider: str, subject: str, external_organization_id: str | None
    ) -> TokenCaller:
        """Whether a user or service account is denied, and which organization of ours the token's one is."""


class AccountStore(Protocol):
    """Trading accounts."""

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        """The account, if it is the organization's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderNow:
    """What an order is about, and what of it a replace would change."""

    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    terms: Terms
    filled_quantity: Decimal


class IntentStore(Protocol):
    """Intents: the accept step and the reads."""

    async def accept_across_organizations(self, submissions: Sequence[Submission]) -> list[Acceptance]:
        """Run the accept step on a set; answers come in the order of the submissions."""

    async def find_action(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, seq: int | None = None
    ) -> RecordedAction | None:
        """One action of an intent, the latest unless seq says which."""

    async def find_order(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId
    ) -> OrderNow | None:
        """The intent's order as it is now."""

    async def find_action_by_id(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, action_id: ActionId
    ) -> RecordedAction | None:
        """The action of an intent with this id."""

    async def find_action_by_key(
        self, organization_id: OrganizationId, account_id: AccountId, key: str, command_hash: bytes
    ) -> RecordedAction | None:
        """The action that this command has under its key."""

    async def find_execution(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId
    ) -> Execution | None:
        """How the intent's order stands."""

    async def list_actions(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[RecordedAction]:
        """Actions of an account in commit order, from the one after a number."""

    async def list_some_actions(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        wanted: ActionFilter,
        numbers: range,
        limit: int,
    ) -> list[RecordedAction]:
        """Those that pass a filter, in commit order, among some numbers."""

    async def numbers_between(
        self, organization_id: OrganizationId, account_id: AccountId, since: datetime | None, until: datetime | None
    ) -> range:
        """The numbers of an account's actions, if asked only those recorded about a time."""

    async def list_actions_of_intent(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, after: int, limit: int
    ) -> list[RecordedAction]:
        """Actions of an intent, from the one after a seq."""


class StatisticsStore(Protocol):
    """Counts of intents."""

    async def count_intents(
        self, organization_id: OrganizationId, account_id: AccountId, window: TimeWindow
    ) -> IntentStatistics:
        """What was asked of the account in a window, and what came of it."""

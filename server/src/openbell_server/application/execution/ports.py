"""Accounts with work, credentials and sealed secrets in the database."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, Protocol
from uuid import UUID

from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount, TrackedAction
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import (
    CredentialStatus,
    SealedSecrets,
    SecretPlace,
    SignedIn,
    SignInRefused,
)
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.action_lifecycle import Reason
from openbell_server.domain.orders.broker_reports import BrokerExecution


@dataclass(frozen=True, slots=True)
class StoredCredential:
    place: SecretPlace
    # The sign-in goes to the broker's address of this environment only.
    environment: Environment
    # The database's time of the read: a later answer of the broker answers every earlier request.
    read_at: datetime
    # Whether a caller waits for the broker's answer.
    is_asked: bool


class SessionStore(Protocol):
    async def credential_of(self, account: BrokerAccount) -> StoredCredential | None:
        """None if the account has no credential or is closed."""

    async def record_answer(
        self, credential: StoredCredential, answer: SignedIn | SignInRefused
    ) -> CredentialStatus | None:
        """Record the broker's answer; returns the new status, None if this version is no longer current."""

    async def accounts_with_credentials_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]: ...

    async def accounts_asked_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts of these slots with a requested verification that is not done; bounded."""


class SealedStore(Protocol):
    async def read(self, place: SecretPlace) -> SealedSecrets | None:
        """None if there are none, or they were destroyed."""


class ExecutionStore(Protocol):
    def account_transaction(self, account: BrokerAccount) -> AbstractAsyncContextManager[AccountTransaction]: ...

    async def find_account_across_organizations(self, account_id: AccountId) -> BrokerAccount | None: ...

    async def accounts_waiting_across_organizations(
        self, slots: Collection[int], older_than_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an action that is queued for longer than that."""

    async def accounts_in_doubt_across_organizations(
        self, slots: Collection[int], stuck_after_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an UNKNOWN action, or one in DISPATCHING for longer than stuck_after_seconds."""

    async def accounts_to_flag_across_organizations(
        self, slots: Collection[int], stuck_after_seconds: float, flag_after_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an abandoned action, or one UNKNOWN for long that is not flagged."""

    async def accounts_held_across_organizations(
        self, slots: Collection[int], settle_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots that are on hold since a restore, for at least settle_seconds."""

    async def accounts_with_open_orders_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        """Accounts of these slots with orders that may be open at a broker."""

    async def accounts_touched_across_organizations(self, broker: str, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts of these slots with events since their last reconciliation."""

    async def accounts_without_positions_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        """Accounts of these slots with rules whose positions were never read from the broker; bounded."""

    async def accounts_with_old_balances_across_organizations(
        self, slots: Collection[int], older_than_seconds: float
    ) -> list[BrokerAccount]:
        """Accounts of these slots whose balances a rule or a caller needs, missing or older than that; bounded."""


@dataclass(frozen=True, slots=True)
class DoorTerms:
    """What the doors of an account depend on, at these epochs."""

    organization_epoch: int
    account_epoch: int
    # New after a restore.
    database_epoch: int
    # Whether any rule may refuse its commands; default rules apart.
    has_rules: bool
    environment: Environment


@dataclass(frozen=True, slots=True)
class DoorRequest:
    """Open at most `doors` doors of an account, if it is still as it was judged."""

    account: BrokerAccount
    terms: DoorTerms
    # The version that is signed in; None without a credential.
    credential_version: int | None
    doors: int


@dataclass(frozen=True, slots=True)
class DraftEvent:
    kind: EventKind
    seq: int
    # Of a trade without its position and what follows: only the database knows the position.
    body: str
    # Of a trade: its position less the one after all of the unit.
    position: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """What became known of one intent: its only action as remembered, and as it becomes."""

    account: BrokerAccount
    before: TrackedAction
    after: TrackedAction
    # Of the order as remembered.
    version: int
    reason: Reason | None
    executions: Sequence[BrokerExecution]
    # By how much the position changes; None without executions.
    change: Decimal | None
    events: Sequence[DraftEvent]


@dataclass(frozen=True, slots=True)
class Opened:
    account_id: AccountId
    action: TrackedAction
    # Of its order.
    version: int


@dataclass(frozen=True, slots=True)
class TickResult:
    # The database's time under the locks; None if the tick was empty.
    at: datetime | None
    # For each unit, in order, whether it was written: false if anything was not as remembered.
    written: Sequence[bool]
    opened: Sequence[Opened]
    # Accounts of which more must be read than a tick reads, and why.
    long_way: Mapping[AccountId, str]


# Why a tick opens no doors of an account: the database was restored, or is not the one that its terms were read from.
RESTORED: Final = "RESTORED"


class TickStore(Protocol):
    async def door_terms_across_organizations(self, account_ids: Collection[AccountId]) -> dict[AccountId, DoorTerms]:
        """The terms of these accounts; none of an account that does not exist."""

    async def write_tick_across_organizations(
        self, slots: Collection[int], units: Sequence[Unit], doors: Sequence[DoorRequest], attempt_id: UUID
    ) -> TickResult:
        """Write all units and open all doors in one transaction; each is decided on its own."""

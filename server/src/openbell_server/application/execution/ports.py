"""Accounts with work, credentials and sealed secrets in the database."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import (
    CredentialStatus,
    SealedSecrets,
    SecretPlace,
    SignedIn,
    SignInRefused,
)
from openbell_server.domain.identifiers import (
    AccountId,
)


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

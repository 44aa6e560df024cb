"""Broker credentials of accounts in the database."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.access.credentials import (
    Credential,
    CredentialStatus,
    NewCredential,
    SealedSecrets,
    SecretPlace,
)
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId


@dataclass(frozen=True, slots=True)
class Standing:
    """An account and its credential, read in one statement."""

    closed: bool
    credential: Credential | None
    # Versions created so far, removed ones included; the next version is one more, so that no version repeats.
    versions: int
    # When the broker last accepted or refused this version, and why it refused.
    answered_at: datetime | None = None
    refusal_code: str | None = None

    def require_open(self) -> None:
        """Raises Problem if the account is closed."""
        if self.closed:
            raise Problem("account_closed", "the account is closed and cannot be opened again")


class CredentialStore(Protocol):
    """Each change is one transaction under the account's lock, with its audit row, event and outbox row."""

    async def read(self, organization_id: OrganizationId, account_id: AccountId) -> Standing:
        """The account must belong to the organization."""

    async def save(
        self, principal: Principal, place: SecretPlace, new: NewCredential, sealed: SealedSecrets
    ) -> Credential | None:
        """Create or replace the credential; None if another change took the place first."""

    async def remove(
        self,
        principal: Principal,
        account_id: AccountId,
        check: Callable[[Standing], None],
        status: CredentialStatus,
    ) -> None:
        """Remove the credential and set this status; `check` runs under the lock and may raise Problem."""

    async def request_verification(self, organization_id: OrganizationId, account_id: AccountId) -> datetime | None:
        """Record that a caller waits for the broker's answer, and when; None if there is no credential."""


@dataclass(frozen=True, slots=True)
class RunningOut:
    """A credential with a warning, or at its end the expiry, due since due_at."""

    organization_id: OrganizationId
    account_id: AccountId
    expires_at: datetime
    due_at: datetime

    @property
    def is_expired(self) -> bool:
        return self.due_at >= self.expires_at


class ExpiryStore(Protocol):
    async def running_out_across_organizations(self, limit: int) -> list[RunningOut]:
        """Credentials with a warning or expiry due, the most urgent first."""

    async def record_warning(self, credential: RunningOut) -> bool:
        """Write the event to the account's log, and expire the credential at its end; False if it was done before."""

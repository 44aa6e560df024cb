"""What use cases need to keep what accounts sign in with."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.credentials import (
    Credential,
    CredentialStatus,
    NewCredential,
    SealedSecrets,
    SecretPlace,
)
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.principals import Principal


@dataclass(frozen=True, slots=True)
class Standing:
    """An account with its credential, if it has one, at one moment."""

    closed: bool
    credential: Credential | None
    # How many versions were made and removed; the next version is one more, and no version comes twice.
    versions: int
    # When the broker last said something of this version, and why it said no, if it did.
    answered_at: datetime | None = None
    refusal_code: str | None = None

    def require_open(self) -> None:
        """Refuse to change what belongs to a closed account."""
        if self.closed:
            raise Problem("account_closed", "the account is closed, which is for good")


class CredentialStore(Protocol):
    """Credentials. A change is one transaction under the account's lock, with all that it leaves behind."""

    async def read(self, organization_id: OrganizationId, account_id: AccountId) -> Standing:
        """How the account stands; it must be the organization's."""

    async def save(
        self, principal: Principal, place: SecretPlace, new: NewCredential, sealed: SealedSecrets
    ) -> Credential | None:
        """Create or replace the credential; None if its place is taken, because another change came first."""

    async def remove(
        self,
        principal: Principal,
        account_id: AccountId,
        check: Callable[[Standing], None],
        status: CredentialStatus,
    ) -> None:
        """Remove the credential and leave the account in this status; check refuses with nobody else changing it."""

    async def ask(self, organization_id: OrganizationId, account_id: AccountId) -> datetime | None:
        """Note that somebody wants the broker asked, and when; None if there is no credential."""


@dataclass(frozen=True, slots=True)
class RunningOut:
    """A credential of which something is to be told since due_at: a warning, or at the end that it has expired."""

    organization_id: OrganizationId
    account_id: AccountId
    expires_at: datetime
    due_at: datetime

    @property
    def is_expired(self) -> bool:
        """Whether this is the end."""
        return self.due_at >= self.expires_at


class ExpiryStore(Protocol):
    """Credentials that run out."""

    async def running_out_across_organizations(self, limit: int) -> list[RunningOut]:
        """Those of which something is to be told, the most urgent first."""

    async def tell(self, credential: RunningOut) -> bool:
        """Write it into the account's log, and act on it if it is the end; False if somebody else has."""

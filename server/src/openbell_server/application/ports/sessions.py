"""What sign-ins need from the database: the credential as it stands, its sealed secrets, and a place for the answer."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.domain.accounts import Environment
from openbell_server.domain.credentials import CredentialStatus, SealedSecrets, SecretPlace, SignedIn, SignInRefused


@dataclass(frozen=True, slots=True)
class StoredCredential:
    """What an account must sign in with."""

    place: SecretPlace
    # Where the account trades: the broker is asked there and nowhere else.
    environment: Environment
    # By the database's clock: whatever the broker says from then on answers what was asked before.
    read_at: datetime
    # Somebody waits for the broker's answer.
    is_asked: bool


class SessionStore(Protocol):
    """Where credentials and the brokers' answers are kept."""

    async def credential_of(self, account: BrokerAccount) -> StoredCredential | None:
        """What the account must sign in with now; None if it has no credential or is closed."""

    async def record_answer(
        self, credential: StoredCredential, answer: SignedIn | SignInRefused
    ) -> CredentialStatus | None:
        """Write what the broker said and how the account stands by it; None if that version is not current any more."""

    async def accounts_with_credentials_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        """Accounts of these slots that must be signed in at a broker."""

    async def accounts_asked_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts of these slots whose broker was not asked yet, though somebody wants to know; a bounded number."""


class SealedStore(Protocol):
    """Where sealed secrets are kept."""

    async def read(self, place: SecretPlace) -> SealedSecrets | None:
        """Those of a place; None where there are none, or none any more."""

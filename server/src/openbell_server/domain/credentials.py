"""What an account signs in with at its broker: how it stands, and its secrets, which mask themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from openbell_server.domain.identifiers import AccountId, OrganizationId

MASK: Final = "***"
HINT_LENGTH: Final = 4
# Why a credential does not do, beside what its broker says itself.
EXTERNAL_ACCOUNT_MISMATCH: Final = "EXTERNAL_ACCOUNT_MISMATCH"
CREDENTIAL_EXPIRING: Final = "CREDENTIAL_EXPIRING"
CREDENTIAL_EXPIRED: Final = "CREDENTIAL_EXPIRED"


class CredentialStatus(StrEnum):
    """How an account stands with its broker."""

    NOT_REQUIRED = "not_required"
    MISSING = "missing"
    # The broker has not been asked, or has not answered.
    UNVERIFIED = "unverified"
    VALID = "valid"
    INVALID = "invalid"
    EXPIRED = "expired"


# With these nothing new is sent.
NOT_READY: Final = frozenset({CredentialStatus.MISSING, CredentialStatus.INVALID, CredentialStatus.EXPIRED})


class Secrets(Mapping[str, str]):
    """The fields of a credential by name; no text made of it shows a value, and it cannot be pickled."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        """Keep the values."""
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        """One value."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._values)

    def __len__(self) -> int:
        """How many fields."""
        return len(self._values)

    def __repr__(self) -> str:
        """The names only."""
        return f"Secrets({', '.join(f'{name}={MASK}' for name in self._values)})"

    def __reduce__(self) -> str:
        """A pickle would be a copy in the clear."""
        raise TypeError("secrets are not pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCredential:
    """A credential that somebody sets, as far as it may be shown; its secrets go another way."""

    broker: str
    kind: str
    hint: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A credential as people see it; its secrets are nowhere."""

    id: UUID
    account_id: AccountId
    broker: str
    kind: str
    hint: str
    status: CredentialStatus
    verified_at: datetime | None
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int


def hint_of(text: str) -> str:
    """The last four characters of something that is not secret, or nothing of what is hardly longer."""
    return text[-HINT_LENGTH:] if len(text) > HINT_LENGTH else MASK


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """Which secrets these are; sealed ones open at their own place only."""

    organization_id: OrganizationId
    account_id: AccountId
    credential_id: UUID
    version: int

    def __bytes__(self) -> bytes:
        """What the seal is bound to."""
        ids = (self.organization_id, self.account_id, self.credential_id)
        return b"openbell credential" + b"".join(each.bytes for each in ids) + self.version.to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class SealedSecrets:
    """Secrets as the vault keeps them: under a key of their own, which is wrapped by the key named."""

    key_id: str
    wrapped_key: bytes
    sealed: bytes


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The broker knows the credential."""

    # The account at the broker that it is for, and when it runs out, where the broker says so.
    external_account_id: str | None = None
    expires_at: datetime | None = None


# The broker's own no.
CREDENTIAL_REFUSED: Final = "CREDENTIAL_REFUSED"


@dataclass(frozen=True, slots=True)
class SignInRefused:
    """The broker said no, in its own words; not being reached is an exception, never this."""

    broker_code: str
    broker_text: str
    expired: bool = False


def status_after(
    answer: SignedIn | SignInRefused, external_account_id: str | None, *, is_past: bool
) -> tuple[CredentialStatus, str | None]:
    """How an account stands after its broker's answer, and why where that is bad.

    The account at the broker is set once, for good; past is a credential whose time has run out by our own record.
    """
    if isinstance(answer, SignInRefused):
        return CredentialStatus.EXPIRED if answer.expired else CredentialStatus.INVALID, CREDENTIAL_REFUSED
    if external_account_id is not None and answer.external_account_id not in {None, external_account_id}:
        return CredentialStatus.INVALID, EXTERNAL_ACCOUNT_MISMATCH
    return (CredentialStatus.EXPIRED, CREDENTIAL_EXPIRED) if is_past else (CredentialStatus.VALID, None)

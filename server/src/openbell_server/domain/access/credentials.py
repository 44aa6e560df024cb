"""Broker credentials of accounts: their status, and their secrets, which are masked in all text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from openbell_server.domain.identifiers import AccountId, OrganizationId

MASK: Final = "***"
HINT_LENGTH: Final = 4
# Reasons beside the broker's own answer.
EXTERNAL_ACCOUNT_MISMATCH: Final = "EXTERNAL_ACCOUNT_MISMATCH"
CREDENTIAL_EXPIRING: Final = "CREDENTIAL_EXPIRING"
CREDENTIAL_EXPIRED: Final = "CREDENTIAL_EXPIRED"


class CredentialStatus(StrEnum):
    """The status of an account's credential at its broker."""

    NOT_REQUIRED = "NOT_REQUIRED"
    MISSING = "MISSING"
    # The broker has not answered yet.
    UNVERIFIED = "UNVERIFIED"
    VALID = "VALID"
    INVALID = "INVALID"
    EXPIRED = "EXPIRED"


# With these statuses nothing new is sent.
NOT_READY: Final = frozenset({CredentialStatus.MISSING, CredentialStatus.INVALID, CredentialStatus.EXPIRED})


class Secrets(Mapping[str, str]):
    """The fields of a credential by name; values never appear in text, and it cannot be pickled."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(f'{name}={MASK}' for name in self._values)})"

    def __reduce__(self) -> str:
        raise TypeError("secrets are not pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCredential:
    broker: str
    kind: str
    hint: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
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
    """The last four characters of a text that is not secret, or a mask if it is not longer."""
    return text[-HINT_LENGTH:] if len(text) > HINT_LENGTH else MASK


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """The identity that sealed secrets are bound to; they can be opened only for the same one."""

    organization_id: OrganizationId
    account_id: AccountId
    credential_id: UUID
    version: int

    def __bytes__(self) -> bytes:
        ids = (self.organization_id, self.account_id, self.credential_id)
        return b"openbell credential" + b"".join(each.bytes for each in ids) + self.version.to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class SealedSecrets:
    """Encrypted secrets with their data key, which is wrapped by the vault key `key_id`."""

    key_id: str
    wrapped_key: bytes
    sealed: bytes


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The broker accepted the credential."""

    # The account at the broker and the expiry, if the broker reports them.
    external_account_id: str | None = None
    expires_at: datetime | None = None


# The broker refused the credential.
CREDENTIAL_REFUSED: Final = "CREDENTIAL_REFUSED"


@dataclass(frozen=True, slots=True)
class SignInRefused:
    """The broker refused the sign-in; an unreachable broker raises an exception instead."""

    broker_code: str
    broker_text: str
    expired: bool = False


def status_after(
    answer: SignedIn | SignInRefused, external_account_id: str | None, *, is_past: bool
) -> tuple[CredentialStatus, str | None]:
    """The status after the broker's answer, with a reason if it is not VALID.

    `external_account_id` is set once and never changes. `is_past`: the credential has expired by our record.
    """
    if isinstance(answer, SignInRefused):
        return CredentialStatus.EXPIRED if answer.expired else CredentialStatus.INVALID, CREDENTIAL_REFUSED
    if external_account_id is not None and answer.external_account_id not in {None, external_account_id}:
        return CredentialStatus.INVALID, EXTERNAL_ACCOUNT_MISMATCH
    return (CredentialStatus.EXPIRED, CREDENTIAL_EXPIRED) if is_past else (CredentialStatus.VALID, None)

"""Where secrets are kept: sealed by whoever takes them in, opened by executors alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from openbell_server.domain.credentials import SealedSecrets, SecretPlace, Secrets
from openbell_server.domain.identifiers import OrganizationId


class Sealer(Protocol):
    """Seals; what it seals it cannot open."""

    async def seal(self, place: SecretPlace, secrets: Secrets) -> SealedSecrets:
        """The secrets, sealed for their place; raises VaultError if the key cannot be reached."""


class Opener(Protocol):
    """Opens what was sealed."""

    async def open(self, place: SecretPlace, sealed: SealedSecrets) -> Secrets:
        """The secrets; raises VaultError if they were sealed for another place, changed, or the key is out of reach."""


class Rewrapper(Protocol):
    """Changes the key that wraps an object's own key; the secrets themselves stay sealed."""

    async def current_key_id(self) -> str:
        """The key that wraps now; raises VaultUnreachable."""

    async def rewrap(self, place: SecretPlace, sealed: SealedSecrets) -> SealedSecrets:
        """The object as wrapped by the current key; raises VaultError."""


@dataclass(frozen=True, slots=True)
class VaultObject:
    """Sealed secrets and where they belong."""

    place: SecretPlace
    sealed: SealedSecrets


@dataclass(frozen=True, slots=True)
class Rewrapped:
    """An object before and after its key was wrapped anew."""

    before: VaultObject
    after: SealedSecrets


class VaultObjects(Protocol):
    """The objects of all organizations, for those who rotate."""

    async def count_across_organizations(self) -> dict[str, int]:
        """How many are wrapped by which key."""

    async def list_wrapped_by_others_across_organizations(
        self, key_id: str, after: SecretPlace | None, limit: int
    ) -> Sequence[VaultObject]:
        """Those that another key wraps, in the order of their places, after one of them."""

    async def save(self, organization_id: OrganizationId, rewrapped: Sequence[Rewrapped]) -> int:
        """Keep those that are still as they were before, with a row in the audit log; how many."""


class VaultError(Exception):
    """Secrets were not sealed or opened; the text never holds any of them."""


class VaultUnreachable(VaultError):
    """The key did not answer: it says nothing about the object, and trying again may help."""

"""The vault: the API seals secrets, only executors open them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace, Secrets
from openbell_server.domain.identifiers import OrganizationId


class Sealer(Protocol):
    """Can seal, but not open."""

    async def seal(self, place: SecretPlace, secrets: Secrets) -> SealedSecrets:
        """Bind the secrets to their place; raises VaultError if the key cannot be reached."""


class Opener(Protocol):
    async def open(self, place: SecretPlace, sealed: SealedSecrets) -> Secrets:
        """Raises VaultError if the secrets were sealed for another place or changed, or the key cannot be reached."""


class Rewrapper(Protocol):
    """Changes the key that wraps an object's own key; the secrets stay sealed."""

    async def current_key_id(self) -> str:
        """The id of the current wrapping key; raises VaultUnreachable."""

    async def rewrap(self, place: SecretPlace, sealed: SealedSecrets) -> SealedSecrets:
        """The object wrapped with the current key; raises VaultError."""


@dataclass(frozen=True, slots=True)
class VaultObject:
    place: SecretPlace
    sealed: SealedSecrets


@dataclass(frozen=True, slots=True)
class Rewrapped:
    """An object before and after its key was rewrapped."""

    before: VaultObject
    after: SealedSecrets


class VaultObjects(Protocol):
    """The objects of all organizations, for key rotation."""

    async def count_across_organizations(self) -> dict[str, int]:
        """Counts of objects by the id of the wrapping key."""

    async def list_wrapped_by_others_across_organizations(
        self, key_id: str, after: SecretPlace | None, limit: int
    ) -> Sequence[VaultObject]:
        """Objects that another key wraps, ordered by place, beginning after a place."""

    async def save(self, organization_id: OrganizationId, rewrapped: Sequence[Rewrapped]) -> int:
        """Save the objects that did not change meanwhile, audit it, and return how many were saved."""


class VaultError(Exception):
    """Secrets were not sealed or opened; the text never contains a secret."""


class VaultUnreachable(VaultError):
    """The key service did not answer; the object may be intact and a retry may succeed."""

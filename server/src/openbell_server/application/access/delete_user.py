"""Delete a user: record the request, delete the user at the identity provider, then queue `user.deleted`.

Every step may be repeated. The relay finishes deletions that a caller's request left half done.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from openbell_server.application.access.ports.identity_provider import IdentityProvider, ProviderUnavailable
from openbell_server.domain.access.principals import Caller
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import OrganizationId

# In one round: an attempt takes at most 2 s, and a claim on a deletion lasts 5 s.
DELETIONS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class UserDeletion:
    """A user to delete; subject is the user's id at the identity provider."""

    organization_id: OrganizationId
    provider: str
    subject: str


class UserDeletionStore(Protocol):
    async def request(self, deletion: UserDeletion) -> None:
        """Record the request; a repeat changes nothing."""

    async def finish(self, deletion: UserDeletion) -> None:
        """Queue `user.deleted` and deny the user; a repeat changes nothing."""

    async def claim_across_organizations(self, provider: str, limit: int) -> list[UserDeletion]:
        """Requested deletions that are due; each is claimed for 5 s."""


@dataclass(frozen=True, slots=True)
class DeleteUser:
    store: UserDeletionStore
    provider_name: str
    # None: the operator has not configured the provider's API.
    provider: IdentityProvider | None

    async def __call__(self, caller: Caller) -> None:
        """Delete the caller, who must be a user of a known organization."""
        assert caller.organization_id is not None
        if self.provider is None or caller.provider != self.provider_name:
            raise Problem(
                "identity_provider_missing",
                "users cannot be deleted before the operator has configured the API of the identity provider",
            )
        deletion = UserDeletion(caller.organization_id, self.provider_name, caller.id)
        await self.store.request(deletion)
        try:
            await self.provider.delete_user(deletion.subject)
        except ProviderUnavailable:
            raise Problem(
                "identity_provider_unavailable",
                "the identity provider did not confirm the deletion; it is recorded and will be finished",
            ) from None
        await self.store.finish(deletion)


@dataclass(frozen=True, slots=True)
class FinishDeletions:
    """Run by the relay."""

    store: UserDeletionStore
    provider_name: str
    provider: IdentityProvider

    async def __call__(self) -> int:
        """Run one round and return how many deletions it finished."""
        due = await self.store.claim_across_organizations(self.provider_name, DELETIONS_MAX)
        return sum(await asyncio.gather(*(self._finish(deletion) for deletion in due)))

    async def _finish(self, deletion: UserDeletion) -> bool:
        try:
            await self.provider.delete_user(deletion.subject)
        except ProviderUnavailable:
            return False
        await self.store.finish(deletion)
        return True

"""Delete a user: written down first, then done by the identity provider, then told to others.

Every step may be repeated, and whoever finds a deletion half done finishes it: the one who asked, or the relay.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from openbell_server.application.ports.identity_provider import IdentityProvider, ProviderUnavailable
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import OrganizationId
from openbell_server.domain.principals import Caller

# At once: a try takes two seconds at most, and a deletion is left alone for five.
DELETIONS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class UserDeletion:
    """A user of one organization who asked to be deleted, in the words of the identity provider."""

    organization_id: OrganizationId
    provider: str
    subject: str


class UserDeletionStore(Protocol):
    """Deletions that were asked for."""

    async def request(self, deletion: UserDeletion) -> None:
        """Write down that the user asked, unless that is there."""

    async def finish(self, deletion: UserDeletion) -> None:
        """Queue `user.deleted` and deny the user, once, however often it is called."""

    async def claim_across_organizations(self, provider: str, limit: int) -> list[UserDeletion]:
        """Requested deletions whose turn it is; nobody else is given them for five seconds."""


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """What a user asks for."""

    store: UserDeletionStore
    provider_name: str
    # None: the operator has not said how to reach it.
    provider: IdentityProvider | None

    async def __call__(self, caller: Caller) -> None:
        """Delete the caller, a user of an organization that is known here."""
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
    """What the relay does about deletions that were asked for and not finished."""

    store: UserDeletionStore
    provider_name: str
    provider: IdentityProvider

    async def __call__(self) -> int:
        """One round; how many were finished."""
        due = await self.store.claim_across_organizations(self.provider_name, DELETIONS_MAX)
        return sum(await asyncio.gather(*(self._finish(deletion) for deletion in due)))

    async def _finish(self, deletion: UserDeletion) -> bool:
        try:
            await self.provider.delete_user(deletion.subject)
        except ProviderUnavailable:
            return False
        await self.store.finish(deletion)
        return True

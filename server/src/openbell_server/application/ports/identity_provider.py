"""What use cases need from the identity provider of the callers."""

from typing import Protocol

from openbell_server.domain.errors import OpenbellError


class ProviderUnavailable(OpenbellError):
    """The provider did not say that it did what was asked; asking again is harmless."""


class IdentityProvider(Protocol):
    """Where users and their organizations are kept."""

    async def memberships(self, user_id: str) -> frozenset[str]:
        """The provider's ids of the organizations that the user is an active member of; or ProviderUnavailable."""

    async def delete_user(self, user_id: str) -> None:
        """Delete the user for good, or ProviderUnavailable; one who is not there is deleted."""

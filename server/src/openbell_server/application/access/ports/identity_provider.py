"""The identity provider of users and organizations."""

from typing import Protocol

from openbell_server.domain.errors import OpenbellError


class ProviderUnavailable(OpenbellError):
    """The provider did not confirm the request; it may be repeated."""


class IdentityProvider(Protocol):
    """Every method raises ProviderUnavailable unless the provider confirms."""

    async def memberships(self, user_id: str) -> frozenset[str]:
        """The provider's ids of the organizations in which the user is an active member."""

    async def delete_user(self, user_id: str) -> None:
        """Delete the user permanently; a user that does not exist counts as deleted."""

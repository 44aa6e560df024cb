"""Find an organization by the id that the identity provider has for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from openbell_server.application.ports.identity_provider import IdentityProvider, ProviderUnavailable
from openbell_server.domain.access_tokens import NAME_LENGTH_MAX
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import OrganizationId
from openbell_server.domain.principals import Caller, PrincipalKind

CACHE_SECONDS: Final = 60.0
CACHE_USERS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    """An organization, as those who belong to it see it."""

    id: OrganizationId
    external_id: str
    name: str
    provider: str
    disabled: bool
    created_at: datetime


class OrganizationStore(Protocol):
    """Organizations by the provider's ids."""

    async def find_organization_across_organizations(self, provider: str, external_id: str) -> Organization | None:
        """The organization, whoever asks."""


@dataclass(slots=True)
class LookUpOrganization:
    """Service accounts find any organization, users those they belong to; all else is not there, for all alike."""

    organizations: OrganizationStore
    provider_name: str
    # None: the operator has not said how to reach it, and only what a token says is known.
    provider: IdentityProvider | None
    monotonic: Callable[[], float]
    # The oldest comes first.
    _memberships: dict[str, tuple[float, frozenset[str]]] = field(default_factory=dict)

    async def __call__(self, caller: Caller, provider: str, external_id: str) -> Organization:
        """The organization, or 404."""
        found = None
        # Belonging is decided before anything is looked up: no answer shows whether an organization is there.
        if (
            provider == self.provider_name
            and len(external_id) <= NAME_LENGTH_MAX
            and external_id.isprintable()
            and (caller.kind is PrincipalKind.SERVICE or await self._belongs(caller, external_id))
        ):
            found = await self.organizations.find_organization_across_organizations(provider, external_id)
        if found is None:
            raise Problem("not_found", "there is no such organization")
        return found

    async def _belongs(self, caller: Caller, external_id: str) -> bool:
        if caller.provider != self.provider_name:
            return False
        if caller.external_organization_id == external_id:
            return True
        return self.provider is not None and external_id in await self._organizations_of(self.provider, caller.id)

    async def _organizations_of(self, provider: IdentityProvider, user_id: str) -> frozenset[str]:
        now = self.monotonic()
        asked_at, organizations = self._memberships.get(user_id, (now - CACHE_SECONDS, frozenset()))
        if now - asked_at < CACHE_SECONDS:
            return organizations
        try:
            organizations = await provider.memberships(user_id)
        except ProviderUnavailable:
            raise Problem(
                "identity_provider_unavailable", "the identity provider did not say which organizations the user is in"
            ) from None
        self._memberships.pop(user_id, None)
        if len(self._memberships) >= CACHE_USERS_MAX:
            del self._memberships[next(iter(self._memberships))]
        # Stamped with the time before the question: the answer may be that old already.
        self._memberships[user_id] = now, organizations
        return organizations

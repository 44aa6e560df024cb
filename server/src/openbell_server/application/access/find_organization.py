"""Find an organization by its id at the identity provider."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from openbell_server.application.access.ports.identity_provider import IdentityProvider, ProviderUnavailable
from openbell_server.domain.access.access_tokens import NAME_LENGTH_MAX
from openbell_server.domain.access.principals import Caller, PrincipalKind
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import OrganizationId

CACHE_SECONDS: Final = 60.0
CACHE_USERS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: OrganizationId
    external_id: str
    name: str
    provider: str
    disabled: bool
    created_at: datetime


class OrganizationStore(Protocol):
    async def find_organization_across_organizations(self, provider: str, external_id: str) -> Organization | None: ...


@dataclass(slots=True)
class LookUpOrganization:
    """Service accounts find any organization, users only their own; every other one is reported as not found."""

    organizations: OrganizationStore
    provider_name: str
    # None: the operator has not configured the provider's API; then only the token's organization is known.
    provider: IdentityProvider | None
    monotonic: Callable[[], float]
    # In the order of reading, so that the oldest is evicted first.
    _memberships: dict[str, tuple[float, frozenset[str]]] = field(default_factory=dict)

    async def __call__(self, caller: Caller, provider: str, external_id: str) -> Organization:
        found = None
        # Membership is checked before the look-up, so that no answer shows whether an organization exists.
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
        read_at, organizations = self._memberships.get(user_id, (now - CACHE_SECONDS, frozenset()))
        if now - read_at < CACHE_SECONDS:
            return organizations
        try:
            organizations = await provider.memberships(user_id)
        except ProviderUnavailable:
            raise Problem(
                "identity_provider_unavailable", "the identity provider did not list the user's organizations"
            ) from None
        self._memberships.pop(user_id, None)
        if len(self._memberships) >= CACHE_USERS_MAX:
            del self._memberships[next(iter(self._memberships))]
        # The time before the request: the answer may be that old already.
        self._memberships[user_id] = now, organizations
        return organizations

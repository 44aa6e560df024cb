"""Verifies access tokens and finds their callers."""

from dataclasses import dataclass
from typing import Protocol

from openbell_server.domain.access.access_tokens import TokenClaims
from openbell_server.domain.identifiers import OrganizationId


class AccessTokens(Protocol):
    async def verify(self, token: str) -> TokenClaims | None:
        """None for every invalid token, whatever is wrong with it."""


@dataclass(frozen=True, slots=True)
class TokenCaller:
    """What the database has about the caller of an access token."""

    is_denied: bool
    organization_id: OrganizationId | None
    is_internal: bool


class TokenCallerStore(Protocol):
    async def find_caller_across_organizations(
        self, provider: str, subject: str, external_organization_id: str | None
    ) -> TokenCaller: ...

"""Finds the users and organizations that access tokens name."""

from dataclasses import dataclass

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role
from openbell_server.application.access.find_organization import Organization
from openbell_server.application.access.ports.access_tokens import TokenCaller

_queries = named_queries.load("token_callers")
_organizations = named_queries.load("organizations")


@dataclass(frozen=True, slots=True)
class PostgresTokenCallerStore(PostgresStore):
    """Implements TokenCallerStore and OrganizationStore."""

    async def find_caller_across_organizations(
        self, provider: str, subject: str, external_organization_id: str | None
    ) -> TokenCaller:
        row = await self._one_across(
            Role.KEYS,
            _queries.find_caller_across_organizations,
            provider=provider,
            subject=subject,
            external_id=external_organization_id,
        )
        return TokenCaller(row["is_denied"], row["organization_id"], row["is_internal"])

    async def find_organization_across_organizations(self, provider: str, external_id: str) -> Organization | None:
        organization_id = await self._one_across(
            Role.KEYS, _queries.find_organization_across_organizations, provider=provider, external_id=external_id
        )
        if organization_id is None:
            return None
        row = await self._one(_organizations.read_organization, organization_id)
        assert row is not None, "organizations are never removed"
        return Organization(**row)

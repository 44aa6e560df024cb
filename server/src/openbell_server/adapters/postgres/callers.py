"""Those whom access tokens name, and their organizations."""

from dataclasses import dataclass

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.organizations import find_organization
from openbell_server.application.look_up_organization import Organization
from openbell_server.application.ports.stores import TokenCaller

_queries = named_queries.load("callers")


@dataclass(frozen=True, slots=True)
class PostgresTokenCallerStore:
    """Implements TokenCallerStore and OrganizationStore."""

    pool: Pool

    async def find_caller_across_organizations(
        self, provider: str, subject: str, external_organization_id: str | None
    ) -> TokenCaller:
        """What is known of a token's subject and organization."""
        async with transaction(self.pool, Role.KEYS) as connection:
            row = await _queries.find_caller_across_organizations(
                connection, provider=provider, subject=subject, external_id=external_organization_id
            )
        return TokenCaller(row["is_denied"], row["organization_id"], row["is_internal"])

    async def find_organization_across_organizations(self, provider: str, external_id: str) -> Organization | None:
        """The organization: its id by a role that finds callers, the rest as the organization itself."""
        async with transaction(self.pool, Role.KEYS) as connection:
            organization_id = await _queries.find_organization_across_organizations(
                connection, provider=provider, external_id=external_id
            )
        if organization_id is None:
            return None
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            row = await find_organization(connection, organization_id)
        assert row is not None, "organizations are never removed"
        return Organization(
            id=row["organization_id"],
            external_id=row["external_id"],
            name=row["name"],
            provider=row["provider"],
            disabled=row["disabled"],
            created_at=row["created_at"],
        )

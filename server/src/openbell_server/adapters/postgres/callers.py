"""Those whom access tokens name."""

from dataclasses import dataclass

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.application.ports.stores import TokenCaller

_queries = named_queries.load("callers")


@dataclass(frozen=True, slots=True)
class PostgresTokenCallerStore:
    """Implements TokenCallerStore."""

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

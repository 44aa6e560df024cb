"""Stores requests of users to be deleted."""

from dataclasses import dataclass

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.application.access.delete_user import UserDeletion
from openbell_server.domain.events.outbox import BACKOFF_SECONDS_MAX

# As long as every claim: by then, the process that works on the deletion has finished or failed.
HOLD_SECONDS = 5.0
_queries = named_queries.load("user_deletions")


@dataclass(frozen=True, slots=True)
class PostgresUserDeletionStore:
    """Implements UserDeletionStore."""

    pool: Pool

    async def request(self, deletion: UserDeletion) -> None:
        async with transaction(self.pool, Role.TENANT, deletion.organization_id) as connection:
            await _queries.request_deletion(
                connection,
                organization_id=deletion.organization_id,
                provider=deletion.provider,
                subject=deletion.subject,
                hold_seconds=HOLD_SECONDS,
            )

    async def finish(self, deletion: UserDeletion) -> None:
        async with transaction(self.pool, Role.RELAY) as connection:
            await _queries.finish_deletion(
                connection,
                organization_id=deletion.organization_id,
                provider=deletion.provider,
                subject=deletion.subject,
            )

    async def claim_across_organizations(self, provider: str, limit: int) -> list[UserDeletion]:
        async with transaction(self.pool, Role.RELAY) as connection:
            rows = _queries.claim_deletions_across_organizations(
                connection,
                provider=provider,
                row_limit=limit,
                hold_seconds=HOLD_SECONDS,
                backoff_seconds_max=float(BACKOFF_SECONDS_MAX),
            )
            return [UserDeletion(row["organization_id"], row["provider"], row["subject"]) async for row in rows]

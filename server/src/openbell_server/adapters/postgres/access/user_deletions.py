"""Stores requests of users to be deleted."""

from dataclasses import dataclass

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role
from openbell_server.application.access.delete_user import UserDeletion
from openbell_server.domain.events.outbox import BACKOFF_SECONDS_MAX

# As long as every claim: by then, the process that works on the deletion has finished or failed.
HOLD_SECONDS = 5.0
_queries = named_queries.load("user_deletions")


@dataclass(frozen=True, slots=True)
class PostgresUserDeletionStore(PostgresStore):
    """Implements UserDeletionStore."""

    async def request(self, deletion: UserDeletion) -> None:
        await self._one(
            _queries.request_deletion,
            deletion.organization_id,
            provider=deletion.provider,
            subject=deletion.subject,
            hold_seconds=HOLD_SECONDS,
        )

    async def finish(self, deletion: UserDeletion) -> None:
        await self._one_across(
            Role.RELAY,
            _queries.finish_deletion,
            organization_id=deletion.organization_id,
            provider=deletion.provider,
            subject=deletion.subject,
        )

    async def claim_across_organizations(self, provider: str, limit: int) -> list[UserDeletion]:
        rows = await self._rows_across(
            Role.RELAY,
            _queries.claim_deletions_across_organizations,
            provider=provider,
            row_limit=limit,
            hold_seconds=HOLD_SECONDS,
            backoff_seconds_max=float(BACKOFF_SECONDS_MAX),
        )
        return [UserDeletion(row["organization_id"], row["provider"], row["subject"]) for row in rows]

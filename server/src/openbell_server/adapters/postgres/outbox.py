"""The intent outbox: claimed, completed and released by rows, fenced by claim tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.outbox import ATTEMPTS_MAX, ClaimedRow

_queries = named_queries.load("outbox")


@dataclass(frozen=True, slots=True)
class PostgresOutboxStore:
    """Implements OutboxStore."""

    pool: Pool

    async def claim_across_organizations(self, limit: int) -> list[ClaimedRow]:
        """Take rows into our hands for five seconds."""
        async with transaction(self.pool, Role.RELAY) as connection:
            rows = _queries.claim_across_organizations(connection, row_limit=limit, attempts_max=ATTEMPTS_MAX)
            return [
                ClaimedRow(
                    outbox_id=row["outbox_id"],
                    claim_token=row["claim_token"],
                    attempts=row["attempts"],
                    account_id=row["account_id"],
                    slot=row["slot"],
                    action_id=row["action_id"],
                )
                async for row in rows
            ]

    async def complete_across_organizations(self, rows: Sequence[ClaimedRow]) -> int:
        """Resolve rows we still hold; how many that were."""
        async with transaction(self.pool, Role.RELAY) as connection:
            resolved = _queries.complete_across_organizations(
                connection, outbox_ids=[row.outbox_id for row in rows], claim_tokens=[row.claim_token for row in rows]
            )
            return len([row async for row in resolved])

    async def release_across_organizations(self, rows: Sequence[ClaimedRow], wait_seconds: Sequence[float]) -> None:
        """Give rows back for a later try; one that used up its tries is failed."""
        async with transaction(self.pool, Role.RELAY) as connection:
            await _queries.release_across_organizations(
                connection,
                outbox_ids=[row.outbox_id for row in rows],
                claim_tokens=[row.claim_token for row in rows],
                wait_seconds=list(wait_seconds),
                attempts_max=ATTEMPTS_MAX,
            )

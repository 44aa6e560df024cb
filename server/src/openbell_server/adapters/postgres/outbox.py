"""The outbox queues: claimed, completed and released by rows, fenced by claim tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.outbox import ATTEMPTS_MAX, Claim, ClaimedRow, ClaimedUserEvent, OutboxCount, OutboxStatus

_health_queries = named_queries.load("outbox_health")
Row = TypeVar("Row", bound=Claim)


@dataclass(frozen=True, slots=True)
class _OutboxStore(Generic[Row]):
    """Implements OutboxStore on the table that its statements name."""

    pool: Pool
    queries: ClassVar[Any]

    @staticmethod
    def read(row: asyncpg.Record) -> Row:
        """A claimed row."""
        raise NotImplementedError

    async def claim_across_organizations(self, limit: int) -> list[Row]:
        """Take rows into our hands for five seconds."""
        async with transaction(self.pool, Role.RELAY) as connection:
            rows = self.queries.claim_across_organizations(connection, row_limit=limit, attempts_max=ATTEMPTS_MAX)
            return [self.read(row) async for row in rows]

    async def complete_across_organizations(self, rows: Sequence[Row]) -> int:
        """Resolve rows we still hold; how many that were."""
        async with transaction(self.pool, Role.RELAY) as connection:
            resolved = self.queries.complete_across_organizations(
                connection, outbox_ids=[row.outbox_id for row in rows], claim_tokens=[row.claim_token for row in rows]
            )
            return len([row async for row in resolved])

    async def release_across_organizations(self, rows: Sequence[Row], wait_seconds: Sequence[float]) -> None:
        """Give rows back for a later try; one that used up its tries is failed."""
        async with transaction(self.pool, Role.RELAY) as connection:
            await self.queries.release_across_organizations(
                connection,
                outbox_ids=[row.outbox_id for row in rows],
                claim_tokens=[row.claim_token for row in rows],
                wait_seconds=list(wait_seconds),
                attempts_max=ATTEMPTS_MAX,
            )


@dataclass(frozen=True, slots=True)
class PostgresOutboxStore(_OutboxStore[ClaimedRow]):
    """The intents' queue."""

    queries = named_queries.load("outbox")

    @staticmethod
    def read(row: asyncpg.Record) -> ClaimedRow:
        """A claimed row."""
        return ClaimedRow(*(row[name] for name in ClaimedRow.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class PostgresUserOutboxStore(_OutboxStore[ClaimedUserEvent]):
    """The users' queue."""

    queries = named_queries.load("user_outbox")

    @staticmethod
    def read(row: asyncpg.Record) -> ClaimedUserEvent:
        """A claimed row."""
        return ClaimedUserEvent(*(row[name] for name in ClaimedUserEvent.__dataclass_fields__))


async def count_account_outbox(pool: Pool) -> list[OutboxCount]:
    """How the accounts' queue stands, across organizations, in a role that sees nothing of what its rows say."""
    async with transaction(pool, Role.HEALTH) as connection:
        return [
            OutboxCount(**{**row, "status": OutboxStatus(row["status"])})
            async for row in _health_queries.count_across_organizations(connection)
        ]

"""Counts the rows of the outbox queues across organizations, each time in one statement and one snapshot."""

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.events.outbox import OutboxStatus, Queue
from openbell_server.domain.events.outbox_health import OutboxCount, QueueStanding

_queries = named_queries.load("outbox_health")


async def count_account_outbox(pool: Pool) -> list[OutboxCount]:
    """Counts of the accounts' queue by status and event type, in a role that cannot read payloads."""
    async with transaction(pool, Role.HEALTH) as connection:
        return [
            OutboxCount(**{**row, "status": OutboxStatus(row["status"])})
            async for row in _queries.count_across_organizations(connection)
        ]


async def read_queues(pool: Pool, role: Role) -> list[QueueStanding]:
    async with transaction(pool, role) as connection:
        return [
            QueueStanding(**{**row, "queue": Queue(row["queue"])})
            async for row in _queries.read_queues_across_organizations(connection)
        ]

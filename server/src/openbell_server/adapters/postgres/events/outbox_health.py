"""Counts the rows of the outbox queues across organizations, each time in one statement and one snapshot."""

from typing import Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.application.intents.send_backlog import WaitingCommands
from openbell_server.domain.events.outbox import OutboxStatus, Queue
from openbell_server.domain.events.outbox_health import OutboxCount, QueueStanding

# A look at more actions would cost milliseconds.
LOOK_AT_ACTIONS: Final = 10_000
_queries = named_queries.load("outbox_health")


async def count_account_outbox(pool: Pool) -> list[OutboxCount]:
    """Counts of the accounts' queue by status and event type, in a role that cannot read payloads."""
    async with transaction(pool, Role.HEALTH) as connection:
        return [
            OutboxCount(**{**row, "status": OutboxStatus(row["status"])})
            async for row in _queries.count_across_organizations(connection)
        ]


async def count_waiting(pool: Pool, seconds: float) -> list[WaitingCommands]:
    """Commands of the last seconds that no executor has taken up, by account; none while no executor runs."""
    async with transaction(pool, Role.HEALTH) as connection:
        counted = _queries.count_waiting_across_organizations(connection, seconds=seconds, look_at=LOOK_AT_ACTIONS)
        return [WaitingCommands(**row) async for row in counted]


async def read_queues(pool: Pool, role: Role) -> list[QueueStanding]:
    async with transaction(pool, role) as connection:
        return [
            QueueStanding(**{**row, "queue": Queue(row["queue"])})
            async for row in _queries.read_queues_across_organizations(connection)
        ]

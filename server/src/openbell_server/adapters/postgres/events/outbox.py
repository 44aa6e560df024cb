"""Claims, completes, releases and prunes rows of the outbox queues; a claim token fences off an earlier holder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, acquire_clean, transaction
from openbell_server.domain.events.outbox import ATTEMPTS_MAX, ClaimedRow, OutboxStatus, Queue

# A claim reads this many of the oldest rows first, so that its cost does not grow with the queue.
LOOK_AT_ROWS: Final = 1024
# The parts of the statements that differ between the queues.
QUEUE_SQL: Final = {
    Queue.ACCOUNTS: {"queue": "account_outbox", "order": "{}.account_id", "columns": "{0}.event_type, {0}.payload"},
    Queue.INTENTS: {
        "queue": "intent_outbox",
        "order": "{}.account_id",
        "columns": "'intent.queued' as event_type, '' as payload, {0}.slot, {0}.created_at as recorded_at",
    },
    # By pattern: a payload that is not JSON must not stop the claim of other rows.
    Queue.USERS: {
        "queue": "user_outbox",
        "order": """coalesce(substring({0}.payload from '"user_id" ?: ?"((?:[^"\\\\]|\\\\.)*)"'), '')""",
        "columns": "{0}.event_type, {0}.payload",
    },
}

# The row is pending and due, or its claim is older than five seconds.
_DUE: Final = (
    "(o.status = 'pending' and o.available_at <= clock_timestamp() - make_interval(secs => :head_start_seconds))"
    " or (o.status = 'processing' and o.claimed_at < clock_timestamp() - interval '5 seconds')"
)


def columns(queue: Queue) -> dict[str, str]:
    """The replacements for the placeholders in outbox.sql and outbox_pruning.sql."""
    parts = QUEUE_SQL[queue]
    return {
        "queue": parts["queue"],
        "order of o": parts["order"].format("o"),
        "columns of o": parts["columns"].format("o"),
        "due of o": _DUE,
    }


_queries = {queue: named_queries.load("outbox", columns(queue)) for queue in Queue}
_taken_up = named_queries.load("taken_up")
_pruning = {queue: named_queries.load("outbox_pruning", columns(queue)) for queue in Queue}


@dataclass(frozen=True, slots=True)
class PostgresOutboxStore:
    """Implements OutboxStore on one of the queues."""

    # Its connections have the relay's role, so that a single statement needs no transaction around it.
    pool: Pool
    queue: Queue
    attempts_max: int = ATTEMPTS_MAX
    # How much later than due rows are claimed: most intents have been taken up by then, and need no message.
    head_start_seconds: float = 0.0

    async def claim_across_organizations(self, limit: int) -> list[ClaimedRow]:
        """Claim rows for five seconds, the oldest first."""
        async with acquire_clean(self.pool) as connection:
            rows = _queries[self.queue].claim_across_organizations(
                connection,
                row_limit=limit,
                look_at=LOOK_AT_ROWS,
                attempts_max=self.attempts_max,
                head_start_seconds=self.head_start_seconds,
            )
            return sorted([ClaimedRow(**row) async for row in rows], key=lambda row: row.outbox_id)

    async def complete_taken_up_across_organizations(self, limit: int) -> int:
        if self.queue is not Queue.INTENTS:
            return 0
        async with acquire_clean(self.pool) as connection:
            completed: int = await _taken_up.complete_taken_up_across_organizations(connection, row_limit=limit)
            return completed

    async def complete_across_organizations(self, rows: Sequence[ClaimedRow]) -> int:
        async with acquire_clean(self.pool) as connection:
            resolved = _queries[self.queue].complete_across_organizations(
                connection, outbox_ids=[row.outbox_id for row in rows], claim_tokens=[row.claim_token for row in rows]
            )
            return len([row async for row in resolved])

    async def release_across_organizations(
        self, rows: Sequence[ClaimedRow], wait_seconds: Sequence[float | None]
    ) -> list[int]:
        async with acquire_clean(self.pool) as connection:
            released = _queries[self.queue].release_across_organizations(
                connection,
                outbox_ids=[row.outbox_id for row in rows],
                claim_tokens=[row.claim_token for row in rows],
                wait_seconds=list(wait_seconds),
                attempts_max=self.attempts_max,
            )
            return [row["outbox_id"] async for row in released if row["status"] == OutboxStatus.FAILED]

    async def prune_across_organizations(self, keep_seconds: float) -> int:
        async with transaction(self.pool, Role.RELAY) as connection:
            taken = _pruning[self.queue].take_counts_across_organizations(
                connection, queue=self.queue, keep_seconds=keep_seconds
            )
            counts = [row async for row in taken]
            if not counts:
                return 0
            removed = _pruning[self.queue].remove_completed_across_organizations(connection, bucket=counts[0]["bucket"])
            rows = len([row async for row in removed])
            if rows != sum(row["count"] for row in counts):
                # A row was completed meanwhile: the transaction is rolled back, and a later try finds equal counts.
                raise UncertainCountError(
                    f"the queue {self.queue} has {rows} completed rows in a bucket, its counts differ; retry later"
                )
            return rows


class UncertainCountError(Exception):
    """A bucket changed while it was being removed."""

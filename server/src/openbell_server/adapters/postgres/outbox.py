"""The outbox queues: claimed, completed and released by rows, fenced by claim tokens; completed rows go later."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, kept_whole, transaction
from openbell_server.domain.outbox import ATTEMPTS_MAX, ClaimedRow, OutboxStatus, Queue

# Among so many of the oldest rows a claim looks first: it costs the same however many wait.
LOOK_AT_ROWS: Final = 1024
# What differs between the queues; the schema may lack the event type of the intents' queue.
WORDS: Final = {
    Queue.ACCOUNTS: {"queue": "account_outbox", "order": "{}.account_id", "told": "{0}.event_type, {0}.payload"},
    Queue.INTENTS: {
        "queue": "intent_outbox",
        "order": "{}.account_id",
        "told": "'intent.queued' as event_type, '' as payload, {0}.slot, {0}.created_at as recorded_at",
    },
    # By pattern: what is no JSON must not keep other rows from being claimed.
    Queue.USERS: {
        "queue": "user_outbox",
        "order": """coalesce(substring({0}.payload from '"user_id" ?: ?"((?:[^"\\\\]|\\\\.)*)"'), '')""",
        "told": "{0}.event_type, {0}.payload",
    },
}

# It waits and its time has come, or whoever claimed it has had it for too long.
_DUE: Final = (
    "(o.status = 'pending' and o.available_at <= clock_timestamp())"
    " or (o.status = 'processing' and o.claimed_at < clock_timestamp() - interval '5 seconds')"
)


def words_of(queue: Queue) -> dict[str, str]:
    """What the statements of a queue say where they differ from those of another, and what they say more than once."""
    words = WORDS[queue]
    return {
        "queue": words["queue"],
        "order of o": words["order"].format("o"),
        "told of o": words["told"].format("o"),
        "due of o": _DUE,
    }


_queries = {queue: named_queries.load("outbox", words_of(queue)) for queue in Queue}
_pruning = {queue: named_queries.load("outbox_pruning", words_of(queue)) for queue in Queue}


@dataclass(frozen=True, slots=True)
class PostgresOutboxStore:
    """Implements OutboxStore on one of the queues."""

    # Of connections in the relay's role: what one statement does needs no transaction around it.
    lanes: Pool
    queue: Queue
    attempts_max: int = ATTEMPTS_MAX

    async def claim_across_organizations(self, limit: int) -> list[ClaimedRow]:
        """Take rows into our hands for five seconds, the oldest first."""
        async with kept_whole(self.lanes) as connection:
            rows = _queries[self.queue].claim_across_organizations(
                connection, row_limit=limit, look_at=LOOK_AT_ROWS, attempts_max=self.attempts_max
            )
            return sorted([ClaimedRow(**row) async for row in rows], key=lambda row: row.outbox_id)

    async def complete_across_organizations(self, rows: Sequence[ClaimedRow]) -> int:
        """Resolve rows we still hold; how many that were."""
        async with kept_whole(self.lanes) as connection:
            resolved = _queries[self.queue].complete_across_organizations(
                connection, outbox_ids=[row.outbox_id for row in rows], claim_tokens=[row.claim_token for row in rows]
            )
            return len([row async for row in resolved])

    async def release_across_organizations(
        self, rows: Sequence[ClaimedRow], wait_seconds: Sequence[float | None]
    ) -> list[int]:
        """Give rows back for a later try; those that used up their tries and are failed."""
        async with kept_whole(self.lanes) as connection:
            released = _queries[self.queue].release_across_organizations(
                connection,
                outbox_ids=[row.outbox_id for row in rows],
                claim_tokens=[row.claim_token for row in rows],
                wait_seconds=list(wait_seconds),
                attempts_max=self.attempts_max,
            )
            return [row["outbox_id"] async for row in released if row["status"] == OutboxStatus.FAILED]

    async def prune_across_organizations(self, keep_seconds: float) -> int:
        """Remove the completed rows of one bucket, with its counts; how many rows that were."""
        async with transaction(self.lanes, Role.RELAY) as connection:
            taken = _pruning[self.queue].take_counts_across_organizations(
                connection, queue=self.queue, keep_seconds=keep_seconds
            )
            counts = [row async for row in taken]
            if not counts:
                return 0
            removed = _pruning[self.queue].remove_completed_across_organizations(connection, bucket=counts[0]["bucket"])
            rows = len([row async for row in removed])
            if rows != sum(row["count"] for row in counts):
                # Somebody completed one meanwhile: nothing of this happened, and a later try finds it settled.
                raise UncertainCountError(f"the counts of a bucket of {self.queue} are not those of its rows")
            return rows


class UncertainCountError(Exception):
    """A bucket changed while it was being removed."""

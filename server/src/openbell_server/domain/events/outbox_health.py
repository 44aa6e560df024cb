"""The health of the queues for operators: exact counts, and a verdict with what to do."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from openbell_server.domain.events.outbox import OutboxStatus, Queue

# A running relay releases a claim after five seconds and claims a due row at once.
CLAIM_SECONDS_MAX: Final = 10
SLOW_SECONDS: Final = 5
STUCK_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCount:
    status: OutboxStatus
    event_type: str
    count: int
    oldest_created_at: datetime
    max_attempts: int
    oldest_claimed_at: datetime | None


def rows_in(counts: Iterable[OutboxCount], status: OutboxStatus) -> int:
    return sum(entry.count for entry in counts if entry.status is status)


def oldest_queued(counts: Iterable[OutboxCount], status: OutboxStatus) -> datetime | None:
    return min((entry.oldest_created_at for entry in counts if entry.status is status), default=None)


def oldest_claim(counts: Iterable[OutboxCount]) -> datetime | None:
    return min((entry.oldest_claimed_at for entry in counts if entry.oldest_claimed_at is not None), default=None)


class QueueVerdict(StrEnum):
    """The health of a queue, the best first."""

    HEALTHY = "HEALTHY"
    SLOW = "SLOW"
    # Rows failed, and no operator has acknowledged them.
    FAILING = "FAILING"
    # No relay works on it.
    STUCK = "STUCK"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStanding:
    """A queue at a moment of the database's clock."""

    queue: Queue
    pending: int
    processing: int
    failed: int
    # Failed rows that no operator has acknowledged.
    unacknowledged: int
    completed: int
    oldest_pending_at: datetime | None
    # Since when the longest waiting row has been due.
    oldest_due_at: datetime | None
    oldest_claim_at: datetime | None
    read_at: datetime

    @property
    def lag_seconds(self) -> float:
        """How long the longest waiting row has been due."""
        return self._seconds_since(self.oldest_due_at)

    @property
    def claim_seconds(self) -> float:
        """The age of the oldest claim."""
        return self._seconds_since(self.oldest_claim_at)

    def _seconds_since(self, moment: datetime | None) -> float:
        # A row committed just before the read may have a slightly later time.
        return 0.0 if moment is None else max(0.0, round((self.read_at - moment).total_seconds(), 3))


@dataclass(frozen=True, slots=True)
class _Rule:
    verdict: QueueVerdict
    applies: Callable[[QueueStanding], bool]
    # Why, and what to do; a format string for the queue's facts.
    explanation: str


# The first rule that applies decides: without a running relay, nothing else can be fixed.
_RULES: Final = (
    _Rule(
        QueueVerdict.STUCK,
        lambda queue: queue.claim_seconds > CLAIM_SECONDS_MAX,
        "A claim is {claim:.0f} s old, but a running relay releases one after 5 s: check that a relay runs and reaches"
        " PostgreSQL and NATS.",
    ),
    _Rule(
        QueueVerdict.STUCK,
        lambda queue: queue.lag_seconds > STUCK_SECONDS,
        "A row that is due has waited {lag:.0f} s: check that a relay runs and reaches PostgreSQL and NATS, then its"
        " attempts with `openbell-server outbox list --queue {name} --status pending`.",
    ),
    _Rule(
        QueueVerdict.FAILING,
        lambda queue: queue.unacknowledged > 0,
        "{unacknowledged} given up after the last attempt: run `openbell-server outbox list --queue {name}`, fix the"
        " cause, then requeue or acknowledge each.",
    ),
    _Rule(
        QueueVerdict.SLOW,
        lambda queue: queue.lag_seconds > SLOW_SECONDS,
        "A row that is due has waited {lag:.0f} s: check again in a minute, and start more relays if it keeps growing.",
    ),
    _Rule(QueueVerdict.HEALTHY, lambda queue: True, "No row waits longer than it should: nothing to do."),
)


def judge(queue: QueueStanding) -> tuple[QueueVerdict, str]:
    """The verdict on a queue, and a sentence with the reason and what to do."""
    rule = next(rule for rule in _RULES if rule.applies(queue))
    rows = f"{queue.unacknowledged} rows were" if queue.unacknowledged != 1 else "1 row was"
    return rule.verdict, rule.explanation.format(
        name=queue.queue, lag=queue.lag_seconds, claim=queue.claim_seconds, unacknowledged=rows
    )


def worst(verdicts: Iterable[QueueVerdict]) -> QueueVerdict:
    return max(verdicts, key=list(QueueVerdict).index, default=QueueVerdict.HEALTHY)

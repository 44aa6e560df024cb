"""How the queues stand, as operators are told: exact counts, and a verdict that says what to do."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from openbell_server.domain.outbox import OutboxStatus, Queue

# A claim is taken back after five seconds, and a row that is due is claimed at once, if anybody works.
CLAIM_SECONDS_MAX: Final = 10
SLOW_SECONDS: Final = 5
STUCK_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCount:
    """How many rows of a queue have one status and one event type."""

    status: OutboxStatus
    event_type: str
    count: int
    oldest_created_at: datetime
    max_attempts: int
    oldest_claimed_at: datetime | None


def rows_in(counts: Iterable[OutboxCount], status: OutboxStatus) -> int:
    """How many rows have the status."""
    return sum(entry.count for entry in counts if entry.status is status)


def oldest_queued(counts: Iterable[OutboxCount], status: OutboxStatus) -> datetime | None:
    """When the oldest row of the status was queued."""
    return min((entry.oldest_created_at for entry in counts if entry.status is status), default=None)


def oldest_claim(counts: Iterable[OutboxCount]) -> datetime | None:
    """When the oldest claim was made that is not resolved."""
    return min((entry.oldest_claimed_at for entry in counts if entry.oldest_claimed_at is not None), default=None)


class Verdict(StrEnum):
    """What to think of a queue, the best first."""

    HEALTHY = "healthy"
    SLOW = "slow"
    # Rows were given up, and nobody has looked at them yet.
    FAILING = "failing"
    # Nobody works on it.
    STUCK = "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStanding:
    """How one queue stood at a moment of the database's clock."""

    queue: Queue
    pending: int
    processing: int
    failed: int
    # Those of the failed that no operator has acknowledged.
    unacknowledged: int
    completed: int
    oldest_pending_at: datetime | None
    # Since when the row that has waited longest could have been claimed.
    oldest_due_at: datetime | None
    oldest_claim_at: datetime | None
    read_at: datetime

    @property
    def lag_seconds(self) -> float:
        """How long the row that has waited longest could have been claimed."""
        return self._seconds_since(self.oldest_due_at)

    @property
    def claim_seconds(self) -> float:
        """How old the oldest claim is."""
        return self._seconds_since(self.oldest_claim_at)

    def _seconds_since(self, moment: datetime | None) -> float:
        # What was committed just before we read may carry a time just after ours.
        return 0.0 if moment is None else max(0.0, round((self.read_at - moment).total_seconds(), 3))


@dataclass(frozen=True, slots=True)
class _Rule:
    verdict: Verdict
    applies: Callable[[QueueStanding], bool]
    # Why, and what to do; filled with the facts of the queue.
    explanation: str


# The first that applies is the verdict: as long as nobody works, nothing else can be mended.
_RULES: Final = (
    _Rule(
        Verdict.STUCK,
        lambda queue: queue.claim_seconds > CLAIM_SECONDS_MAX,
        "A claim is {claim:.0f} s old, and a relay at work takes one back after 5 s: see that a relay runs and reaches"
        " PostgreSQL and NATS.",
    ),
    _Rule(
        Verdict.STUCK,
        lambda queue: queue.lag_seconds > STUCK_SECONDS,
        "A row that is due has waited {lag:.0f} s: see that a relay runs and reaches PostgreSQL and NATS, then what"
        " `openbell-server outbox list --queue {name} --status pending` says of its attempts.",
    ),
    _Rule(
        Verdict.FAILING,
        lambda queue: queue.unacknowledged > 0,
        "{unacknowledged} given up after every attempt: see `openbell-server outbox list --queue {name}`, mend the"
        " cause, then requeue or acknowledge each.",
    ),
    _Rule(
        Verdict.SLOW,
        lambda queue: queue.lag_seconds > SLOW_SECONDS,
        "A row that is due has waited {lag:.0f} s: look again in a minute, and start more relays if it keeps growing.",
    ),
    _Rule(Verdict.HEALTHY, lambda queue: True, "Nothing waits longer than it should: nothing to do."),
)


def judge(queue: QueueStanding) -> tuple[Verdict, str]:
    """The verdict on a queue, and a sentence that says why and what to do."""
    rule = next(rule for rule in _RULES if rule.applies(queue))
    rows = f"{queue.unacknowledged} rows were" if queue.unacknowledged != 1 else "1 row was"
    return rule.verdict, rule.explanation.format(
        name=queue.queue, lag=queue.lag_seconds, claim=queue.claim_seconds, unacknowledged=rows
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on all of them."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.HEALTHY)

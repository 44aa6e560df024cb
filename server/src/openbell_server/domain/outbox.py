"""The rules of every outbox queue: who may claim a row, how often, and when it is given up."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from openbell_server.domain.identifiers import AccountId, ActionId

ATTEMPTS_MAX: Final = 10
CLAIM_ROWS_MAX: Final = 256
BACKOFF_SECONDS_MAX: Final = 60
# Half a second less than a claim lasts, and counted from before it: our clock and the database's need not agree.
HOLD_SECONDS: Final = 4.5


class OutboxStatus(StrEnum):
    """Where a row of a queue stands; the last two are for good."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Claim:
    """A row in our hands for at most five seconds; only the holder of the token may resolve it."""

    outbox_id: int
    claim_token: int
    attempts: int


@dataclass(frozen=True, slots=True)
class ClaimedRow(Claim):
    """A row of the intents' queue."""

    account_id: AccountId
    slot: int
    action_id: ActionId


@dataclass(frozen=True, slots=True)
class ClaimedUserEvent(Claim):
    """A row of the users' queue; the payload is JSON, as it is published."""

    event_type: str
    payload: str


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


def backoff_seconds(attempts: int) -> int:
    """1, 2, 4 … 60 seconds; whoever waits adds its own jitter."""
    return min(BACKOFF_SECONDS_MAX, 1 << max(0, attempts - 1))

"""The rules of every outbox queue: who may claim a row, how often, and when it is given up."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

ATTEMPTS_MAX: Final = 10
CLAIM_ROWS_MAX: Final = 256
BACKOFF_SECONDS_MAX: Final = 60
# Half a second less than a claim lasts, and counted from before it: our clock and the database's need not agree.
HOLD_SECONDS: Final = 4.5


class Queue(StrEnum):
    """What is told of, each by a table of its own with the same rules."""

    ACCOUNTS = "accounts"
    INTENTS = "intents"
    USERS = "users"


class OutboxStatus(StrEnum):
    """Where a row of a queue stands; the last two are for good."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ClaimedRow:
    """A row in our hands for at most five seconds; only the holder of the token may resolve it."""

    outbox_id: int
    claim_token: int
    attempts: int
    # The account or user whose rows are told in order.
    in_order_of: str
    event_type: str
    # JSON, as it is published; empty where all is said by whose row it is.
    payload: str = ""
    # Of the intents' queue only.
    slot: int = 0
    recorded_at: datetime | None = None


def backoff_seconds(attempts: int) -> int:
    """1, 2, 4 … 60 seconds; whoever waits adds its own jitter."""
    return min(BACKOFF_SECONDS_MAX, 1 << max(0, attempts - 1))


def confirmed_in_order(rows: Iterable[ClaimedRow], confirmed: Container[int]) -> list[ClaimedRow]:
    """Those that may be resolved: once a row is not confirmed, none after it of the same account or user is."""
    broken: set[str] = set()
    kept = []
    for row in sorted(rows, key=lambda row: row.outbox_id):
        if row.outbox_id not in confirmed:
            broken.add(row.in_order_of)
        elif row.in_order_of not in broken:
            kept.append(row)
    return kept

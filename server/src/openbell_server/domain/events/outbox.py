"""Rules of every outbox queue: who may claim a row, how often, and when it fails."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

ATTEMPTS_MAX: Final = 10
CLAIM_ROWS_MAX: Final = 256
BACKOFF_SECONDS_MAX: Final = 60
# Half a second less than a claim lasts, counted from before the claim, to allow for clock differences.
HOLD_SECONDS: Final = 4.5


class Queue(StrEnum):
    """The queues; each has its own table with the same rules."""

    ACCOUNTS = "accounts"
    INTENTS = "intents"
    USERS = "users"


class OutboxStatus(StrEnum):
    """The status of a queue's row; the last two are final."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ClaimedRow:
    """A row claimed for at most five seconds; only the holder of the token may resolve it."""

    outbox_id: int
    claim_token: int
    attempts: int
    # The account or user whose rows are published in order.
    in_order_of: str
    event_type: str
    # The published JSON; empty where the account or user alone is the message.
    payload: str = ""
    # Used by the intents queue only.
    slot: int = 0
    recorded_at: datetime | None = None


def backoff_seconds(attempts: int) -> int:
    """1, 2, 4 … 60 seconds; the caller adds jitter."""
    return min(BACKOFF_SECONDS_MAX, 1 << max(0, attempts - 1))


def confirmed_in_order(rows: Iterable[ClaimedRow], confirmed: Container[int]) -> list[ClaimedRow]:
    """The rows that may be resolved: after an unconfirmed row, no later row of the same account or user."""
    broken: set[str] = set()
    kept = []
    for row in sorted(rows, key=lambda row: row.outbox_id):
        if row.outbox_id not in confirmed:
            broken.add(row.in_order_of)
        elif row.in_order_of not in broken:
            kept.append(row)
    return kept

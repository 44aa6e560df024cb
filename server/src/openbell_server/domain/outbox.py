"""The rules of every outbox queue: who may claim a row, how often, and when it is given up."""

from dataclasses import dataclass
from typing import Final

from openbell_server.domain.identifiers import AccountId, ActionId

ATTEMPTS_MAX: Final = 10
CLAIM_ROWS_MAX: Final = 256
BACKOFF_SECONDS_MAX: Final = 60
# Half a second less than a claim lasts, and counted from before it: our clock and the database's need not agree.
HOLD_SECONDS: Final = 4.5


@dataclass(frozen=True, slots=True)
class ClaimedRow:
    """A row in our hands for at most five seconds; only the holder of the token may resolve it."""

    outbox_id: int
    claim_token: int
    attempts: int
    account_id: AccountId
    slot: int
    action_id: ActionId


def backoff_seconds(attempts: int) -> int:
    """1, 2, 4 … 60 seconds; whoever waits adds its own jitter."""
    return min(BACKOFF_SECONDS_MAX, 1 << max(0, attempts - 1))

"""The event log of an account, numbered 1, 2, 3 … without gaps."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from openbell_server.domain.identifiers import AccountId, IntentId, Symbol


class EventKind(IntEnum):
    """What an event is about; numbers are stored and never reused."""

    INTENT_ACTION = 1
    BROKER_ORDER = 2
    ACCOUNT_CHANGED = 3
    EXTERNAL_ORDER = 4
    POSITION_ADJUSTED = 5
    BROKER_TRADE = 6
    CONTROL_CHANGED = 7
    INTENT_REFUSED = 8
    BALANCES_CHANGED = 9
    LOSS_LIMIT_EXCEEDED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountEvent:
    """One event; `body` is its JSON object."""

    account_id: AccountId
    number: int
    kind: EventKind
    # None if it is not about an intent.
    intent_id: IntentId | None
    seq: int | None
    body: str
    occurred_at: datetime
    # None if it is about no symbol, or about all.
    symbol: Symbol | None = None

    @property
    def event_id(self) -> str:
        """The same id on every transport."""
        return f"{self.account_id}.{self.number}"


def gap_reason(last: int, floor: int) -> str:
    """Why events up to `last` are missing, if the log was pruned up to `floor`."""
    return "RETENTION" if last <= floor else "DELETED"

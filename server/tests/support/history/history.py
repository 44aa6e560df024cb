"""A history: what clients asked and heard, what every book holds in the end, and the findings it can give rise to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from openbell import Action
from openbell_server.devtools.demo.ledgers import Books
from openbell_server.domain.events.account_events import EventKind


class Operation(StrEnum):
    """What a call asks for."""

    CREATE = "create"
    REPLACE = "replace"
    CANCEL = "cancel"
    READ = "read"


class Result(StrEnum):
    """What its caller knows afterwards; a refused call, and one that never left, is a definite fail."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sight:
    """How an action and its order stood in an answer."""

    seq: int
    state: str
    order_state: str
    filled_quantity: Decimal

    @classmethod
    def of(cls, action: Action) -> "Sight":
        """What an answer with an execution shows."""
        assert action.execution is not None
        return cls(action.seq, action.status, action.execution.status, action.execution.filled_quantity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of one client; a retry is a call of its own with the same key.

    Every command carries its key as client_reference_id too, so that what it left behind can be found.
    """

    process: str
    operation: Operation
    account_id: str
    key: str | None = None
    digest: str | None = None
    begun: float
    ended: float
    result: Result
    # The intent that was answered; for a read the one that was asked for.
    intent_id: str | None = None
    sight: Sight | None = None


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One event of an account's log; an action has a seq, an order has a filled quantity, the account neither."""

    number: int
    kind: EventKind
    intent_id: str
    seq: int | None
    state: str
    filled_quantity: Decimal | None


@dataclass(frozen=True, slots=True)
class Fill:
    """One execution as we have stored it."""

    account_id: str
    intent_id: str
    execution_id: str
    quantity: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything that was asked, and every book as it was read when all was quiet again."""

    calls: Sequence[Call]
    # The final read over REST, and the broker's own ledger.
    books: Books
    fills: Sequence[Fill]
    # By account and symbol, as we have stored them.
    positions: Mapping[tuple[str, str], Decimal]
    # By account: the number of the newest event, the log as it is stored, and what a follower of it received.
    heads: Mapping[str, int]
    log: Mapping[str, Sequence[LoggedEvent]]
    followed: Mapping[str, Sequence[LoggedEvent]]


class Kind(StrEnum):
    """What can be wrong with a history."""

    LOST = "lost: accepted and not shown"
    DOUBLED = "doubled: one command recorded twice"
    OTHER_ANSWER = "answers of one key that name two commands"
    KEY_TAKEN_TWICE = "keys that took two different commands"
    REFUSED_KEPT = "refused and recorded all the same"
    UNASKED = "recorded and never requested"
    SEQ_GAP = "gaps or disorder in an intent's commands"
    STALE_READ = "reads that miss what was accepted before"
    BACKWARD_READ = "reads that go back in time"
    EVENT_GAP = "gaps in an account's events"
    EVENT_DISORDER = "events out of order"
    EVENT_REPEATED = "events sent twice"
    EVENT_DIFFERS = "events sent otherwise than stored"
    ILLEGAL_STEP = "states that cannot follow each other"
    LOG_DISAGREES = "logs that end otherwise than the final read"
    FILL_TWICE = "executions counted twice"
    FILLS_DISAGREE = "executions that do not add up"
    POSITION_DISAGREES = "positions that executions do not add up to"
    ORDER_DOUBLED = "orders doubled at the broker"
    ORDER_LOST = "orders that one ledger lacks"
    ORDER_DISAGREEING = "orders on which the ledgers disagree"
    ORDER_UNFINISHED = "orders unfinished"


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken promise, in a sentence."""

    kind: Kind
    sentence: str

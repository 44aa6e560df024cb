"""What somebody asks to follow, and the frames that are sent of it, whatever carries them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from openbell_server.application.watch_logs import Entry
from openbell_server.domain.account_events import EventKind
from openbell_server.domain.identifiers import AccountId, Symbol

# The body of the last frame of a server that stops.
GOING_AWAY: Final = {
    "code": "GOING_AWAY",
    "message": "this server is going away; resume with your token",
    "retryable": True,
}


class Start(StrEnum):
    """Where a subscription without a resume token begins."""

    LIVE = "LIVE"
    PRIMED = "PRIMED"
    BEGINNING = "BEGINNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What somebody asks to follow."""

    # None: every account of the organization that the caller may follow.
    account_id: AccountId | None
    kinds: frozenset[EventKind]
    # Empty: all. An event about no symbol passes.
    symbols: frozenset[Symbol] = frozenset()
    # None: LIVE, and a resume token may say otherwise.
    start: Start | None = None
    resume_token: str | None = None


class FrameKind(StrEnum):
    """What a frame tells; body is what is said in brackets, in the words of the event stream."""

    SUBSCRIBED = "subscribed"
    EVENT = "event"
    # What stands when a PRIMED subscription begins (the order, the external order, the position).
    ORDER = "broker_order"
    EXTERNAL_ORDER = "external_order"
    POSITION = "broker_position"
    # All that stands was sent (how many orders and positions).
    PRIMED = "primed"
    # Some are no longer kept (first_seq and last_seq of them, reason).
    GAP = "gap"
    # Everything that matches up to position was sent.
    HEARTBEAT = "heartbeat"
    # Why the stream ends after it (code, message, whether it is retryable).
    ERROR = "error"


@dataclass(slots=True)
class Frame:
    """One thing to send. The account is None, and its numbers are 0, where the frame is about an organization."""

    kind: FrameKind
    account_id: AccountId | None
    position: int
    previous: int
    # Empty where a later frame has one.
    resume_token: str
    # Of an event.
    entry: Entry | None = None
    # As it is sent to all who gave no label, once somebody was sent it.
    message: bytes = b""
    body: Mapping[str, Any] | None = None

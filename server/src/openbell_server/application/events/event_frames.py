"""Subscriptions to events and the frames that answer them, on every transport."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from openbell_server.application.events.event_tail_cache import Entry
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId, Symbol

# The body of the last frame of a server that stops.
GOING_AWAY: Final = {
    "code": "going_away",
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
    # None: every account of the organization that the caller may follow.
    account_id: AccountId | None
    kinds: frozenset[EventKind]
    # Empty: all. An event without a symbol always matches.
    symbols: frozenset[Symbol] = frozenset()
    # None: LIVE, or the position of the resume token.
    start: Start | None = None
    resume_token: str | None = None


class FrameKind(StrEnum):
    """The kind of a frame; the comments name the fields of its body in brackets."""

    SUBSCRIBED = "subscribed"
    EVENT = "event"
    # The state when a PRIMED subscription begins (the order, the external order, the position).
    ORDER = "broker_order"
    EXTERNAL_ORDER = "external_order"
    POSITION = "broker_position"
    # The whole state was sent (how many orders and positions).
    PRIMED = "primed"
    # Events were deleted (their first_seq and last_seq, reason).
    GAP = "gap"
    # Every matching event up to position was sent.
    HEARTBEAT = "heartbeat"
    # The last frame: why the stream ends (code, message, whether it is retryable).
    ERROR = "error"


@dataclass(slots=True)
class Frame:
    """For a frame about an organization the account is None and both numbers are 0."""

    kind: FrameKind
    account_id: AccountId | None
    position: int
    previous: int
    # Empty if a later frame has it.
    resume_token: str
    # Set for an event.
    entry: Entry | None = None
    # The encoded message for followers without a label, set when the first of them is served.
    message: bytes = b""
    body: Mapping[str, Any] | None = None

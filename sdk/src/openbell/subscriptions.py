"""How far a subscription has come, and what its next frame must be: the same over every transport."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Final, Literal, TypedDict

import msgspec

from openbell.connection import Connection
from openbell.errors import ApiError, EventMissed, NotConfigured, UnexpectedReply, Unreachable
from openbell.event_records import Event

Start = Literal["live", "primed", "beginning"]
Transport = Literal["grpc", "sse"]

# The platform sends a heartbeat every 10 seconds, so a longer silence is a dead connection.
SILENCE_SECONDS: Final = 30.0
# A platform that was there comes back, so a broken stream is given about a minute; a first connection is not.
FAILURES_MAX: Final = 15
FIRST_FAILURES_MAX: Final = 3
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

EVENT_TYPES: Final = (
    "broker_order",
    "intent_action",
    "account_changed",
    "external_order",
    "position_adjusted",
    "broker_trade",
    "control_changed",
)
_SNAPSHOT: Final = frozenset({"broker_order", "external_order", "broker_position"})


class EventOptions(TypedDict, total=False):
    """What can be said about a subscription."""

    # None: the client's account.
    account_id: str | None
    # Every account of the organization instead of one.
    organization: bool
    # Of EVENT_TYPES; all of them where nothing is said.
    types: Sequence[str]
    # Only events about these symbols, and those that are about none.
    symbols: Sequence[str]
    start: Start
    # None: gRPC where it is installed, else server-sent events.
    transport: Transport | None


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a stream, whatever carried it."""

    type: str
    trading_account_id: str = ""
    account_seq: int = 0
    prev_seq: int = 0
    event_id: str = ""
    resume_token: str = ""
    occurred_at: datetime = datetime.fromtimestamp(0, UTC)
    body: dict[str, Any] = {}


class Subscription:
    """What was asked for, and how far it has come."""

    def __init__(self, account_id: str | None, resume_token: str | None, options: EventOptions | None = None) -> None:
        options = options or {}
        self.account_id = account_id
        self.resume_token = resume_token or None
        self.types = tuple(options.get("types") or EVENT_TYPES)
        self.symbols = tuple(options.get("symbols") or ())
        self.start: Start = options.get("start", "live")
        self.transport = _transport(options.get("transport"), account_id)
        if unknown := sorted(set(self.types) - set(EVENT_TYPES)):
            raise NotConfigured(f"There are no events of the type {unknown[0]!r}.", f"Use {', '.join(EVENT_TYPES)}.")
        if self.resume_token and self.start != "live":
            raise NotConfigured("A token says where to begin, and so does start.", "Leave one of them out.")
        # Set by whoever reads, so that somebody else can end a read that waits.
        self.cut: Callable[[], object] = lambda: None
        self.is_closed = False
        self._snapshot: list[Event] | None = [] if self.start == "primed" else None
        # By account: how far the stream is, and the last event given out.
        self._positions: dict[str, int] = {}
        self._given: dict[str, int] = {}
        self._failures = 0
        self._failures_max = FIRST_FAILURES_MAX

    @property
    def start_now(self) -> Start | None:
        """Where the next connection begins: None where the token says it."""
        return None if self.resume_token else self.start

    def close(self) -> None:
        """End it, also in the middle of a wait."""
        self.is_closed = True
        self.cut()

    def begin(self, cut: Callable[[], object]) -> None:
        """A new connection is there; what an unfinished snapshot brought is forgotten."""
        self.cut = cut
        if self._snapshot is not None:
            self._snapshot = []
        if self.is_closed:
            cut()

    def accept(self, frame: Frame) -> Sequence[Event]:
        """What a frame gives: mostly one event, or none where it only says how far the stream is."""
        self._failures = 0
        self._failures_max = FAILURES_MAX
        if self._snapshot is not None:
            return self._prime(self._snapshot, frame)
        if frame.type == "gap":
            first, last = int(frame.body["first_seq"]), int(frame.body["last_seq"])
            self.resume_token = frame.resume_token or self.resume_token
            reason = str(frame.body.get("reason", ""))
            raise EventMissed(position=first - 1, prev_seq=last, resume_token=self.resume_token, reason=reason)
        # A frame newer than this client must not move the position past what it may announce.
        if frame.type not in EVENT_TYPES and frame.type not in ("subscribed", "heartbeat"):
            return ()
        account = self.account_id or frame.trading_account_id
        position = self._positions.get(account)
        if position is not None and frame.prev_seq > position:
            raise EventMissed(position=position, prev_seq=frame.prev_seq, resume_token=self.resume_token)
        self.resume_token = frame.resume_token or self.resume_token
        if not account:
            return ()
        # After a reconnect only what was received counts, not what the new stream says about itself.
        if frame.type != "subscribed":
            self._positions[account] = max(frame.account_seq, position or 0)
        elif position is None and frame.account_seq:
            self._positions[account] = frame.account_seq
        if frame.type not in EVENT_TYPES or frame.account_seq <= self._given.get(account, 0):
            return ()
        self._given[account] = frame.account_seq
        return (event_of(frame),)

    def pause_after(self, refusal: ApiError | UnexpectedReply | None, details: str | None) -> float:
        """How long to wait before the next attempt; raises where no further attempt would help."""
        if refusal is not None:
            raise refusal
        self._failures += 1
        if self._failures > self._failures_max:
            raise Unreachable(
                f"The event stream cannot be reached: {details or 'it ends at once'}", resume_token=self.resume_token
            )
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self._failures - 1))

    def _prime(self, snapshot: list[Event], frame: Frame) -> Sequence[Event]:
        """What stands is given out once all of it is there, so that a cut in the middle shows nobody a half."""
        if frame.type in _SNAPSHOT:
            snapshot.append(event_of(frame, is_snapshot=True))
        elif frame.type == "primed":
            snapshot.append(event_of(frame))
            self._positions[self.account_id or frame.trading_account_id] = frame.account_seq
        # Accounts of an organization are told one after the other, the last brings the token; without any, the first.
        is_last = frame.type == "primed" or (frame.type == "subscribed" and self.account_id is None)
        if not (is_last and frame.resume_token):
            return ()
        self._snapshot = None
        self.resume_token = frame.resume_token
        return snapshot


def subscription_of(connection: Connection, resume_token: str | None, options: EventOptions) -> Subscription:
    """What these options ask for, of the client's account where they name none."""
    account_id = None if options.get("organization") else connection.account(options.get("account_id"))
    return Subscription(account_id, resume_token, options)


def _transport(chosen: Transport | None, account_id: str | None) -> Transport:
    """What carries the events: an organization's are followed over gRPC only."""
    if chosen == "sse" and account_id is None:
        raise NotConfigured("Server-sent events are of one account.", "Follow an organization over gRPC.")
    if find_spec("grpc"):
        return chosen or "grpc"
    if chosen == "grpc" or account_id is None:
        raise NotConfigured("gRPC is not installed.", "pip install 'openbell[grpc]', or follow one account over sse.")
    return "sse"


def event_of(frame: Frame, *, is_snapshot: bool = False) -> Event:
    """The event that a frame carries."""
    told = {
        "trading_account_id": frame.trading_account_id,
        "account_seq": frame.account_seq,
        "prev_seq": frame.prev_seq,
        "event_id": frame.event_id,
        "resume_token": frame.resume_token,
        "occurred_at": frame.occurred_at,
        "is_snapshot": is_snapshot,
        frame.type: frame.body,
    }
    try:
        # JSON of protobuf has numbers of 64 bits as text.
        return msgspec.convert(told, Event, strict=False)
    except msgspec.ValidationError as error:
        raise UnexpectedReply(f"Event {frame.account_seq} cannot be read: {error}") from error

"""The position of a subscription, and the check that no event is missing; the same for every transport."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Final, Literal, TypedDict

import msgspec

from openbell.connection import Connection
from openbell.errors import ApiError, EventMissed, NotConfigured, UnexpectedReply, Unreachable
from openbell.events.records import Event

Start = Literal["LIVE", "PRIMED", "BEGINNING"]
Transport = Literal["grpc", "sse"]

# The platform sends a heartbeat every 10 seconds, so a connection that is silent for longer is dead.
SILENCE_SECONDS: Final = 30.0
# A stream that worked before is retried for about a minute; a first connection fails sooner.
FAILURES_MAX: Final = 15
FIRST_FAILURES_MAX: Final = 3
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

EVENT_TYPES: Final = (
    "BROKER_ORDER",
    "INTENT_ACTION",
    "ACCOUNT_CHANGED",
    "EXTERNAL_ORDER",
    "POSITION_ADJUSTED",
    "BROKER_TRADE",
    "CONTROL_CHANGED",
    "INTENT_REFUSED",
    "BALANCES_CHANGED",
    "LOSS_LIMIT_EXCEEDED",
)
# An event's frame has the name of its field, which is that of its type in lower case.
_EVENT_FRAMES: Final = frozenset(name.lower() for name in EVENT_TYPES)
_SNAPSHOT: Final = frozenset({"broker_order", "external_order", "broker_position"})


class EventOptions(TypedDict, total=False):
    """Options of a subscription."""

    # Default: the client's account.
    account_id: str | None
    # All accounts of the organization instead of one.
    organization: bool
    # From EVENT_TYPES; default: all.
    types: Sequence[str]
    # Only events of these symbols, and those of no symbol.
    symbols: Sequence[str]
    start: Start
    # Default: gRPC if it is installed and the stream's address is known, else server-sent events.
    transport: Transport | None


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a stream, of either transport."""

    type: str
    account_id: str = ""
    account_seq: int = 0
    prev_seq: int = 0
    event_id: str = ""
    resume_token: str = ""
    occurred_at: datetime = datetime.fromtimestamp(0, UTC)
    body: dict[str, Any] = {}


class Subscription:
    """The options of a subscription and its position."""

    def __init__(self, account_id: str | None, resume_token: str | None, options: EventOptions | None = None) -> None:
        options = options or {}
        self.account_id = account_id
        self.resume_token = resume_token or None
        self.types = tuple(options.get("types") or EVENT_TYPES)
        self.symbols = tuple(options.get("symbols") or ())
        self.start: Start = options.get("start", "LIVE")
        self.transport = _transport(options.get("transport"))
        if unknown := sorted(set(self.types) - set(EVENT_TYPES)):
            raise NotConfigured(f"There is no event type {unknown[0]!r}.", f"Use {', '.join(EVENT_TYPES)}.")
        if self.resume_token and self.start != "LIVE":
            raise NotConfigured("Both resume_token and start set where to begin.", "Leave one of them out.")
        # Set by the reader, so that close() can end a read that waits in another thread.
        self.cut: Callable[[], object] = lambda: None
        self.is_closed = False
        self._snapshot: list[Event] | None = [] if self.start == "PRIMED" else None
        # By account: the position of the stream, and the last event that was returned.
        self._positions: dict[str, int] = {}
        self._returned: dict[str, int] = {}
        self._failures = 0
        self._failures_max = FIRST_FAILURES_MAX

    @property
    def start_now(self) -> Start | None:
        """Where the next connection begins; None if resume_token defines it."""
        return None if self.resume_token else self.start

    def close(self) -> None:
        """End the subscription, also while a read waits."""
        self.is_closed = True
        self.cut()

    def begin(self, cut: Callable[[], object]) -> None:
        """Start on a new connection; an incomplete snapshot is discarded. `cut` ends a read that waits."""
        self.cut = cut
        if self._snapshot is not None:
            self._snapshot = []
        if self.is_closed:
            cut()

    def accept(self, frame: Frame) -> Sequence[Event]:
        """The events of a frame: usually one, none if it only reports the position. Raises EventMissed."""
        self._failures = 0
        self._failures_max = FAILURES_MAX
        if self._snapshot is not None:
            return self._prime(self._snapshot, frame)
        if frame.type == "gap":
            first, last = int(frame.body["first_seq"]), int(frame.body["last_seq"])
            self.resume_token = frame.resume_token or self.resume_token
            reason = str(frame.body.get("reason", ""))
            raise EventMissed(position=first - 1, prev_seq=last, resume_token=self.resume_token, reason=reason)
        # A frame type that this client does not know must not move the position: the frame may report a gap.
        if frame.type not in _EVENT_FRAMES and frame.type not in ("subscribed", "heartbeat"):
            return ()
        account = self.account_id or frame.account_id
        position = self._positions.get(account)
        if position is not None and frame.prev_seq > position:
            raise EventMissed(position=position, prev_seq=frame.prev_seq, resume_token=self.resume_token)
        self.resume_token = frame.resume_token or self.resume_token
        if not account:
            return ()
        # After a reconnect, only received events move the position, not the number in the subscribed frame.
        if frame.type != "subscribed":
            self._positions[account] = max(frame.account_seq, position or 0)
        elif position is None and frame.account_seq:
            self._positions[account] = frame.account_seq
        if frame.type not in _EVENT_FRAMES or frame.account_seq <= self._returned.get(account, 0):
            return ()
        self._returned[account] = frame.account_seq
        return (event_of(frame),)

    def pause_after(self, refusal: ApiError | UnexpectedReply | None, details: str | None) -> float:
        """Seconds to wait before the next attempt; raises if the attempts are used up or the platform refused."""
        if refusal is not None:
            raise refusal
        self._failures += 1
        if self._failures > self._failures_max:
            raise Unreachable(
                f"The event stream cannot be reached: {details or 'it ended at once'}", resume_token=self.resume_token
            )
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self._failures - 1))

    def _prime(self, snapshot: list[Event], frame: Frame) -> Sequence[Event]:
        """The snapshot, once it is complete: a connection that ends earlier must not return a part of it."""
        if frame.type in _SNAPSHOT:
            snapshot.append(event_of(frame, is_snapshot=True))
        elif frame.type == "primed":
            snapshot.append(event_of(frame))
            self._positions[self.account_id or frame.account_id] = frame.account_seq
        # Accounts of an organization follow one another and the last has the token; without accounts, the first frame.
        is_last = frame.type == "primed" or (frame.type == "subscribed" and self.account_id is None)
        if not (is_last and frame.resume_token):
            return ()
        self._snapshot = None
        self.resume_token = frame.resume_token
        return snapshot


def subscription_of(connection: Connection, resume_token: str | None, options: EventOptions) -> Subscription:
    account_id = None if options.get("organization") else connection.account(options.get("account_id"))
    if connection.stream_address is None:
        if options.get("transport") == "grpc":
            raise NotConfigured(
                "No address of the gRPC event stream was given.",
                "Pass stream_address or set OPENBELL_STREAM, such as stream.example.com:443; or use the transport sse.",
            )
        options = {**options, "transport": "sse"}
    return Subscription(account_id, resume_token, options)


def _transport(chosen: Transport | None) -> Transport:
    if find_spec("grpc"):
        return chosen or "grpc"
    if chosen == "grpc":
        raise NotConfigured("gRPC is not installed.", "pip install 'openbell[grpc]', or use the transport sse.")
    return "sse"


def event_of(frame: Frame, *, is_snapshot: bool = False) -> Event:
    fields = {**msgspec.structs.asdict(frame), "is_snapshot": is_snapshot, frame.type: frame.body}
    try:
        # Protobuf's JSON has 64-bit numbers as text.
        return msgspec.convert(fields, Event, strict=False)
    except msgspec.ValidationError as error:
        raise UnexpectedReply(f"Event {frame.account_seq} cannot be read: {error}") from error

"""What the demo knows while it runs: every intent as the REST interface last showed it, and what happened when."""

import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from openbell import Action

STATES: Final = ("queued", "dispatching", "unknown", "working", "filled", "canceled", "rejected", "failed")
_BEFORE_THE_BROKER: Final = {"QUEUED": "queued", "DISPATCHING": "dispatching", "SENT": "dispatching"}
_ENDS: Final = {
    "FILLED": "filled",
    "CANCELED": "canceled",
    "SKIPPED": "canceled",
    "EXPIRED": "canceled",
    "REJECTED": "rejected",
    "FAILED": "failed",
}
# The executor's words for what it saw, said for people.
_PLAIN_WORDS: Final = {
    "RemoteProtocolError": "the broker cut the connection",
    "ReadError": "the broker cut the connection",
    "ReadTimeout": "the broker never answered",
    "TimeoutError": "the broker never answered",
    "no answer within 3 s": "the broker never answered",
    "whoever sent it ended before recording an answer": "its executor was killed",
}
DOUBTS_SHOWN: Final = 5
_EVENTS_KEPT: Final = 500


@dataclass(frozen=True, slots=True)
class Sight:
    """An intent: its CREATE, and its newest action with the execution once that was read."""

    create: Action
    latest: Action | None = None

    @property
    def name(self) -> str:
        """What was asked, in a few words."""
        return f"{self.create.order_side} {self.create.quantity} {self.create.symbol}"

    @property
    def state(self) -> str:
        """One of STATES."""
        if self.is_in_doubt:
            return "unknown"
        execution = None if self.latest is None else self.latest.execution
        if execution is not None and execution.state in _ENDS:
            return _ENDS[execution.state]
        return _BEFORE_THE_BROKER.get(self.create.state, "working")

    @property
    def is_in_doubt(self) -> bool:
        """Whether nobody can say yet if the last command reached the broker."""
        # The newest action is read after the list, so where both speak its word is the later one.
        return not self.is_final and "UNKNOWN" in (self.create.state, self.latest.state if self.latest else "")

    @property
    def is_final(self) -> bool:
        """Whether it changes no more."""
        return self.latest is not None and self.latest.execution is not None and self.latest.execution.is_final

    @property
    def is_cancel_absent(self) -> bool:
        """Whether its cancel provably never reached the broker, so that the order goes on."""
        return self.latest is not None and (self.latest.action_type, self.latest.state) == ("CANCEL", "FAILED")

    @property
    def since(self) -> datetime:
        """When its doubt began; a doubt that was not read yet is the youngest."""
        execution = self.latest.execution if self.latest else None
        return execution.unknown.since if execution and execution.unknown else datetime.now(UTC)

    @property
    def why_in_doubt(self) -> str:
        """The platform's own reason."""
        action = self.latest if self.latest and self.latest.state == "UNKNOWN" else self.create
        reason = (action.reason.broker_text if action.reason else None) or "no answer"
        return _PLAIN_WORDS.get(reason.partition(":")[0], reason)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, and how many seconds after the first intent."""

    seconds: float
    text: str
    style: str


@dataclass(slots=True)
class Board:
    """Everything that the screen shows."""

    intents: int
    started: float = field(default_factory=time.monotonic)
    asked: int = 0
    accepted: set[str] = field(default_factory=set)
    resting: set[str] = field(default_factory=set)
    kills: Counter[str] = field(default_factory=Counter)
    doubts: set[str] = field(default_factory=set)
    sights: dict[str, Sight] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_EVENTS_KEPT))

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.started

    @property
    def counts(self) -> Counter[str]:
        """How many intents are in each of STATES."""
        return Counter(sight.state for sight in self.sights.values())

    @property
    def in_doubt(self) -> list[Sight]:
        """The intents in doubt, the oldest doubt first."""
        return sorted((sight for sight in self.sights.values() if sight.is_in_doubt), key=lambda sight: sight.since)

    @property
    def settled(self) -> int:
        """How many intents are where they shall end."""
        return sum(self._is_settled(intent_id) for intent_id in self.accepted)

    def tell(self, text: str, style: str = "") -> None:
        """Note what happened."""
        self.events.append(Event(self.seconds, text, style))

    def see(self, sights: Iterable[Sight]) -> None:
        """Take what was read, and tell when a doubt begins or ends."""
        for sight in sights:
            intent_id = sight.create.intent_id
            before = self.sights.get(intent_id)
            self.sights[intent_id] = sight
            was_in_doubt = before is not None and before.is_in_doubt
            if sight.is_in_doubt and not was_in_doubt:
                self.doubts.add(intent_id)
                self.tell(f"{sight.name}: {sight.why_in_doubt}, so it is UNKNOWN and being probed", "yellow")
            elif was_in_doubt and not sight.is_in_doubt:
                self._tell_end_of_doubt(sight)

    def _tell_end_of_doubt(self, sight: Sight) -> None:
        if sight.is_cancel_absent:
            self.tell(f"{sight.name}: its cancel provably never reached the broker, so it goes on", "cyan")
        elif sight.state == "failed":
            self.tell(f"{sight.name}: provably never reached the broker, so it is FAILED", "cyan")
        else:
            self.tell(f"{sight.name}: settled by the broker's own word, {sight.state}", "green")

    def _is_settled(self, intent_id: str) -> bool:
        sight = self.sights.get(intent_id)
        if sight is None or sight.is_in_doubt:
            return False
        # A resting order that nobody cancels any more has arrived as well.
        stays = intent_id in self.resting or sight.is_cancel_absent
        return sight.is_final or (stays and sight.state == "working")

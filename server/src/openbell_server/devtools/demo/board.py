"""The state of the demo: every intent as REST last showed it, and a log of events."""

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
# Texts for people by the executor's reason.
_PLAIN_TEXTS: Final = {
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
    """An intent: its CREATE, and its newest action with its execution once that was read."""

    create: Action
    latest: Action | None = None

    @property
    def name(self) -> str:
        return f"{self.create.order_side} {self.create.quantity} {self.create.symbol}"

    @property
    def state(self) -> str:
        """One of STATES."""
        if self.is_in_doubt:
            return "unknown"
        execution = None if self.latest is None else self.latest.execution
        if execution is not None and execution.status in _ENDS:
            return _ENDS[execution.status]
        return _BEFORE_THE_BROKER.get(self.create.status, "working")

    @property
    def is_in_doubt(self) -> bool:
        """Whether it is unknown if the last command reached the broker."""
        # The newest action is read after the list, so it takes precedence.
        return not self.is_final and "UNKNOWN" in (self.create.status, self.latest.status if self.latest else "")

    @property
    def is_final(self) -> bool:
        return self.latest is not None and self.latest.execution is not None and self.latest.execution.is_final

    @property
    def is_cancel_absent(self) -> bool:
        """Whether its cancel provably never reached the broker, so that the order continues."""
        return self.latest is not None and (self.latest.action_type, self.latest.status) == ("CANCEL", "FAILED")

    @property
    def since(self) -> datetime:
        """When its doubt began; now if that was not read yet."""
        execution = self.latest.execution if self.latest else None
        return execution.unknown.since if execution and execution.unknown else datetime.now(UTC)

    @property
    def why_in_doubt(self) -> str:
        action = self.latest if self.latest and self.latest.status == "UNKNOWN" else self.create
        reason = (action.reason.broker_text if action.reason else None) or "no answer"
        return _PLAIN_TEXTS.get(reason.partition(":")[0], reason)


@dataclass(frozen=True, slots=True)
class Event:
    """An event with its time in seconds after the first intent."""

    seconds: float
    text: str
    style: str


@dataclass(slots=True)
class Board:
    intents: int
    started: float = field(default_factory=time.monotonic)
    asked: int = 0
    accepted: set[str] = field(default_factory=set)
    resting: set[str] = field(default_factory=set)
    kills: int = 0
    doubts: set[str] = field(default_factory=set)
    sights: dict[str, Sight] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_EVENTS_KEPT))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def counts(self) -> Counter[str]:
        return Counter(sight.state for sight in self.sights.values())

    @property
    def in_doubt(self) -> list[Sight]:
        """The intents in doubt, oldest first."""
        return sorted((sight for sight in self.sights.values() if sight.is_in_doubt), key=lambda sight: sight.since)

    @property
    def settled(self) -> int:
        """How many intents have reached their expected end."""
        return sum(self._is_settled(intent_id) for intent_id in self.accepted)

    def log(self, text: str, style: str = "") -> None:
        self.events.append(Event(self.seconds, text, style))

    def see(self, sights: Iterable[Sight]) -> None:
        """Store what was read, and log when a doubt begins or ends."""
        for sight in sights:
            intent_id = sight.create.intent_id
            before = self.sights.get(intent_id)
            self.sights[intent_id] = sight
            was_in_doubt = before is not None and before.is_in_doubt
            if sight.is_in_doubt and not was_in_doubt:
                self.doubts.add(intent_id)
                self.log(f"{sight.name}: {sight.why_in_doubt}, so it is UNKNOWN and being probed", "yellow")
            elif was_in_doubt and not sight.is_in_doubt:
                self._log_end_of_doubt(sight)

    def _log_end_of_doubt(self, sight: Sight) -> None:
        if sight.is_cancel_absent:
            self.log(f"{sight.name}: its cancel provably never reached the broker, so it goes on", "cyan")
        elif sight.state == "failed":
            self.log(f"{sight.name}: provably never reached the broker, so it is FAILED", "cyan")
        else:
            self.log(f"{sight.name}: settled by the broker's own report, {sight.state}", "green")

    def _is_settled(self, intent_id: str) -> bool:
        sight = self.sights.get(intent_id)
        if sight is None or sight.is_in_doubt:
            return False
        # A resting order that is not cancelled has also reached its end.
        stays = intent_id in self.resting or sight.is_cancel_absent
        return sight.is_final or (stays and sight.state == "working")

"""The machine of one action, as a table: which state may follow which."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from openbell_server.domain.errors import IllegalTransition


class ActionState(StrEnum):
    """Where an action stands."""

    QUEUED = "QUEUED"
    DISPATCHING = "DISPATCHING"
    SENT = "SENT"
    UNKNOWN = "UNKNOWN"
    ACKED = "ACKED"
    REFUSED = "REFUSED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    ABANDONED = "ABANDONED"


NEXT: Final[dict[ActionState, frozenset[ActionState]]] = {
    # QUEUED → DISPATCHING is the door: committed before anything is written to a broker's socket, never undone.
    ActionState.QUEUED: frozenset({ActionState.DISPATCHING, ActionState.SKIPPED}),
    ActionState.DISPATCHING: frozenset(
        {ActionState.SENT, ActionState.ACKED, ActionState.REFUSED, ActionState.UNKNOWN, ActionState.FAILED}
    ),
    ActionState.SENT: frozenset({ActionState.ACKED, ActionState.REFUSED, ActionState.UNKNOWN}),
    # Only the broker's evidence or an operator ends this state; a timer never does.
    ActionState.UNKNOWN: frozenset({ActionState.ACKED, ActionState.REFUSED, ActionState.FAILED, ActionState.ABANDONED}),
    ActionState.ACKED: frozenset(),
    ActionState.REFUSED: frozenset(),
    ActionState.SKIPPED: frozenset(),
    ActionState.FAILED: frozenset(),
    ActionState.ABANDONED: frozenset(),
}

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

SETTLED: Final = frozenset(state for state, following in NEXT.items() if not following)
# Written to a broker, or about to be, and not settled.
PAST_DOOR: Final = frozenset({ActionState.DISPATCHING, ActionState.SENT, ActionState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an action stands where it stands; code is ours, the rest is the broker's own words."""

    code: str
    broker_code: str | None = None
    broker_text: str | None = None

    def __post_init__(self) -> None:
        """Keep a broker's words storable: whatever is no Unicode text, or is NUL, shows as �."""
        for name, words in (("broker_code", self.broker_code), ("broker_text", self.broker_text)):
            if words is not None:
                object.__setattr__(self, name, _UNSTORABLE.sub("�", words))


def may_become(state: ActionState, following: ActionState) -> bool:
    """Whether the table allows the step."""
    return following in NEXT[state]


def advance(state: ActionState, following: ActionState) -> ActionState:
    """The step, or a loud refusal."""
    if not may_become(state, following):
        raise IllegalTransition(f"an action cannot go from {state} to {following}")
    return following

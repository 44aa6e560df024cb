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


# Which state may follow which, and what makes it.
STEPS: Final[dict[tuple[ActionState, ActionState], str]] = {
    # The door: committed before anything is written to a broker's socket, never undone.
    (ActionState.QUEUED, ActionState.DISPATCHING): "the door",
    (ActionState.QUEUED, ActionState.SKIPPED): "needless, too old, or not allowed any more",
    (ActionState.DISPATCHING, ActionState.SENT): "taken, the answer follows",
    (ActionState.DISPATCHING, ActionState.ACKED): "the broker took it",
    (ActionState.DISPATCHING, ActionState.REFUSED): "the broker refused it",
    (ActionState.DISPATCHING, ActionState.UNKNOWN): "no answer, or one that proves nothing",
    (ActionState.DISPATCHING, ActionState.FAILED): "provably not written",
    (ActionState.SENT, ActionState.ACKED): "the broker took it",
    (ActionState.SENT, ActionState.REFUSED): "the broker refused it",
    (ActionState.SENT, ActionState.UNKNOWN): "the answer did not follow",
    # Only the broker's evidence or an operator ends this state; a timer never does.
    (ActionState.UNKNOWN, ActionState.ACKED): "the broker has it",
    (ActionState.UNKNOWN, ActionState.REFUSED): "the broker refused it",
    (ActionState.UNKNOWN, ActionState.FAILED): "the broker provably does not have it",
    (ActionState.UNKNOWN, ActionState.ABANDONED): "an operator gave it up",
    # We were wrong, or told wrong, and the broker shows it.
    (ActionState.REFUSED, ActionState.ACKED): "the broker shows it after all",
    (ActionState.FAILED, ActionState.ACKED): "the broker shows it after all",
    (ActionState.ABANDONED, ActionState.ACKED): "the broker shows it after all",
}

# Nothing more is done for an action in one of these.
SETTLED: Final = frozenset(
    {
        ActionState.ACKED,
        ActionState.REFUSED,
        ActionState.SKIPPED,
        ActionState.FAILED,
        ActionState.ABANDONED,
    }
)
# Written to a broker, or about to be, and not settled.
PAST_DOOR: Final = frozenset({ActionState.DISPATCHING, ActionState.SENT, ActionState.UNKNOWN})

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


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
    return (state, following) in STEPS


def advance(state: ActionState, following: ActionState) -> ActionState:
    """The step, or a loud refusal."""
    if not may_become(state, following):
        raise IllegalTransition(f"an action cannot go from {state} to {following}")
    return following

"""The state machine of an action as a table."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from openbell_server.domain.errors import IllegalTransition


class ActionState(StrEnum):
    """The state of an action."""

    QUEUED = "QUEUED"
    DISPATCHING = "DISPATCHING"
    SENT = "SENT"
    UNKNOWN = "UNKNOWN"
    ACKED = "ACKED"
    REFUSED = "REFUSED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    ABANDONED = "ABANDONED"


# Allowed steps, each with its cause as the lifecycle page shows it.
STEPS: Final[dict[tuple[ActionState, ActionState], str]] = {
    # The door: committed before anything is written to the broker's socket, never undone.
    (ActionState.QUEUED, ActionState.DISPATCHING): "the executor commits the door",
    (ActionState.QUEUED, ActionState.SKIPPED): "no longer needed, too old, or refused by a check at the door",
    (ActionState.DISPATCHING, ActionState.SENT): "the broker received it and answers later",
    (ActionState.DISPATCHING, ActionState.ACKED): "the broker accepted it",
    (ActionState.DISPATCHING, ActionState.REFUSED): "the broker rejected it",
    (ActionState.DISPATCHING, ActionState.UNKNOWN): "no answer, or an answer that does not show the outcome",
    (ActionState.DISPATCHING, ActionState.FAILED): "proof that it was not sent",
    (ActionState.SENT, ActionState.ACKED): "the broker accepted it",
    (ActionState.SENT, ActionState.REFUSED): "the broker rejected it",
    (ActionState.SENT, ActionState.UNKNOWN): "the later answer did not come",
    # Only evidence from the broker or an operator ends this state; a timer never does.
    (ActionState.UNKNOWN, ActionState.ACKED): "the broker shows that it has it",
    (ActionState.UNKNOWN, ActionState.REFUSED): "the broker rejected it",
    (ActionState.UNKNOWN, ActionState.FAILED): "proof that it never arrived at the broker",
    (ActionState.UNKNOWN, ActionState.ABANDONED): "an operator settled it without knowing the outcome",
    # The action was settled by mistake, and the broker shows the order.
    (ActionState.REFUSED, ActionState.ACKED): "the broker shows later that it has it",
    (ActionState.FAILED, ActionState.ACKED): "the broker shows later that it has it",
    (ActionState.ABANDONED, ActionState.ACKED): "the broker shows later that it has it",
}

# No more work is done for an action in one of these states.
SETTLED: Final = frozenset(
    {
        ActionState.ACKED,
        ActionState.REFUSED,
        ActionState.SKIPPED,
        ActionState.FAILED,
        ActionState.ABANDONED,
    }
)
# Written to the broker, or about to be written, and not settled.
PAST_DOOR: Final = frozenset({ActionState.DISPATCHING, ActionState.SENT, ActionState.UNKNOWN})

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an action is in its state; `code` is Openbell's, the other fields are the broker's.

    NUL and lone surrogates in the broker's texts are replaced by �, because PostgreSQL cannot store them.
    """

    code: str
    broker_code: str | None = None
    broker_text: str | None = None

    def __post_init__(self) -> None:
        for name, text in (("broker_code", self.broker_code), ("broker_text", self.broker_text)):
            if text is not None:
                object.__setattr__(self, name, _UNSTORABLE.sub("�", text))


def may_become(state: ActionState, following: ActionState) -> bool:
    return (state, following) in STEPS


def advance(state: ActionState, following: ActionState) -> ActionState:
    """Raises IllegalTransition if the table does not allow the step."""
    if not may_become(state, following):
        raise IllegalTransition(f"an action cannot go from {state} to {following}")
    return following

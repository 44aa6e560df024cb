"""Named places at which a process can be made to die: no-ops unless armed, so that tests can kill at each of them."""

import os
import signal
from typing import Final

POINTS: Final = frozenset(
    {
        "api.before_accept",
        "api.after_accept",
        "relay.after_claim",
        "relay.after_publish",
        "relay.after_complete",
        "executor.before_door",
        "executor.inside_door",
        "executor.after_door",
        "executor.after_answer",
        "executor.inside_outcome",
        "executor.after_outcome",
        "executor.inside_report",
        "executor.after_report",
        "executor.inside_doubt",
        "executor.after_probe",
        "executor.inside_evidence",
        "executor.inside_resend",
        "executor.after_resend",
        "stream.before_event",
        "stream.after_event",
    }
)

_armed: str | None = None


def arm(name: str) -> None:
    """Die at this point; an empty name arms nothing."""
    global _armed
    if name and name not in POINTS:
        raise ValueError(f"there is no crash point {name}")
    _armed = name or None


def crash_point(name: str) -> None:
    """Die here if armed, as a power cut would have it: no clean-up, no flush."""
    if _armed == name:
        os.kill(os.getpid(), signal.SIGKILL)

"""Named points at which a test can kill the process; without a test they do nothing."""

import os
import signal
from collections.abc import Callable
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
        "executor.before_tick",
        "executor.after_tick",
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


def _end_this_process() -> None:
    # SIGKILL, as a power cut: no clean-up, no flush.
    os.kill(os.getpid(), signal.SIGKILL)


_armed: str | None = None
_die: Callable[[], None] = _end_this_process


def arm(name: str, die: Callable[[], None] = _end_this_process) -> None:
    """Kill the process at this point; an empty name disarms."""
    global _armed, _die
    if name and name not in POINTS:
        raise ValueError(f"there is no crash point {name}")
    _armed, _die = name or None, die


def crash_point(name: str) -> None:
    if _armed == name:
        _die()

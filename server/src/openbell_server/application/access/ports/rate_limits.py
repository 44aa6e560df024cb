"""Counts calls against rate limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Window:
    """At most `limit` calls in any `seconds`."""

    limit: int
    seconds: int


@dataclass(frozen=True, slots=True)
class FullWindow:
    """A window at its limit, and how long until the next call may pass."""

    window: Window
    wait_seconds: float


class CallCounts(Protocol):
    """Counts calls by name; never fails, and answers within a time limit."""

    @property
    def is_shared(self) -> bool:
        """Whether all processes share the counts now."""

    @property
    def counted_alone(self) -> int:
        """Calls counted in this process only because the shared counts were unreachable."""

    async def take(self, name: str, windows: Sequence[Window], owner: str = "") -> FullWindow | None:
        """Count one call; if a window is at its limit, return it: the call is refused.

        The number of names is limited for each owner, so that no owner uses up the names of others.
        """

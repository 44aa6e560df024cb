"""What counts calls against limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Window:
    """At most so many calls in any so many seconds."""

    limit: int
    seconds: int


@dataclass(frozen=True, slots=True)
class FullWindow:
    """A window without room, and how long until the next call may pass."""

    window: Window
    wait_seconds: float


class CallCounts(Protocol):
    """Counts calls by name; it always answers, and within a bound."""

    @property
    def is_shared(self) -> bool:
        """Whether all processes count together now."""

    @property
    def counted_alone(self) -> int:
        """Calls that could not be counted together, although they should have been."""

    async def take(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        """Count one call, or say which window is full; a call that is refused uses up no window's room for long."""

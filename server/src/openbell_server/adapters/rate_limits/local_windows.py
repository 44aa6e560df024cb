"""Counts calls in this process with exact moving windows.

The memory storage of the `limits` library is not used, because it starts threads to expire every name.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from openbell_server.application.access.ports.rate_limits import FullWindow, Window

NAMES_MAX: Final = 10_000
# Longest window: a name that was not used for this long is dropped.
SECONDS_MAX: Final = 60


@dataclass(slots=True)
class LocalWindows:
    """Implements CallCounts for one process."""

    is_shared: ClassVar = False
    counted_alone: ClassVar = 0
    monotonic: Callable[[], float]
    # Times of the calls by name, latest last; the most recently used name is last.
    _passed: dict[str, deque[float]] = field(default_factory=dict)

    async def take(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        """Count one call, or return the full window."""
        full = self.full(name, windows)
        if full is None:
            self.add(name, windows)
        return full

    def full(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        """The full window with the longest wait, if any."""
        passed, now = self._passed.get(name, ()), self.monotonic()
        found = [
            FullWindow(window, wait)
            for window in windows
            if len(passed) >= window.limit and (wait := passed[-window.limit] + window.seconds - now) > 0
        ]
        return max(found, key=lambda full: full.wait_seconds, default=None)

    def add(self, name: str, windows: Sequence[Window]) -> None:
        now = self.monotonic()
        # A window needs at most its limit of past calls.
        passed = self._passed.pop(name, None) or deque(maxlen=max(window.limit for window in windows))
        passed.append(now)
        self._passed[name] = passed
        # Check two old names per call, so that unused names are dropped faster than new ones arrive.
        for oldest in list(islice(self._passed, 2)):
            if len(self._passed) > NAMES_MAX or self._passed[oldest][-1] < now - SECONDS_MAX:
                del self._passed[oldest]

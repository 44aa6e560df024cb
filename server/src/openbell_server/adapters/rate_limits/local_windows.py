"""Counts calls in this process: exact moving windows over the times of the calls that passed.

Not the `limits` library's own memory: it hands every name to a thread, again and again, to forget what is old.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from openbell_server.application.ports.rate_limits import FullWindow, Window

NAMES_MAX: Final = 10_000
# No window may be longer: a name that was not used for this long is forgotten.
SECONDS_MAX: Final = 60


@dataclass(slots=True)
class LocalWindows:
    """Implements CallCounts for one process."""

    is_shared: ClassVar = False
    counted_alone: ClassVar = 0
    monotonic: Callable[[], float]
    # The times at which calls passed, the latest last; the name that was used last is last.
    _passed: dict[str, deque[float]] = field(default_factory=dict)

    async def take(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        """Count one call, or say which window is full."""
        full = self.full(name, windows)
        if full is None:
            self.add(name, windows)
        return full

    def full(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        """The window that will be full for longest, if one is."""
        passed, now = self._passed.get(name, ()), self.monotonic()
        found = [
            FullWindow(window, wait)
            for window in windows
            if len(passed) >= window.limit and (wait := passed[-window.limit] + window.seconds - now) > 0
        ]
        return max(found, key=lambda full: full.wait_seconds, default=None)

    def add(self, name: str, windows: Sequence[Window]) -> None:
        """Count a call that has passed."""
        now = self.monotonic()
        # No window looks further back than to as many calls as it lets pass.
        passed = self._passed.pop(name, None) or deque(maxlen=max(window.limit for window in windows))
        passed.append(now)
        self._passed[name] = passed
        # Two for each one that comes: those out of use go faster than others arrive.
        for oldest in list(islice(self._passed, 2)):
            if len(self._passed) > NAMES_MAX or self._passed[oldest][-1] < now - SECONDS_MAX:
                del self._passed[oldest]

"""Counts calls in this process with exact moving windows.

The memory storage of the `limits` library is not used, because it starts threads to expire every name.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from openbell_server.application.access.ports.rate_limits import FullWindow, Window

# Of one owner; further names are counted together as one, so that made-up names neither replace others nor have limits
# of their own.
NAMES_MAX: Final = 5_000
_OTHERS: Final = "others"
# Longest window: a name that was not used for this long is dropped.
SECONDS_MAX: Final = 60


@dataclass(slots=True)
class LocalWindows:
    """Implements CallCounts for one process."""

    is_shared: ClassVar = False
    counted_alone: ClassVar = 0
    monotonic: Callable[[], float]
    # Times of the calls by owner and name, latest last; the most recently used owner and name are last.
    _passed: dict[str, dict[str, deque[float]]] = field(default_factory=dict)

    async def take(self, name: str, windows: Sequence[Window], owner: str = "") -> FullWindow | None:
        """Count one call, or return the full window."""
        full = self.full(name, windows, owner)
        if full is None:
            self.add(name, windows, owner)
        return full

    def full(self, name: str, windows: Sequence[Window], owner: str = "") -> FullWindow | None:
        """The full window with the longest wait, if any."""
        names, now = self._passed.get(owner, {}), self.monotonic()
        passed = names.get(_counted_as(name, names), ())
        found = [
            FullWindow(window, wait)
            for window in windows
            if len(passed) >= window.limit and (wait := passed[-window.limit] + window.seconds - now) > 0
        ]
        return max(found, key=lambda full: full.wait_seconds, default=None)

    def add(self, name: str, windows: Sequence[Window], owner: str = "") -> None:
        now = self.monotonic()
        names = self._passed[owner] = self._passed.pop(owner, {})
        name = _counted_as(name, names)
        # A window needs at most its limit of past calls.
        passed = names.pop(name, None) or deque(maxlen=max(window.limit for window in windows))
        passed.append(now)
        names[name] = passed
        # Check two old names and owners per call, so that unused ones are dropped faster than new ones arrive.
        for oldest in list(islice(names, 2)):
            if names[oldest][-1] < now - SECONDS_MAX:
                del names[oldest]
        for oldest in list(islice(self._passed, 2)):
            if next(reversed(self._passed[oldest].values()))[-1] < now - SECONDS_MAX:
                del self._passed[oldest]


def _counted_as(name: str, names: Mapping[str, object]) -> str:
    return name if name in names or len(names) < NAMES_MAX else _OTHERS

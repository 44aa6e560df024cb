"""Limit the requests of one organization that are worked on at once; commands are not counted."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final

from openbell_server.domain.access.caps import Cap

# A burst of requests waits this long; those that are not begun by then are refused.
WAIT_SECONDS: Final = 2.0
# Requests of one organization that wait, as a multiple of the cap.
WAITING_FACTOR: Final = 32


class _Places:
    def __init__(self, limit: int) -> None:
        self.free = asyncio.Semaphore(limit)
        # Requests that run or wait.
        self.requests = 0


class ReadsAtOnce:
    """One per process. Who exceeds the cap waits shortly, then is refused."""

    def __init__(self, cap: Cap) -> None:
        self._cap = cap
        self._of: dict[Hashable, _Places] = {}

    async def begin(self, whose: Hashable) -> Callable[[], None]:
        """Begin a request, and return what ends it; raises Problem at the cap."""
        places = self._of.setdefault(whose, _Places(self._cap.limit))
        if places.requests >= self._cap.limit * (1 + WAITING_FACTOR):
            raise self._cap.refusal()
        places.requests += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await places.free.acquire()
        except TimeoutError:
            self._leave(whose, places)
            raise self._cap.refusal() from None
        except BaseException:
            self._leave(whose, places)
            raise

        def end() -> None:
            places.free.release()
            self._leave(whose, places)

        return end

    def _leave(self, whose: Hashable, places: _Places) -> None:
        places.requests -= 1
        if not places.requests:
            del self._of[whose]

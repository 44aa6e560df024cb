"""The streams that are open here: how many a caller has, and who is stuck in sending."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Final

from openbell_server.domain.errors import Problem
from openbell_server.domain.principals import Caller

STREAMS_OF_CALLER_MAX: Final = 20
# Who takes nothing for this long is cut: what is sent meanwhile waits in the log, not here.
STALLED_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0


class OpenStream:
    """One stream; whoever sends on it waits until nobody else does."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Nothing is being sent yet."""
        # The task that sends now.
        self._task: asyncio.Task[object] | None = None
        self._monotonic = monotonic
        self._why: Exception | None = None
        # How many messages were taken, and since when it is so many.
        self._taken = self._seen = 0
        self._seen_at = monotonic()

    async def send(self, write: Callable[[bytes], Awaitable[None]], messages: Iterable[bytes]) -> None:
        """Send one after the other; raises why the stream was cut meanwhile."""
        self._task = task = asyncio.current_task()
        assert task is not None
        self._taken += 1
        try:
            for message in messages:
                await write(message)
                # A thousand followers are sent every event: for each of them a number is cheaper than a clock.
                self._taken += 1
        except asyncio.CancelledError:
            # Not ours where nobody here asked for it: the caller is gone.
            if self._why is None:
                raise
            task.uncancel()
            raise self._why from None
        finally:
            self._task = None

    def cut(self, why: Exception) -> None:
        """End a send that is under way; a stream that sends nothing looks by itself."""
        if self._task is not None and self._why is None:
            self._why = why
            self._task.cancel()

    def cut_if_stalled(self) -> None:
        """End a send of which nothing was taken for too long; to be called now and then."""
        now = self._monotonic()
        if self._task is None or self._taken != self._seen:
            self._seen, self._seen_at = self._taken, now
        elif now - self._seen_at >= STALLED_SECONDS:
            self.cut(Problem("slow_consumer", f"nothing was read for {STALLED_SECONDS:g} s; resume with your token"))


class OpenStreams:
    """One per process."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """None is open yet."""
        self._monotonic = monotonic
        self._streams: set[OpenStream] = set()
        self._of_callers: Counter[Hashable] = Counter()
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many are open."""
        return len(self._streams)

    @contextlib.contextmanager
    def open(self, caller: Caller) -> Iterator[OpenStream]:
        """A stream of the caller; refused where the caller has too many."""
        whose = (caller.kind, caller.provider, caller.id)
        if self._of_callers[whose] >= STREAMS_OF_CALLER_MAX:
            raise Problem("too_many_streams", f"a caller may have {STREAMS_OF_CALLER_MAX} streams open here")
        stream = OpenStream(self._monotonic)
        self._of_callers[whose] += 1
        self._streams.add(stream)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
        try:
            yield stream
        finally:
            self._streams.discard(stream)
            self._of_callers[whose] -= 1
            if not self._of_callers[whose]:
                del self._of_callers[whose]

    async def _look(self) -> None:
        while self._streams:
            for stream in tuple(self._streams):
                stream.cut_if_stalled()
            await asyncio.sleep(LOOK_SECONDS)

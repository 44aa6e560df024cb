"""Count the open streams of each caller, and cut streams whose client stopped reading."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Final

from openbell_server.domain.access.principals import Caller
from openbell_server.domain.errors import CapReached, Problem

STREAMS_OF_CALLER_MAX: Final = 20
# A client that reads nothing for this long is cut; it can resume, because the log keeps the events.
STALLED_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0


def streams_of_caller(limit: int) -> Problem:
    detail = f"a caller may have {limit} streams open in each process; close one, or use another credential"
    return CapReached("too_many_streams", detail, limit)


class OpenStream:
    """One stream, with at most one send at a time."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        # The task that sends now.
        self._task: asyncio.Task[object] | None = None
        self._monotonic = monotonic
        self._why: Exception | None = None
        # Messages that were written, the count at the last check, and since when it is that count.
        self._taken = self._seen = 0
        self._seen_at = monotonic()

    async def send(self, write: Callable[[bytes], Awaitable[None]], messages: Iterable[bytes]) -> None:
        """Send the messages in order; raises the reason if the stream is cut meanwhile."""
        self._task = task = asyncio.current_task()
        assert task is not None
        self._taken += 1
        try:
            for message in messages:
                await write(message)
                # Counting is cheaper than reading the clock, and a thousand followers receive every event.
                self._taken += 1
        except asyncio.CancelledError:
            # Not cut by us: the client disconnected.
            if self._why is None:
                raise
            task.uncancel()
            raise self._why from None
        finally:
            self._task = None

    def cut(self, why: Exception) -> None:
        """End a running send; a stream that is not sending checks its access itself."""
        if self._task is not None and self._why is None:
            self._why = why
            self._task.cancel()

    def cut_if_stalled(self) -> None:
        """End a send without progress for STALLED_SECONDS; called once a second."""
        now = self._monotonic()
        if self._task is None or self._taken != self._seen:
            self._seen, self._seen_at = self._taken, now
        elif now - self._seen_at >= STALLED_SECONDS:
            self.cut(Problem("slow_consumer", f"nothing was read for {STALLED_SECONDS:g} s; resume with your token"))


class OpenStreams:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._streams: set[OpenStream] = set()
        self._of_callers: Counter[Hashable] = Counter()
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    @contextlib.contextmanager
    def open(self, caller: Caller) -> Iterator[OpenStream]:
        """Raises Problem if the caller has STREAMS_OF_CALLER_MAX streams open."""
        whose = (caller.kind, caller.provider, caller.id)
        if self._of_callers[whose] >= STREAMS_OF_CALLER_MAX:
            raise streams_of_caller(STREAMS_OF_CALLER_MAX)
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

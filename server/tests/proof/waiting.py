"""Waits that end: what is not so by then shows in the figures."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from time import monotonic

from support.brokers.paper_broker import until

END_SECONDS = 120
POLL_SECONDS = 0.1


async def until_or_late(condition: Callable[[], bool], seconds: float = END_SECONDS) -> None:
    """Return when it is so, or when time is up."""

    async def is_so() -> bool:
        return condition()

    with contextlib.suppress(TimeoutError):
        await until(is_so, seconds)


async def until_none_left(count: Callable[[], Awaitable[int]], seconds: float = END_SECONDS) -> int:
    """Wait while the number left shrinks; how many are left at the end.

    Gives up after so many seconds in which the number did not fall below its lowest value. How long a backlog takes
    depends on the machine, whether it shrinks does not.
    """
    left = lowest = await count()
    deadline = monotonic() + seconds
    while left and monotonic() < deadline:
        await asyncio.sleep(POLL_SECONDS)
        left = await count()
        if left < lowest:
            lowest, deadline = left, monotonic() + seconds
    return left

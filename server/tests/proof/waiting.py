"""Waits that end: what is not so by then shows in the figures."""

import contextlib
from collections.abc import Callable

from paper_broker import until

END_SECONDS = 120


async def until_or_late(condition: Callable[[], bool], seconds: float = END_SECONDS) -> None:
    """Return when it is so, or when time is up."""

    async def is_so() -> bool:
        return condition()

    with contextlib.suppress(TimeoutError):
        await until(is_so, seconds)

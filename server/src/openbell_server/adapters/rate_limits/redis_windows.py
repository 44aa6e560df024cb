"""Counts calls in Redis for all processes together; while Redis does not answer in time, in this process alone."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter
from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from openbell_server.adapters.rate_limits.local_windows import LocalWindows
from openbell_server.application.ports.rate_limits import FullWindow, Window

ANSWER_SECONDS: Final = 0.05
# For how long Redis is left alone after it failed; then one call tries it, and the others still do without.
AWAY_SECONDS: Final = 1.0
CONNECTIONS_MAX: Final = 16


class RedisWindows:
    """Implements CallCounts for all processes on one Redis.

    What has passed here is counted here too. So a process never lets pass more than a limit by itself, whatever becomes
    of Redis: without it, all together let pass at most the limit times their number.
    """

    def __init__(self, url: str, local: LocalWindows, monotonic: Callable[[], float]) -> None:
        """Nothing is connected before the first call."""
        self._pool = BlockingConnectionPool.from_url(
            url, max_connections=CONNECTIONS_MAX, timeout=ANSWER_SECONDS, retry=Retry(NoBackoff(), 0)
        )
        storage = RedisStorage(
            # The pool has the address; the library's type does not know of pools.
            "async+redis://",
            implementation="redispy",
            key_prefix="openbell",
            connection_pool=self._pool,  # type: ignore[arg-type]
        )
        # The moving window is exact; the cheaper sliding counter guesses how calls were spread.
        self._windows = MovingWindowRateLimiter(storage)
        self._local = local
        self._monotonic = monotonic
        self._away_until: float | None = None
        # Calls that were counted in this process alone, since it started.
        self.counted_alone = 0

    async def take(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        """Count one call, or say which window is full."""
        if full := self._local.full(name, windows):
            # Used up by this process alone: Redis would say no other.
            return full
        now = self._monotonic()
        if self._away_until is not None:
            if now < self._away_until:
                return await self._take_alone(name, windows)
            # This call tries; until it knows, the others do without.
            self._away_until = now + AWAY_SECONDS
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                full = await self._ask(name, windows)
        except Exception as error:  # noqa: BLE001 - whatever becomes of Redis, callers are served
            self._leave(error)
            return await self._take_alone(name, windows)
        self._return()
        if full is None:
            self._local.add(name, windows)
        return full

    async def close(self) -> None:
        """End the connections."""
        await self._pool.disconnect()

    async def _ask(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        # The shortest first: while it is full, nothing is taken from the longer ones.
        for window in windows:
            item = _item(window)
            if not await self._windows.hit(item, name):
                stats = await self._windows.get_window_stats(item, name)
                return FullWindow(window, max(0.0, stats.reset_time - time.time()))
        return None

    async def _take_alone(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        self.counted_alone += 1
        return await self._local.take(name, windows)

    def _leave(self, error: Exception) -> None:
        if self._away_until is None:
            structlog.get_logger().warning(
                "rate_limits_counted_per_process", error=repr(error), counted_alone=self.counted_alone
            )
        self._away_until = self._monotonic() + AWAY_SECONDS

    def _return(self) -> None:
        if self._away_until is not None:
            structlog.get_logger().info("rate_limits_counted_in_redis", counted_alone=self.counted_alone)
            self._away_until = None


def _item(window: Window) -> RateLimitItem:
    return RateLimitItemPerSecond(window.limit, window.seconds)

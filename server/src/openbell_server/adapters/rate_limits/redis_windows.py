"""Counts calls in Redis for all processes together; while Redis does not answer in time, in this process alone."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from limits import RateLimitItemPerSecond
from limits.aio.storage import RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from openbell_server.adapters.rate_limits.local_windows import LocalWindows
from openbell_server.application.ports.rate_limits import FullWindow, Window

ANSWER_SECONDS: Final = 0.05
CONNECT_SECONDS: Final = 1.0
# For how long Redis is left alone after it failed.
AWAY_SECONDS: Final = 1.0
CONNECTIONS: Final = 8


class RedisWindows:
    """Implements CallCounts for all processes on one Redis.

    What has passed here is counted here too. So a process never lets pass more than a limit by itself, whatever becomes
    of Redis: without it, all together let pass at most the limit times their number.
    """

    def __init__(self, url: str, local: LocalWindows, monotonic: Callable[[], float]) -> None:
        """Counts alone until connected; a ValueError if the address cannot be one."""
        self._pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, retry=Retry(NoBackoff(), 0))
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
        # None: it was not tried yet.
        self._is_near: bool | None = None
        self._try_at = monotonic()
        self._trying: asyncio.Task[None] | None = None
        self.counted_alone = 0

    @property
    def is_shared(self) -> bool:
        """Whether Redis counts now."""
        return bool(self._is_near)

    async def connect(self) -> None:
        """Open every connection ahead of need, which may take longer than a call can wait; or try later again."""
        client = Redis(connection_pool=self._pool)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.gather(*(client.ping() for _ in range(CONNECTIONS)))
        except Exception as error:  # noqa: BLE001 - whatever becomes of Redis, callers are served
            self._leave(error)
        else:
            self._is_near = True
            structlog.get_logger().info("rate_limits_counted_in_redis", counted_alone=self.counted_alone)

    async def close(self) -> None:
        """End the connections."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
        await self._pool.disconnect()

    async def take(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        """Count one call, or say which window is full."""
        if full := self._local.full(name, windows):
            # Used up by this process alone: Redis would say no other.
            return full
        if not self._is_near:
            self._try_again()
            return await self._take_alone(name, windows)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                full = await self._ask(name, windows)
        except Exception as error:  # noqa: BLE001 - whatever becomes of Redis, callers are served
            self._leave(error)
            return await self._take_alone(name, windows)
        if full is None:
            self._local.add(name, windows)
        return full

    async def _ask(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        # The shortest first: while it is full, nothing is taken from the longer ones.
        for window in windows:
            item = RateLimitItemPerSecond(window.limit, window.seconds)
            if not await self._windows.hit(item, name):
                stats = await self._windows.get_window_stats(item, name)
                return FullWindow(window, max(0.0, stats.reset_time - time.time()))
        return None

    async def _take_alone(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        self.counted_alone += 1
        return await self._local.take(name, windows)

    def _leave(self, error: Exception) -> None:
        """Do without Redis for a while; said once for each time that it was there."""
        if self._is_near is not False:
            structlog.get_logger().warning(
                "rate_limits_counted_per_process", error=repr(error), counted_alone=self.counted_alone
            )
        self._is_near = False
        self._try_at = self._monotonic() + AWAY_SECONDS

    def _try_again(self) -> None:
        """Aside from the calls, which do not wait for it."""
        is_trying = self._trying is not None and not self._trying.done()
        if not is_trying and self._monotonic() >= self._try_at:
            self._trying = asyncio.ensure_future(self.connect())

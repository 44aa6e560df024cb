"""Counts calls in Redis for all processes; while Redis does not answer in time, in this process alone."""

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
from openbell_server.application.access.ports.rate_limits import FullWindow, Window

ANSWER_SECONDS: Final = 0.05
CONNECT_SECONDS: Final = 1.0
# Pause before Redis is tried again after a failure.
AWAY_SECONDS: Final = 1.0
CONNECTIONS: Final = 8


class RedisWindows:
    """Implements CallCounts for all processes on one Redis.

    Every call is also counted locally, so a process never exceeds a limit alone. Without Redis, all processes together
    allow at most the limit times their number.
    """

    def __init__(self, url: str, local: LocalWindows, monotonic: Callable[[], float]) -> None:
        self._pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, retry=Retry(NoBackoff(), 0))
        storage = RedisStorage(
            # The pool has the address, but the library's types do not know pools.
            "async+redis://",
            implementation="redispy",
            key_prefix="openbell",
            connection_pool=self._pool,  # type: ignore[arg-type]
        )
        # The moving window is exact; the cheaper sliding counter only estimates.
        self._windows = MovingWindowRateLimiter(storage)
        self._local = local
        self._monotonic = monotonic
        # None: not tried yet.
        self._is_near: bool | None = None
        self._try_at = monotonic()
        self._trying: asyncio.Task[None] | None = None
        self.counted_alone = 0

    @property
    def is_shared(self) -> bool:
        return bool(self._is_near)

    async def connect(self) -> None:
        """Open all connections in advance, because a call cannot wait for it; on failure retry later."""
        client = Redis(connection_pool=self._pool)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.gather(*(client.ping() for _ in range(CONNECTIONS)))
        except Exception as error:  # noqa: BLE001 - callers are served without Redis
            self._leave(error)
        else:
            self._is_near = True
            structlog.get_logger().info("rate_limits_counted_in_redis", counted_alone=self.counted_alone)

    async def close(self) -> None:
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
        await self._pool.disconnect()

    async def take(self, name: str, windows: Sequence[Window], owner: str = "") -> FullWindow | None:
        if full := self._local.full(name, windows, owner):
            # This process alone has used the limit, so Redis would refuse too.
            return full
        if not self._is_near:
            self._try_again()
            return await self._take_alone(name, windows, owner)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                full = await self._query(name, windows)
        except Exception as error:  # noqa: BLE001 - callers are served without Redis
            self._leave(error)
            return await self._take_alone(name, windows, owner)
        if full is None:
            self._local.add(name, windows, owner)
        return full

    async def _query(self, name: str, windows: Sequence[Window]) -> FullWindow | None:
        # Shortest first: while it is full, the longer ones are not charged.
        for window in windows:
            item = RateLimitItemPerSecond(window.limit, window.seconds)
            if not await self._windows.hit(item, name):
                stats = await self._windows.get_window_stats(item, name)
                return FullWindow(window, max(0.0, stats.reset_time - time.time()))
        return None

    async def _take_alone(self, name: str, windows: Sequence[Window], owner: str) -> FullWindow | None:
        self.counted_alone += 1
        return await self._local.take(name, windows, owner)

    def _leave(self, error: Exception) -> None:
        """Stop using Redis for AWAY_SECONDS; logs only the first failure."""
        if self._is_near is not False:
            structlog.get_logger().warning(
                "rate_limits_counted_per_process", error=repr(error), counted_alone=self.counted_alone
            )
        self._is_near = False
        self._try_at = self._monotonic() + AWAY_SECONDS

    def _try_again(self) -> None:
        """Reconnect in the background, so that calls do not wait."""
        is_trying = self._trying is not None and not self._trying.done()
        if not is_trying and self._monotonic() >= self._try_at:
            self._trying = asyncio.ensure_future(self.connect())

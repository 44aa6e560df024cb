"""A pool that keeps one connection at hand: to take it and to give it back needs no task, timer or queue.

A pool of the driver starts a task and two timers for each use, which at a low rate costs as much as a short statement.
"""

from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    _Pool = asyncpg.Pool[asyncpg.Record]
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:  # generic in its stubs only
    _Pool = asyncpg.Pool


class KeepingPool(_Pool):
    """Its other connections are for those who come while the first is used.

    Everyone uses it by `acquire_clean`: the pool's own methods do not see the kept connection, and wait for another.
    """

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401 - the driver's options
        defaults: dict[str, Any] = {"init_size": None, "connect": None, "setup": None, "init": None, "loop": None}
        super().__init__(url, **defaults, max_queries=50_000, record_class=asyncpg.Record, **options)
        self._kept: Connection | None = None
        self._is_ending = False
        # Callers that wait for a connection; while there are any, none is kept from them.
        self.waiting = 0

    async def take(self) -> "Connection | None":
        """The kept connection, or None if it is in use or closed."""
        kept, self._kept = self._kept, None
        if kept is not None and _is_closed(kept):
            await self.release(kept)
            return None
        return kept

    def keep(self, connection: "Connection") -> bool:
        """Keep a connection that is in order; False if it must be released."""
        if self._kept is not None or self.waiting or self._is_ending or self.get_max_size() < 2:
            return False
        if _is_closed(connection):
            return False
        self._kept = connection
        return True

    def get_idle_size(self) -> int:
        return super().get_idle_size() + (self._kept is not None)

    async def expire_connections(self) -> None:
        await super().expire_connections()
        await self._release_kept()

    async def close(self) -> None:
        self._is_ending = True
        await self._release_kept()
        await super().close()

    async def _release_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            await self.release(kept)


def _is_closed(connection: "Connection") -> bool:
    # The proxy of a connection that was closed is detached, and raises.
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True

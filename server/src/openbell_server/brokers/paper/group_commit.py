"""Writes what waits at the same time with one statement of the ledger."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import asyncpg

from openbell_server.brokers.paper.ledger import Ledger

if TYPE_CHECKING:
    Writer = asyncpg.Connection[asyncpg.Record]

SET_MAX: Final = 128
# A statement failed because of what it was given, so nothing of the set was written.
_NOT_WRITTEN: Final = (ArithmeticError, LookupError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class GroupCommit(Generic[_Item, _Result]):
    """Items are written in the order in which they arrived, and each caller gets its result after the commit.

    An item that arrives alone is written at once. If a set cannot be written because of one of its items, each item of
    the set is written on its own, so that only the bad one fails.
    """

    def __init__(
        self, ledger: Ledger, write: Callable[["Writer", Sequence[_Item]], Awaitable[Sequence[_Result]]]
    ) -> None:
        self._ledger = ledger
        self._write = write
        self._waiting: deque[tuple[_Item, asyncio.Future[_Result]]] = deque()
        # How many of those that wait must be written on their own.
        self._single = 0
        self._working: asyncio.Task[None] | None = None

    async def __call__(self, item: _Item) -> _Result:
        result: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await result

    async def _work(self) -> None:
        while self._waiting:
            taken: list[tuple[_Item, asyncio.Future[_Result]]] = []
            try:
                async with self._ledger.writing_submits() as connection:
                    # Taken as late as possible: what arrived while another set was written comes along.
                    taken = self._take()
                    results = await self._write(connection, [item for item, _ in taken])
            except BaseException as trouble:
                if isinstance(trouble, _NOT_WRITTEN) and len(taken) > 1:
                    self._waiting.extendleft(reversed(taken))
                    self._single = len(taken)
                    continue
                self._fail(taken or self._take(), trouble)
                if not isinstance(trouble, Exception):
                    raise
            else:
                for (_, waiting), result in zip(taken, results, strict=True):
                    if not waiting.done():
                        waiting.set_result(result)

    def _take(self) -> list[tuple[_Item, "asyncio.Future[_Result]"]]:
        """The items to write next, without those whose callers no longer wait."""
        count = min(len(self._waiting), 1 if self._single else SET_MAX)
        self._single = max(0, self._single - 1)
        taken = [self._waiting.popleft() for _ in range(count)]
        return [(item, waiting) for item, waiting in taken if not waiting.done()]

    @staticmethod
    def _fail(taken: Sequence[tuple[_Item, "asyncio.Future[_Result]"]], trouble: BaseException) -> None:
        for _, waiting in taken:
            if not waiting.done():
                waiting.set_exception(trouble if isinstance(trouble, Exception) else ConnectionError("stopped"))

"""An account's working orders and what it holds, kept current by its events."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from types import TracebackType
from typing import Final, Self, TypeVar

from msgspec import structs

from openbell.event_records import BrokerOrder, Event, ExternalOrder, IntentAction
from openbell.subscriptions import Subscription

WAIT_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0

Kept = TypeVar("Kept")


class Book:
    """What events add up to; give it every event of a subscription that was primed, in order."""

    def __init__(self) -> None:
        # By intent, by the broker's id, and by symbol: what is open or held, and nothing else.
        self.orders: dict[str, BrokerOrder] = {}
        self.external_orders: dict[str, ExternalOrder] = {}
        self.positions: dict[str, Decimal] = {}
        # The number of the last event it knows, and the token to go on after it.
        self.account_seq = 0
        self.resume_token = ""
        self.is_primed = False

    def apply(self, event: Event) -> None:
        """Take over what an event tells."""
        self.account_seq = event.account_seq
        self.resume_token = event.resume_token or self.resume_token
        if event.primed is not None:
            self.is_primed = True
        elif event.broker_order is not None:
            order = event.broker_order
            _keep(self.orders, order.intent_id, None if order.is_final else order)
        elif event.intent_action is not None:
            self._await(event.intent_action)
        elif event.external_order is not None:
            theirs = event.external_order
            _keep(self.external_orders, theirs.broker_order_id, None if theirs.is_final else theirs)
        elif event.broker_position is not None:
            self._hold(event.broker_position.symbol, event.broker_position.quantity)
        elif event.broker_trade is not None:
            self._hold(event.broker_trade.symbol, event.broker_trade.position)
        elif event.position_adjusted is not None:
            self._hold(event.position_adjusted.symbol, event.position_adjusted.after)

    def _await(self, action: IntentAction) -> None:
        """An order waits for a command from the moment it is recorded; a cancel outranks a replace."""
        order = self.orders.get(action.intent_id)
        if order is None or action.state != "QUEUED" or action.action_type == "CREATE":
            return
        if order.pending == "NONE" or (order.pending == "REPLACE" and action.action_type == "CANCEL"):
            pending = action.action_type
            self.orders[action.intent_id] = structs.replace(order, pending=pending, status=f"PENDING_{pending}")

    def _hold(self, symbol: str, quantity: Decimal) -> None:
        _keep(self.positions, symbol, quantity or None)


class _Kept:
    """What both mirrors show of their book; a stream that ended is no mirror any more, and says why."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._book = Book()
        self._error: BaseException | None = None

    @property
    def orders(self) -> dict[str, BrokerOrder]:
        """The open orders, by intent."""
        return dict(self._current.orders)

    @property
    def external_orders(self) -> dict[str, ExternalOrder]:
        """The open orders that nobody asked for here, by the broker's id."""
        return dict(self._current.external_orders)

    @property
    def positions(self) -> dict[str, Decimal]:
        """What is held, by symbol; less than nothing where it is short."""
        return dict(self._current.positions)

    @property
    def account_seq(self) -> int:
        """The number of the last event it knows."""
        return self._current.account_seq

    @property
    def _current(self) -> Book:
        if self._error is not None:
            raise self._error
        return self._book

    def _stands(self, told: Callable[[Book], bool]) -> bool:
        return self._error is not None or told(self._book)

    def _end(self, error: BaseException) -> None:
        self._error = None if self._subscription.is_closed else error


class Mirror(_Kept):
    """A book that a thread of its own keeps current; a context manager, primed once it is entered."""

    def __init__(self, events: Iterator[Event], subscription: Subscription) -> None:
        super().__init__(subscription)
        self._events = events
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="openbell-mirror", daemon=True)

    def __enter__(self) -> Self:
        """Return once what stands is known."""
        self._thread.start()
        try:
            self.wait(lambda book: book.is_primed)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop following."""
        self.close()

    def wait(self, told: Callable[[Book], bool], timeout: float = WAIT_SECONDS) -> None:
        """Return once the book is as told; raises what ended the stream, or TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._stands(told), timeout):
                raise TimeoutError(f"the account did not come to that within {timeout:g} seconds")
        assert self._current is self._book

    def close(self) -> None:
        """Stop following."""
        self._subscription.close()
        self._thread.join(_CLOSE_SECONDS)

    def _follow(self) -> None:
        try:
            for event in self._events:
                with self._changed:
                    self._book.apply(event)
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - whoever looks next is told
            with self._changed:
                self._end(error)
                self._changed.notify_all()


class AsyncMirror(_Kept):
    """A book that a task of its own keeps current; a context manager, primed once it is entered."""

    def __init__(self, events: AsyncIterator[Event], subscription: Subscription) -> None:
        super().__init__(subscription)
        self._events = events
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Return once what stands is known."""
        self._task = asyncio.create_task(self._follow())
        try:
            await self.wait(lambda book: book.is_primed)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop following."""
        await self.close()

    async def wait(self, told: Callable[[Book], bool], timeout: float = WAIT_SECONDS) -> None:
        """Return once the book is as told; raises what ended the stream, or TimeoutError."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: self._stands(told))
        assert self._current is self._book

    async def close(self) -> None:
        """Stop following."""
        self._subscription.is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            async for event in self._events:
                async with self._changed:
                    self._book.apply(event)
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - whoever looks next is told
            async with self._changed:
                self._end(error)
                self._changed.notify_all()


def _keep(kept: dict[str, Kept], name: str, value: Kept | None) -> None:
    if value is None:
        kept.pop(name, None)
    else:
        kept[name] = value

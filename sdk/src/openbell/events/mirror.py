"""An account's open orders and positions, updated by its events."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from decimal import Decimal
from types import TracebackType
from typing import Final, Self, TypeVar

from msgspec import structs

from openbell.events.records import BrokerOrder, Event, ExternalOrder, IntentAction
from openbell.events.subscriptions import Subscription

WAIT_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0

Value = TypeVar("Value")


class Book:
    """The state after a sequence of events; apply every event of a primed subscription, in order."""

    def __init__(self) -> None:
        # Open orders by intent, external orders by the broker's id, positions by symbol. Nothing final, nothing zero.
        self.orders: dict[str, BrokerOrder] = {}
        self.external_orders: dict[str, ExternalOrder] = {}
        self.positions: dict[str, Decimal] = {}
        # The number of the last event, and the token to continue after it.
        self.account_seq = 0
        self.resume_token = ""
        self.is_primed = False

    def apply(self, event: Event) -> None:
        self.account_seq = event.account_seq
        self.resume_token = event.resume_token or self.resume_token
        if event.primed is not None:
            self.is_primed = True
        elif event.broker_order is not None:
            order = event.broker_order
            _set(self.orders, order.intent_id, None if order.is_final else order)
        elif event.intent_action is not None:
            self._mark_pending(event.intent_action)
        elif event.external_order is not None:
            theirs = event.external_order
            _set(self.external_orders, theirs.broker_order_id, None if theirs.is_final else theirs)
        elif event.broker_position is not None:
            self._hold(event.broker_position.symbol, event.broker_position.quantity)
        elif event.broker_trade is not None:
            self._hold(event.broker_trade.symbol, event.broker_trade.position)
        elif event.position_adjusted is not None:
            self._hold(event.position_adjusted.symbol, event.position_adjusted.after)

    def _mark_pending(self, action: IntentAction) -> None:
        """Mark the order as pending when its command is recorded; a cancel has precedence over a replace."""
        order = self.orders.get(action.intent_id)
        if order is None or action.status != "QUEUED" or action.action_type == "CREATE":
            return
        if order.pending == "NONE" or (order.pending == "REPLACE" and action.action_type == "CANCEL"):
            pending = action.action_type
            self.orders[action.intent_id] = structs.replace(order, pending=pending, status=f"PENDING_{pending}")

    def _hold(self, symbol: str, quantity: Decimal) -> None:
        _set(self.positions, symbol, quantity or None)


class _MirrorView:
    """What both mirrors show of their book. After the stream has ended, reading raises the error that ended it."""

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
        """The open orders that were not submitted through Openbell, by the broker's id."""
        return dict(self._current.external_orders)

    @property
    def positions(self) -> dict[str, Decimal]:
        """The positions, by symbol; negative if short."""
        return dict(self._current.positions)

    @property
    def account_seq(self) -> int:
        """The number of the last event."""
        return self._current.account_seq

    @property
    def _current(self) -> Book:
        if self._error is not None:
            raise self._error
        return self._book

    def _is_met(self, condition: Callable[[Book], bool]) -> bool:
        return self._error is not None or condition(self._book)

    def _end(self, error: BaseException) -> None:
        self._error = None if self._subscription.is_closed else error


class Mirror(_MirrorView):
    """A book that a thread updates. A context manager: entering it waits for the current state."""

    def __init__(self, events: Generator[Event | None], subscription: Subscription) -> None:
        super().__init__(subscription)
        self._events = events
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="openbell-mirror", daemon=True)

    def __enter__(self) -> Self:
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
        self.close()

    def wait(self, condition: Callable[[Book], bool], timeout: float = WAIT_SECONDS) -> None:
        """Wait until `condition` returns true; raises TimeoutError after `timeout` seconds, or the stream's error."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_met(condition), timeout):
                raise TimeoutError(f"the condition was not true within {timeout:g} seconds")
        assert self._current is self._book

    def close(self) -> None:
        """Stop following."""
        self._subscription.close()
        self._thread.join(_CLOSE_SECONDS)

    def _follow(self) -> None:
        try:
            for event in self._events:
                if event is not None:
                    with self._changed:
                        self._book.apply(event)
                        self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised to the next reader
            with self._changed:
                self._end(error)
                self._changed.notify_all()


class AsyncMirror(_MirrorView):
    """A book that a task updates. A context manager: entering it waits for the current state."""

    def __init__(self, events: AsyncGenerator[Event | None], subscription: Subscription) -> None:
        super().__init__(subscription)
        self._events = events
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
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
        await self.close()

    async def wait(self, condition: Callable[[Book], bool], timeout: float = WAIT_SECONDS) -> None:
        """Wait until `condition` returns true; raises TimeoutError after `timeout` seconds, or the stream's error."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: self._is_met(condition))
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
                if event is not None:
                    async with self._changed:
                        self._book.apply(event)
                        self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - raised to the next reader
            async with self._changed:
                self._end(error)
                self._changed.notify_all()


def _set(values: dict[str, Value], name: str, value: Value | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value

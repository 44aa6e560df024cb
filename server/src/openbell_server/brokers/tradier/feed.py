"""One account's feed, made by asking for the day's orders again and again: what is other than before is told.

Tradier has a stream as well. It is called a beta, lets a user have one session at a time, whoever else wants one, and
tells nothing of the time when it was away; while its documentation calls polling reasonable within its limits.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import httpx
import structlog
from structlog.typing import FilteringBoundLogger

from openbell_server.application.ports.broker import FeedItem, SlowDown
from openbell_server.brokers.http_client import ListBrokenOff, said
from openbell_server.brokers.tradier.account import TradierAccount
from openbell_server.brokers.tradier.wire import TradierOrder

# A token has 60 questions a minute on paper and 120 live: this uses a third of the 60, and two thirds where a day has
# more orders than a page. After commands it is asked sooner, and never more often than this.
POLL_SECONDS: Final = 3.0
HURRY_SECONDS: Final = 0.5
AGAIN_SECONDS_MIN: Final = 0.25
AGAIN_SECONDS_MAX: Final = 15.0
# Limits are counted by the minute.
CALM_SECONDS_MAX: Final = 60.0
_NOT_TOLD: Final = (httpx.HTTPError, TimeoutError, SlowDown, ListBrokenOff)


@dataclass(slots=True)
class AccountFeed:
    """It begins anew by itself, when it could not ask, until it is cancelled."""

    account: TradierAccount
    # Waits while whoever listens is behind.
    tell: Callable[[FeedItem], Awaitable[None]]
    is_connected: bool = False
    is_heard: bool = False
    _asked: asyncio.Event = field(default_factory=asyncio.Event)
    _log: FilteringBoundLogger = field(default_factory=structlog.get_logger)

    def hurry(self) -> None:
        """Ask soon: something was done."""
        self._asked.set()

    async def run(self) -> None:
        """Ask for as long as somebody listens."""
        pause = AGAIN_SECONDS_MIN
        while True:
            calm = 0.0
            try:
                known = await self.account.orders_now()
                self.is_connected = True
                await self.tell((self.account.account_id, None))
                pause = AGAIN_SECONDS_MIN
                while True:
                    await self._pause()
                    known = await self._news(known)
            except _NOT_TOLD as trouble:
                calm = trouble.retry_after if isinstance(trouble, SlowDown) else 0.0
                account_id = str(self.account.account_id)
                self._log.warning("broker_feed_broken", broker="tradier", account_id=account_id, why=said(trouble))
            finally:
                self.is_connected = self.is_heard = False
            await asyncio.sleep(max(pause, min(calm, CALM_SECONDS_MAX)))
            pause = min(pause * 2, AGAIN_SECONDS_MAX)

    async def _pause(self) -> None:
        await asyncio.sleep(HURRY_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS - HURRY_SECONDS):
                await self._asked.wait()
        self._asked.clear()

    async def _news(self, known: dict[int, TradierOrder]) -> dict[int, TradierOrder]:
        """Tell what is other than it was; an order that left the list before it had ended is asked for by itself."""
        orders = await self.account.orders_now()
        for order_id, order in known.items():
            if order_id not in orders and not order.has_ended:
                orders[order_id] = await self.account.order(str(order_id))
        for order_id, order in orders.items():
            if order != known.get(order_id):
                await self.tell((self.account.account_id, order.report()))
        return orders

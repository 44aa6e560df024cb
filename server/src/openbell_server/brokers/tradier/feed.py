"""One account's feed: polls the list of today's orders and publishes what changed.

Tradier also has a stream, but it is a beta, allows one session per user at a time, and does not replay what happened
while it was disconnected. Tradier's documentation calls polling reasonable within its limits.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from openbell_server.application.ports.broker import LOOK_UP_ERRORS, FeedItem, SlowDown
from openbell_server.brokers.http_client import describe_error
from openbell_server.brokers.tradier.account import TradierAccount
from openbell_server.brokers.tradier.wire import TradierOrder

# A token has 60 queries a minute for paper and 120 for live: this uses a third of the 60, or two thirds if a day has
# more orders than one page. After a command it polls sooner, but never more often than HURRY_SECONDS.
POLL_SECONDS: Final = 3.0
HURRY_SECONDS: Final = 0.5
AGAIN_SECONDS_MIN: Final = 0.25
AGAIN_SECONDS_MAX: Final = 15.0
# The rate limit counts per minute.
RATE_LIMIT_SECONDS_MAX: Final = 60.0


@dataclass(slots=True)
class AccountFeed:
    """Polls until it is cancelled; a failed query restarts the feed."""

    account: TradierAccount
    # Waits while the reader is behind.
    publish: Callable[[FeedItem], Awaitable[None]]
    is_connected: bool = False
    is_announced: bool = False
    _poll_now: asyncio.Event = field(default_factory=asyncio.Event)
    _log: FilteringBoundLogger = field(default_factory=structlog.get_logger)

    def poll_soon(self) -> None:
        """Poll soon, because a command was sent."""
        self._poll_now.set()

    async def run(self) -> None:
        pause = AGAIN_SECONDS_MIN
        while True:
            wait = 0.0
            try:
                known = await self.account.orders_now()
                self.is_connected = True
                await self.publish((self.account.account_id, None))
                pause = AGAIN_SECONDS_MIN
                while True:
                    await self._pause()
                    known = await self._news(known)
            except LOOK_UP_ERRORS as trouble:
                wait = trouble.retry_after if isinstance(trouble, SlowDown) else 0.0
                account_id = str(self.account.account_id)
                self._log.warning(
                    "broker_feed_broken", broker="tradier", account_id=account_id, why=describe_error(trouble)
                )
            finally:
                self.is_connected = self.is_announced = False
            await asyncio.sleep(max(pause, min(wait, RATE_LIMIT_SECONDS_MAX)))
            pause = min(pause * 2, AGAIN_SECONDS_MAX)

    async def _pause(self) -> None:
        await asyncio.sleep(HURRY_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS - HURRY_SECONDS):
                await self._poll_now.wait()
        self._poll_now.clear()

    async def _news(self, known: dict[int, TradierOrder]) -> dict[int, TradierOrder]:
        """Publish what changed; an order that left the list before it had ended is queried by its id."""
        orders = await self.account.orders_now()
        for order_id, order in known.items():
            if order_id not in orders and not order.has_ended:
                orders[order_id] = await self.account.order(str(order_id))
        for order_id, order in orders.items():
            if order != known.get(order_id):
                await self.publish((self.account.account_id, order.report()))
        return orders

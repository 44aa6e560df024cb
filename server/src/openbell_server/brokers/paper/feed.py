"""The paper broker's feed: streams the updates of one profile."""

import asyncio
from collections.abc import Awaitable
from typing import Final

import msgspec

from openbell_server.brokers.paper.exchange import Exchange
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.plans import Plans
from openbell_server.brokers.paper.wire import FeedLine

HEARTBEAT_SECONDS: Final = 5
# All accounts share the feed, so one account cannot cut it more often than this.
RESET_SECONDS: Final = 10


class Feeds:
    """All open feeds; they end when closing is set."""

    def __init__(self, ledger: Ledger, plans: Plans, closing: asyncio.Event) -> None:
        self._ledger = ledger
        self._plans = plans
        self._closing = closing
        self._resets: dict[str, asyncio.Event] = {}
        self._reset_at = float("-inf")

    def reset(self, profile: str) -> None:
        """Cut the feeds of a profile, at most once in RESET_SECONDS."""
        now = asyncio.get_running_loop().time()
        if now - self._reset_at >= RESET_SECONDS:
            self._reset_at = now
            self._resets.pop(profile, asyncio.Event()).set()

    async def serve(self, exchange: Exchange) -> None:
        """Stream updates from now on, or after a given number, until the client leaves."""
        profile = exchange.profile.name
        reset = self._resets.setdefault(profile, asyncio.Event())
        position = await self._ledger.last_update()
        after = exchange.whole_number("after")
        await exchange.begin(200, b"application/x-ndjson")
        await exchange.write(_line(FeedLine(connected=position)), more=True)
        position = position if after is None else after
        gone = asyncio.ensure_future(exchange.gone())
        clock = asyncio.get_running_loop().time
        written_at = clock()
        try:
            while not gone.done() and not self._closing.is_set() and not reset.is_set():
                committed = self._ledger.next_commit()
                # A commit may contain no update for this profile, so silence is measured by time.
                silent = clock() - written_at >= HEARTBEAT_SECONDS
                # Skip other profiles' updates now and then, so that a quiet profile never has many to read.
                newest = await self._ledger.last_update() if silent else position
                lines = await self._ledger.updates_after(position, profile)
                position = (lines[-1].number or position) if lines else max(position, newest)
                output = self._plans.distort(lines)
                if output or silent:
                    await exchange.write(b"".join(map(_line, output)) or _line(FeedLine()), more=True)
                    written_at = clock()
                elif not lines:
                    left = max(0.0, written_at + HEARTBEAT_SECONDS - clock())
                    waits = (asyncio.shield(gone), committed.wait(), self._closing.wait(), reset.wait())
                    await first_of(*waits, timeout=left)
            if reset.is_set():
                exchange.abort()
            else:
                await exchange.write(b"", more=False)
        finally:
            gone.cancel()


async def first_of(*waits: Awaitable[object], timeout: float) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _line(line: FeedLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"

"""The paper broker's feed: what happened to the orders of one profile, as it happens."""

import asyncio
from collections.abc import Awaitable
from typing import Final

import msgspec

from openbell_server.brokers.paper.exchange import Exchange
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.plans import Plans
from openbell_server.brokers.paper.wire import FeedLine

HEARTBEAT_SECONDS: Final = 5
# The feed is everybody's: however often one account asks for it, all of it is cut no more often than this.
RESET_SECONDS: Final = 10


class Feeds:
    """Every feed that is open."""

    def __init__(self, ledger: Ledger, plans: Plans, closing: asyncio.Event) -> None:
        """They end when closing is set."""
        self._ledger = ledger
        self._plans = plans
        self._closing = closing
        self._resets: dict[str, asyncio.Event] = {}
        self._reset_at = float("-inf")

    def reset(self, profile: str) -> None:
        """Cut the feeds of a profile, unless feeds were cut a moment ago."""
        now = asyncio.get_running_loop().time()
        if now - self._reset_at >= RESET_SECONDS:
            self._reset_at = now
            self._resets.pop(profile, asyncio.Event()).set()

    async def serve(self, exchange: Exchange) -> None:
        """Tell what happens from now on, or from an update on, until the client leaves."""
        profile = exchange.profile.name
        reset = self._resets.setdefault(profile, asyncio.Event())
        told = await self._ledger.last_update()
        after = exchange.whole_number("after")
        await exchange.begin(200, b"application/x-ndjson")
        await exchange.write(_line(FeedLine(connected=told)), more=True)
        told = told if after is None else after
        gone = asyncio.ensure_future(exchange.gone())
        clock = asyncio.get_running_loop().time
        spoke = clock()
        try:
            while not gone.done() and not self._closing.is_set() and not reset.is_set():
                committed = self._ledger.next_commit()
                # A commit need not bring an update, so silence is measured, not counted in waits.
                silent = clock() - spoke >= HEARTBEAT_SECONDS
                # What others are told of is passed over now and then, so that a quiet profile never has much to read.
                newest = await self._ledger.last_update() if silent else told
                lines = await self._ledger.updates_after(told, profile)
                told = (lines[-1].number or told) if lines else max(told, newest)
                retold = self._plans.retold(lines)
                if retold or silent:
                    await exchange.write(b"".join(map(_line, retold)) or _line(FeedLine()), more=True)
                    spoke = clock()
                elif not lines:
                    left = max(0.0, spoke + HEARTBEAT_SECONDS - clock())
                    waits = (asyncio.shield(gone), committed.wait(), self._closing.wait(), reset.wait())
                    await first_of(*waits, timeout=left)
            if reset.is_set():
                exchange.abort()
            else:
                await exchange.write(b"", more=False)
        finally:
            gone.cancel()


async def first_of(*waits: Awaitable[object], timeout: float) -> None:
    """Wait for any of these, or until the time is up."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _line(line: FeedLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"

"""The paper broker's feed: streams the updates of one profile."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from openbell_server.brokers.paper.exchange import Exchange
from openbell_server.brokers.paper.ledger import PAGE, Ledger
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
        self._page: _Page | None = None
        self._reading = asyncio.Lock()

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
        ends = [asyncio.ensure_future(end) for end in (exchange.gone(), self._closing.wait(), reset.wait())]
        clock = asyncio.get_running_loop().time
        written_at = clock()
        try:
            while not any(end.done() for end in ends):
                page = await self._read(position)
                position = page.lines[-1][1].number or position if page.lines else position
                output = self._plans.distort([line for of_profile, line in page.lines if of_profile == profile])
                # A commit may contain no update for this profile, so silence is measured by time.
                if output or clock() - written_at >= HEARTBEAT_SECONDS:
                    await exchange.write(b"".join(map(_line, output)) or _line(FeedLine()), more=True)
                    written_at = clock()
                committed = asyncio.ensure_future(page.committed.wait())
                left = max(0.0, written_at + HEARTBEAT_SECONDS - clock()) if len(page.lines) < PAGE else 0.0
                await asyncio.wait([*ends, committed], timeout=left, return_when=asyncio.FIRST_COMPLETED)
                committed.cancel()
            if reset.is_set():
                exchange.abort()
            else:
                await exchange.write(b"", more=False)
        finally:
            for end in ends:
                end.cancel()

    async def _read(self, position: int) -> "_Page":
        """The updates after this number; feeds that are at the same number share one query."""
        async with self._reading:
            page = self._page
            if page is None or page.after != position or (not page.lines and page.committed.is_set()):
                # The event before the lines, so that no commit is missed.
                committed = self._ledger.next_commit()
                page = self._page = _Page(position, committed, await self._ledger.updates_after(position))
            return page


@dataclass(frozen=True, slots=True)
class _Page:
    """Updates with their profiles; the event is set at the next commit."""

    after: int
    committed: asyncio.Event
    lines: Sequence[tuple[str, FeedLine]]


def _line(line: FeedLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"

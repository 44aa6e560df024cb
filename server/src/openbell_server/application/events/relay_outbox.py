"""Claim rows of the outbox, publish them durably and in order, and complete them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from openbell_server.application.crash_points import crash_point
from openbell_server.domain.events.outbox import (
    CLAIM_ROWS_MAX,
    HOLD_SECONDS,
    ClaimedRow,
    backoff_seconds,
    confirmed_in_order,
)

FINISH_SECONDS: Final = 2.0
TAKEN_UP_ROWS_MAX: Final = 1024


class OutboxStore(Protocol):
    """One queue of the outbox."""

    async def claim_across_organizations(self, limit: int) -> list[ClaimedRow]:
        """Claim the oldest rows for 5 s."""

    async def complete_taken_up_across_organizations(self, limit: int) -> int:
        """Complete waiting rows, looking at the oldest, whose work has begun without them; returns how many."""

    async def complete_across_organizations(self, rows: Sequence[ClaimedRow]) -> int:
        """Complete the rows whose claim is still valid; returns how many."""

    async def release_across_organizations(
        self, rows: Sequence[ClaimedRow], wait_seconds: Sequence[float | None]
    ) -> list[int]:
        """Release rows for a later attempt; a row without a wait counts no attempt. Returns the rows that failed."""


@dataclass(frozen=True, slots=True)
class Published:
    """Row ids by result; a row in neither set was not tried, because an earlier one failed."""

    confirmed: frozenset[int]
    missed: frozenset[int]


class Publisher(Protocol):
    async def is_ready(self) -> bool:
        """Whether the bus is reachable; after a publish without an answer, only once the bus answers again."""

    async def publish(self, rows: Sequence[ClaimedRow], is_late: Callable[[], bool]) -> Published:
        """Publish the rows, those of one account or user in order; starts nothing once is_late() is true."""


# Work for each row before it is completed; it must be short and idempotent.
Finish = Callable[[Sequence[ClaimedRow]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RelayBatch:
    """The counts of one round; failed rows are included in released."""

    claimed: int
    completed: int
    released: int
    failed: tuple[int, ...] = ()
    # Completed without being claimed, because an executor had taken up the action.
    taken_up: int = 0

    @property
    def is_more(self) -> bool:
        """Whether more rows may be due now: beyond the limit of a claim, or behind rows that wait for a retry."""
        return self.claimed >= CLAIM_ROWS_MAX or self.completed < self.claimed or self.taken_up >= TAKEN_UP_ROWS_MAX

    def __add__(self, other: "RelayBatch") -> "RelayBatch":
        return RelayBatch(
            self.claimed + other.claimed,
            self.completed + other.completed,
            self.released + other.released,
            self.failed + other.failed,
            self.taken_up + other.taken_up,
        )


@dataclass(frozen=True, slots=True)
class RelayOutbox:
    """Publishes outbox rows; everything done under a claim is short and idempotent.

    A relay that was paused for too long drops its claimed rows, because another relay may have claimed them since.
    """

    store: OutboxStore
    publisher: Publisher
    jitter: Callable[[], float]
    monotonic: Callable[[], float]
    finish: Finish | None = None

    async def __call__(self) -> RelayBatch:
        """Run one round; nothing is claimed while the bus is unreachable, so that an outage uses up no attempts."""
        taken_up = await self.store.complete_taken_up_across_organizations(TAKEN_UP_ROWS_MAX)
        return replace(await self._publish(), taken_up=taken_up)

    async def _publish(self) -> RelayBatch:
        if not await self.publisher.is_ready():
            return RelayBatch(0, 0, 0)
        claimed_after = self.monotonic()

        def is_late() -> bool:
            return self.monotonic() - claimed_after >= HOLD_SECONDS

        rows = await self.store.claim_across_organizations(CLAIM_ROWS_MAX)
        if not rows:
            return RelayBatch(0, 0, 0)
        crash_point("relay.after_claim")
        if is_late():
            return RelayBatch(len(rows), 0, 0)
        published = await self.publisher.publish(rows, is_late)
        crash_point("relay.after_publish")
        confirmed = await self._finished([row for row in rows if row.outbox_id in published.confirmed])
        if is_late():
            return RelayBatch(len(rows), 0, 0)
        done = confirmed_in_order(rows, confirmed)
        completed = await self.store.complete_across_organizations(done) if done else 0
        crash_point("relay.after_complete")
        resolved = {row.outbox_id for row in done}
        left = [row for row in rows if row.outbox_id not in resolved]
        tried = published.missed | (published.confirmed - confirmed)
        failed = await self._release(left, tried) if left else []
        return RelayBatch(len(rows), completed, len(left), tuple(failed))

    async def together(self, rounds: int) -> RelayBatch:
        """Run rounds concurrently: one claims while another publishes. No two rounds hold rows of the same owner."""
        batches = await asyncio.gather(*(self() for _ in range(rounds)), return_exceptions=True)
        done = RelayBatch(0, 0, 0)
        for batch in batches:
            if isinstance(batch, BaseException):
                raise batch
            done += batch
        return done

    async def _finished(self, rows: Sequence[ClaimedRow]) -> frozenset[int]:
        """Run `finish` on all rows together, and if that fails on each row alone; returns the rows that succeeded."""
        if self.finish is None or not rows:
            return frozenset(row.outbox_id for row in rows)
        finished: set[int] = set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                for some in (rows, *([row] for row in rows)):
                    # An error of one row must not stop the others; `finish` logs it.
                    with contextlib.suppress(Exception):
                        if len(finished) < len(rows):
                            await self.finish(some)
                            finished.update(row.outbox_id for row in some)
        return frozenset(finished)

    async def _release(self, rows: Sequence[ClaimedRow], tried: frozenset[int]) -> list[int]:
        waits = [backoff_seconds(row.attempts) * self.jitter() if row.outbox_id in tried else None for row in rows]
        return await self.store.release_across_organizations(rows, waits)

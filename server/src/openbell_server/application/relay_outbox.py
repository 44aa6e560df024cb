"""Claim the rows of a queue, tell of them durably and in order, and resolve them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from openbell_server.application.crash_points import crash_point
from openbell_server.domain.outbox import (
    CLAIM_ROWS_MAX,
    HOLD_SECONDS,
    ClaimedRow,
    backoff_seconds,
    confirmed_in_order,
)

FINISH_SECONDS: Final = 2.0


class OutboxStore(Protocol):
    """A queue, as the relay needs it."""

    async def claim_across_organizations(self, limit: int) -> list[ClaimedRow]:
        """Take rows into our hands for five seconds, the oldest first."""

    async def complete_across_organizations(self, rows: Sequence[ClaimedRow]) -> int:
        """Resolve rows we still hold; how many that were."""

    async def release_across_organizations(
        self, rows: Sequence[ClaimedRow], wait_seconds: Sequence[float | None]
    ) -> list[int]:
        """Give rows back for a later try, those without a wait as if never claimed; which of them are failed now."""


@dataclass(frozen=True, slots=True)
class Told:
    """What became of telling, by row; one that is in neither was not tried, because one before it failed."""

    confirmed: frozenset[int]
    missed: frozenset[int]


class Teller(Protocol):
    """How the rows of a queue are told of."""

    async def is_ready(self) -> bool:
        """Whether telling has a chance now; after one that got no answer, only once somebody answers again."""

    async def tell(self, rows: Sequence[ClaimedRow], is_late: Callable[[], bool]) -> Told:
        """Tell of the rows, those of one account or user in order, beginning nothing once it is late."""


# What is to be done for each row before it is completed: short, and harmless to repeat.
Finish = Callable[[Sequence[ClaimedRow]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RelayBatch:
    """What one round did; failed rows are among the released."""

    claimed: int
    completed: int
    released: int
    failed: tuple[int, ...] = ()

    @property
    def is_more(self) -> bool:
        """Whether more may be due at once: beyond what it could take, or behind rows that now wait their time."""
        return self.claimed >= CLAIM_ROWS_MAX or self.completed < self.claimed

    def __add__(self, other: "RelayBatch") -> "RelayBatch":
        """Both."""
        return RelayBatch(
            self.claimed + other.claimed,
            self.completed + other.completed,
            self.released + other.released,
            self.failed + other.failed,
        )


@dataclass(frozen=True, slots=True)
class RelayOutbox:
    """The relay's one job; under a claim it does only what is short and harmless to repeat.

    A relay that was paused drops what it claimed: by then another has the rows, or will take them.
    """

    store: OutboxStore
    teller: Teller
    jitter: Callable[[], float]
    monotonic: Callable[[], float]
    finish: Finish | None = None

    async def __call__(self) -> RelayBatch:
        """One round; nothing is claimed while the teller is away, so that no row uses up its tries on an outage."""
        if not await self.teller.is_ready():
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
        told = await self.teller.tell(rows, is_late)
        crash_point("relay.after_publish")
        confirmed = await self._finished([row for row in rows if row.outbox_id in told.confirmed])
        if is_late():
            return RelayBatch(len(rows), 0, 0)
        done = confirmed_in_order(rows, confirmed)
        completed = await self.store.complete_across_organizations(done) if done else 0
        crash_point("relay.after_complete")
        resolved = {row.outbox_id for row in done}
        left = [row for row in rows if row.outbox_id not in resolved]
        tried = told.missed | (told.confirmed - confirmed)
        failed = await self._release(left, tried) if left else []
        return RelayBatch(len(rows), completed, len(left), tuple(failed))

    async def together(self, rounds: int) -> RelayBatch:
        """Rounds at the same time: one claims while another tells. What one has of an account or user, no other has."""
        batches = await asyncio.gather(*(self() for _ in range(rounds)), return_exceptions=True)
        done = RelayBatch(0, 0, 0)
        for batch in batches:
            if isinstance(batch, BaseException):
                raise batch
            done += batch
        return done

    async def _finished(self, rows: Sequence[ClaimedRow]) -> frozenset[int]:
        """Which rows are done but for being resolved: all at once if it goes, and otherwise each by itself."""
        if self.finish is None or not rows:
            return frozenset(row.outbox_id for row in rows)
        finished: set[int] = set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                for some in (rows, *([row] for row in rows)):
                    # One row's trouble is no other's; whoever finishes says what went wrong.
                    with contextlib.suppress(Exception):
                        if len(finished) < len(rows):
                            await self.finish(some)
                            finished.update(row.outbox_id for row in some)
        return frozenset(finished)

    async def _release(self, rows: Sequence[ClaimedRow], tried: frozenset[int]) -> list[int]:
        waits = [backoff_seconds(row.attempts) * self.jitter() if row.outbox_id in tried else None for row in rows]
        return await self.store.release_across_organizations(rows, waits)

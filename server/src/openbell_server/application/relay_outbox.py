"""Claim the rows of a queue, tell of them durably, and resolve them."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from openbell_server.application.crash_points import crash_point
from openbell_server.application.ports.hints import EventQueue, WorkQueue
from openbell_server.domain.outbox import (
    CLAIM_ROWS_MAX,
    HOLD_SECONDS,
    Claim,
    ClaimedRow,
    ClaimedUserEvent,
    backoff_seconds,
)

Row = TypeVar("Row", bound=Claim)


class OutboxStore(Protocol[Row]):
    """A queue, as the relay needs it."""

    async def claim_across_organizations(self, limit: int) -> list[Row]:
        """Take rows into our hands for five seconds."""

    async def complete_across_organizations(self, rows: Sequence[Row]) -> int:
        """Resolve rows we still hold; how many that were."""

    async def release_across_organizations(self, rows: Sequence[Row], wait_seconds: Sequence[float]) -> None:
        """Give rows back for a later try."""


class Notices(Protocol[Row]):
    """How the rows of a queue are told of."""

    def is_reachable(self) -> bool:
        """Whether telling has a chance now."""

    async def tell(self, rows: Sequence[Row]) -> list[Row]:
        """Tell of the rows; those that were confirmed."""


@dataclass(frozen=True, slots=True)
class WorkNotices:
    """Tells executors that accounts have work."""

    queue: WorkQueue

    def is_reachable(self) -> bool:
        """Whether telling has a chance now."""
        return self.queue.is_reachable()

    async def tell(self, rows: Sequence[ClaimedRow]) -> list[ClaimedRow]:
        """One notice per account says all there is to say."""
        newest = {row.account_id: row for row in sorted(rows, key=lambda row: row.outbox_id)}
        told = await asyncio.gather(
            *(self.queue.publish_work(row.slot, row.account_id, str(row.outbox_id)) for row in newest.values()),
            return_exceptions=True,
        )
        reached = {account for account, result in zip(newest, told, strict=True) if result is None}
        return [row for row in rows if row.account_id in reached]


@dataclass(frozen=True, slots=True)
class UserNotices:
    """Tells whoever listens what became of users."""

    queue: EventQueue

    def is_reachable(self) -> bool:
        """Whether telling has a chance now."""
        return self.queue.is_reachable()

    async def tell(self, rows: Sequence[ClaimedUserEvent]) -> list[ClaimedUserEvent]:
        """One message per row; its id lets most copies be dropped."""
        told = await asyncio.gather(
            *(self.queue.publish_user_event(row.event_type, row.payload, _digest(row.payload)) for row in rows),
            return_exceptions=True,
        )
        return [row for row, result in zip(rows, told, strict=True) if result is None]


def _digest(payload: str) -> str:
    """The same words are the same event; a restored database gives out numbers again."""
    return hashlib.sha256(payload.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class RelayBatch:
    """What one round did."""

    claimed: int
    completed: int
    released: int


@dataclass(frozen=True, slots=True)
class RelayOutbox(Generic[Row]):
    """The relay's one job; under a claim it does only what is short and harmless to repeat.

    A relay that was paused drops what it claimed: by then another has the rows, or will take them.
    """

    store: OutboxStore[Row]
    notices: Notices[Row]
    jitter: Callable[[], float]
    monotonic: Callable[[], float]

    async def __call__(self) -> RelayBatch:
        """One round; nothing is claimed while the queue is away, so that no row uses up its tries on an outage."""
        if not self.notices.is_reachable():
            return RelayBatch(0, 0, 0)
        claimed_after = self.monotonic()
        rows = await self.store.claim_across_organizations(CLAIM_ROWS_MAX)
        if not rows:
            return RelayBatch(0, 0, 0)
        crash_point("relay.after_claim")
        if self._is_late(claimed_after):
            return RelayBatch(len(rows), 0, 0)
        told = await self.notices.tell(rows)
        crash_point("relay.after_publish")
        if self._is_late(claimed_after):
            return RelayBatch(len(rows), 0, 0)
        reached = {row.outbox_id for row in told}
        missed = [row for row in rows if row.outbox_id not in reached]
        completed = await self.store.complete_across_organizations(told) if told else 0
        crash_point("relay.after_complete")
        if missed:
            waits = [backoff_seconds(row.attempts) * self.jitter() for row in missed]
            await self.store.release_across_organizations(missed, waits)
        return RelayBatch(len(rows), completed, len(missed))

    def _is_late(self, claimed_after: float) -> bool:
        return self.monotonic() - claimed_after >= HOLD_SECONDS

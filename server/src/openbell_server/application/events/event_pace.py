"""Limit how many events a second the followers of one organization receive; events beyond it are sent later."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from openbell_server.application.events.recheck_access import Access
from openbell_server.domain.identifiers import OrganizationId

# What an organization did not use in this time it may use at once.
BURST_SECONDS: Final = 1.0
# When this many organizations are known, those without a recent event are dropped.
KNOWN_MAX: Final = 1000
# How often a follower that waits checks whether its access has ended, and how often it sends a heartbeat.
LOOK_SECONDS: Final = 0.5
HEARTBEAT_SECONDS: Final = 10.0


class EventPace:
    """One per process. Each batch takes its turn after all earlier ones of the organization, so none is overtaken."""

    def __init__(self, per_second: float, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._monotonic = monotonic
        # When all batches of an organization so far are paid for.
        self._paid_at: dict[OrganizationId, float] = {}

    def due(self, organization_id: OrganizationId, events: int) -> float:
        """Count a batch, and return the time from which on it may be sent."""
        now = self._monotonic()
        if organization_id not in self._paid_at and len(self._paid_at) >= KNOWN_MAX:
            self._paid_at = {whose: paid for whose, paid in self._paid_at.items() if paid > now - BURST_SECONDS}
        begins = max(self._paid_at.get(organization_id, 0.0), now - BURST_SECONDS)
        due = self._paid_at[organization_id] = begins + events / self._per_second
        return due

    async def turn(self, access: Access, events: int, draining: asyncio.Event) -> AsyncIterator[None]:
        """Wait until a batch may be sent, and yield whenever a heartbeat is due meanwhile.

        Ends early when access ends or the process stops; then the batch is not sent.
        """
        due, beaten_at = self.due(access.principal.organization_id, events), self._monotonic()
        while (early := due - (now := self._monotonic())) > 0 and access.ended is None and not draining.is_set():
            if now - beaten_at >= HEARTBEAT_SECONDS:
                beaten_at = now
                yield
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(early, LOOK_SECONDS)):
                    await draining.wait()

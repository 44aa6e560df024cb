"""A message bus that may do everything JetStream was ever seen to do: lose, repeat, reorder, and fall silent."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field

from openbell_server.application.events.relay_outbox import Published
from openbell_server.domain.events.outbox import ClaimedRow
from simulation.loop import Process, is_alive

PUBLISH_SECONDS = 2.0
Heard = Callable[[int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusFaults:
    """Chances, of one."""

    lost: float = 0.0
    repeated: float = 0.0
    unanswered: float = 0.0
    delay_max: float = 0.005


@dataclass(slots=True)
class Bus:
    """Carries notices that an account has work to one of those who listen."""

    chance: random.Random
    outside: Context
    faults: BusFaults = field(default_factory=BusFaults)
    silent_until: float = 0.0
    listeners: dict[Process, Heard] = field(default_factory=dict)

    def listen(self, process: Process, heard: Heard) -> None:
        """Be told from now on, for as long as the process lives."""
        self.listeners[process] = heard

    def publish(self, slot: int, account_id: str) -> bool:
        """Tell somebody, perhaps; whether the publisher hears that it was taken."""
        if not is_alive():
            return False
        loop = asyncio.get_running_loop()
        for _ in range(1 + (self.chance.random() < self.faults.repeated)):
            if self.chance.random() >= self.faults.lost and loop.time() >= self.silent_until:
                delay = self.chance.random() * self.faults.delay_max
                loop.call_later(delay, self._deliver, slot, account_id, context=self.outside)
        return self.chance.random() >= self.faults.unanswered and loop.time() >= self.silent_until

    def _deliver(self, slot: int, account_id: str) -> None:
        """To one of those who live, as a work queue does; whoever is paused hears it later."""
        living = [process for process in self.listeners if not process.is_dead]
        if living:
            process = living[int(self.chance.random() * len(living))]
            loop = asyncio.get_running_loop()
            loop.call_soon(self.listeners[process], slot, account_id, context=process.context.copy())


@dataclass(slots=True)
class BusPublisher:
    """Implements Publisher: one notice per account says all there is to say."""

    bus: Bus

    async def is_ready(self) -> bool:
        """Whether telling has a chance now."""
        await asyncio.sleep(0)
        return asyncio.get_running_loop().time() >= self.bus.silent_until

    async def publish(self, rows: Sequence[ClaimedRow], is_late: Callable[[], bool]) -> Published:
        """Tell of the rows, account by account."""
        confirmed: set[int] = set()
        missed: set[int] = set()
        by_account: dict[str, list[ClaimedRow]] = {}
        for row in rows:
            by_account.setdefault(row.in_order_of, []).append(row)
        for account_id, some in by_account.items():
            if is_late():
                break
            taken = self.bus.publish(some[-1].slot, account_id)
            await asyncio.sleep(0 if taken else PUBLISH_SECONDS)
            (confirmed if taken else missed).update(row.outbox_id for row in some)
            if not taken:
                break
        return Published(frozenset(confirmed), frozenset(missed))


@dataclass(slots=True)
class NoHints:
    """Implements Hints: nobody hears them, which must cost time only."""

    def outbox_has_rows(self) -> None:
        """Say nothing."""

    def work_was_recorded(self, account_id: object) -> None:
        """Say nothing."""

    def events_were_written(self, account_ids: Sequence[object]) -> None:
        """Say nothing."""

    def sign_in_was_asked_for(self, account_id: object) -> None:
        """Say nothing."""

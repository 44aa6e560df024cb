"""Hold leases on a fair share of the slots: renew them, take expired ones, release surplus ones."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import NAMESPACE_OID, UUID, uuid5

from openbell_server.domain.identifiers import SLOTS

LEASE_SECONDS: Final = 4.0
RENEW_SECONDS: Final = 1.0
# We stop before the lease ends, because our clock and the database's may differ.
MARGIN_SECONDS: Final = 1.0


def run_id(name: str, run: UUID) -> UUID:
    """The id of one run of a named executor: the first half identifies the name, the second half the run.

    So the next run can take the slots of the one before, and a draining run cannot release slots of the next.
    """
    return UUID(bytes=uuid5(NAMESPACE_OID, name).bytes[:8] + run.bytes[8:])


class LeaseStore(Protocol):
    async def join(self, executor_id: UUID) -> None:
        """Replace earlier runs of the same name: their slots can be taken at once."""

    async def renew(self, executor_id: UUID, seconds: float) -> tuple[set[int], int]:
        """Renew our leases; returns our slots and how many executors are alive, 0 if a later run replaced us."""

    async def take(self, executor_id: UUID, seconds: float, limit: int) -> set[int]:
        """Take slots with expired leases; returns them."""

    async def release(self, executor_id: UUID, slots: Collection[int]) -> None: ...

    async def leave(self, executor_id: UUID) -> None:
        """Stop counting as an executor that is alive."""


@dataclass(slots=True)
class SlotLeases:
    """One executor's slots. After a pause its own clock shows that the leases may have expired."""

    store: LeaseStore
    executor_id: UUID
    monotonic: Callable[[], float]
    _joined: bool = False
    _slots: frozenset[int] = field(default_factory=frozenset)
    _valid_until: float = float("-inf")

    def held(self) -> frozenset[int]:
        """Slots whose lease is valid now."""
        return self._slots if self.monotonic() < self._valid_until else frozenset()

    async def renew(self) -> None:
        """Run one round; call it every RENEW_SECONDS."""
        begun = self.monotonic()
        if not self._joined:
            await self.store.join(self.executor_id)
            self._joined = True
        held, living = await self.store.renew(self.executor_id, LEASE_SECONDS)
        share = math.ceil(SLOTS / living) if living else 0
        if len(held) < share:
            held |= await self.store.take(self.executor_id, LEASE_SECONDS, share - len(held))
        elif len(held) > share:
            surplus = sorted(held)[share:]
            await self.store.release(self.executor_id, surplus)
            held -= set(surplus)
        self._slots = frozenset(held)
        self._valid_until = begun + LEASE_SECONDS - MARGIN_SECONDS

    async def release(self) -> None:
        """Release all slots at once, so that another executor need not wait for the leases to expire."""
        slots, self._slots = self._slots, frozenset()
        await self.store.release(self.executor_id, slots)
        await self.store.leave(self.executor_id)

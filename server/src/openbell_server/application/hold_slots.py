"""Hold a fair share of the slots: renew, take what the dead left, give what newcomers need."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import NAMESPACE_OID, UUID, uuid5

from openbell_server.domain.identifiers import SLOTS

LEASE_SECONDS: Final = 4.0
RENEW_SECONDS: Final = 0.5
# We stop before the lease does: our clock and the database's need not agree on the last moment.
MARGIN_SECONDS: Final = 1.0


def run_id(name: str, run: UUID) -> UUID:
    """The id of one run of a named executor: the first half is the name's, the second half this run's own.

    So a successor knows what its predecessor held, and a predecessor that is still draining can let go of nothing that
    is its successor's.
    """
    return UUID(bytes=uuid5(NAMESPACE_OID, name).bytes[:8] + run.bytes[8:])


class LeaseStore(Protocol):
    """Where leases are kept."""

    async def join(self, executor_id: UUID) -> None:
        """Come in the place of earlier runs of the same name: their slots can be taken at once."""

    async def renew(self, executor_id: UUID, seconds: float) -> tuple[set[int], int]:
        """Hold on to what is ours; which slots those are, and how many executors live: none for one replaced."""

    async def take(self, executor_id: UUID, seconds: float, limit: int) -> set[int]:
        """Take slots that nobody holds any more."""

    async def release(self, executor_id: UUID, slots: Collection[int]) -> None:
        """Give slots to whoever wants them."""

    async def leave(self, executor_id: UUID) -> None:
        """Stop counting as one of the living."""


@dataclass(slots=True)
class HoldSlots:
    """One executor's slots. Whoever was paused knows by its own clock that its leases may be another's by now."""

    store: LeaseStore
    executor_id: UUID
    monotonic: Callable[[], float]
    _joined: bool = False
    _slots: frozenset[int] = field(default_factory=frozenset)
    _valid_until: float = float("-inf")

    def held(self) -> frozenset[int]:
        """The slots that are surely ours now."""
        return self._slots if self.monotonic() < self._valid_until else frozenset()

    async def renew(self) -> None:
        """One round; call it every half second."""
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
        """Let go of everything at once, so that a successor need not wait."""
        slots, self._slots = self._slots, frozenset()
        await self.store.release(self.executor_id, slots)
        await self.store.leave(self.executor_id)

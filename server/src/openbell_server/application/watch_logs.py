"""The newest events of every account that is followed here: read once, encoded once, shared by all who follow it."""

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from openbell_server.application.ports.events import EventStore, Wakes
from openbell_server.domain.account_events import AccountEvent
from openbell_server.domain.identifiers import AccountId, OrganizationId

READ_EVENTS_MAX: Final = 500
# What is kept of an account's log; who is further behind reads the database.
RING_ENTRIES_MAX: Final = 1000
RING_BYTES_MAX: Final = 1 << 20
# What one look at the ring gives: a slow follower keeps no more than this from being forgotten.
BATCH_MAX: Final = 100
# A hint that got lost costs at most this much.
SWEEP_SECONDS: Final = 0.5
# So many read the database at a time, and as many of those who catch up: the pool has other work as well.
READERS_MAX: Final = 4
_LINKED_MAX: Final = 4
_ALIKE_MAX: Final = 8
# What followers alike have in common: previous number, token, label.
Link = tuple[int, str, str]
Made = TypeVar("Made")


@dataclass(slots=True, eq=False)
class Entry:
    """An event, and its form on the wire, which is the same for all who follow."""

    event: AccountEvent
    encoded: bytes
    # Where a follower goes on after it; made by the first who needs it.
    token: str = ""
    # The whole message, for followers who were sent the same before it.
    linked: dict[Link, bytes] = field(default_factory=dict)

    def link(self, key: Link, make: Callable[[Link], bytes]) -> bytes:
        """The message for followers alike."""
        message = self.linked.get(key)
        if message is None:
            if len(self.linked) >= _LINKED_MAX:
                self.linked.clear()
            message = self.linked[key] = self.encoded + make(key)
        return message


class LogTail:
    """The end of one account's log. A follower is a number: nothing is kept for it."""

    def __init__(self, organization_id: OrganizationId, account_id: AccountId, head: int) -> None:
        """Begin after the newest event."""
        self.organization_id = organization_id
        self.account_id = account_id
        self.head = head
        self.followers = 0
        # Whether somebody said that there is more, and whether somebody reads it.
        self.hinted = False
        self.reading = False
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        # What was made of the newest entries for followers who stand at the same place and want the same.
        self._alike: dict[Hashable, Any] = {}
        self._waiting: dict[asyncio.Future[None], float] = {}
        self._failure: Exception | None = None
        # Called whenever those who wait are woken.
        self.listeners: set[Callable[[], None]] = set()

    def after(self, position: int) -> Sequence[Entry] | None:
        """The next entries, none if there are none yet; None if they are older than what is kept here."""
        if self._failure is not None:
            raise self._failure
        count = self.head - position
        if count <= 0:
            return ()
        if count > len(self._entries):
            return None
        entries = self._entries
        return [entries[at] for at in range(-count, min(0, BATCH_MAX - count))]

    def made_once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What is the same for all who have this key, until the next event: made by the first of them."""
        made: Made | None = self._alike.get(key)
        if made is None:
            if len(self._alike) >= _ALIKE_MAX:
                self._alike.clear()
            made = self._alike[key] = make()
        return made

    async def wait(self, position: int, seconds: float) -> None:
        """Return when there is more than the position, or soon after the time."""
        if self.head > position or self._failure is not None:
            return
        loop = asyncio.get_running_loop()
        # One of its own for each: a follower that is cancelled must not cancel what others wait for.
        waiter = loop.create_future()
        self._waiting[waiter] = loop.time() + seconds
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    def append(self, entries: Sequence[Entry]) -> None:
        """What was read after the head; where events were removed meanwhile, followers find that out themselves."""
        if not entries:
            # Several hints of one event: whoever follows need not look again for each.
            return
        if entries[0].event.number != self.head + 1:
            self._entries.clear()
            self._bytes, self.head = 0, entries[0].event.number - 1
        for entry in entries:
            assert entry.event.number == self.head + 1, "the log has a hole"
            self.head = entry.event.number
            self._entries.append(entry)
            self._bytes += len(entry.encoded)
        self._alike.clear()
        while len(self._entries) > RING_ENTRIES_MAX or self._bytes > RING_BYTES_MAX:
            self._bytes -= len(self._entries.popleft().encoded)
        self.wake()

    def fail(self, error: Exception) -> None:
        """Tell all who follow that the log cannot be read: they resume elsewhere, or later."""
        self._failure = error
        self.wake()

    def wake(self) -> None:
        """Let all who wait look again."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        for listener in tuple(self.listeners):
            listener()

    def wake_due(self, now: float) -> None:
        """Let those look again whose time has come."""
        for waiter in [waiter for waiter, due in self._waiting.items() if due <= now]:
            del self._waiting[waiter]
            if not waiter.done():
                waiter.set_result(None)


class WatchLogs:
    """One per process: hints, and a look at all heads twice a second, make tails read."""

    def __init__(self, events: EventStore, wakes: Wakes, encode: Callable[[AccountEvent], bytes]) -> None:
        """Encode gives an event's form on the wire."""
        self.events = events
        self._encode = encode
        self._tails: dict[AccountId, LogTail] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._readers = asyncio.Semaphore(READERS_MAX)
        self._catching_up = asyncio.Semaphore(READERS_MAX)
        wakes.listen(self._hear)

    @contextlib.asynccontextmanager
    async def tail(
        self, organization_id: OrganizationId, account_id: AccountId, head: int | None = None
    ) -> AsyncIterator[LogTail]:
        """The account's tail, the same for all who follow it; whoever asks may follow it, and may know its head."""
        tail = self._tails.get(account_id)
        if tail is None:
            if head is None:
                _, head = await self.events.bounds(organization_id, account_id)
            # Another may have come while the head was read; its tail begins earlier, or later, which is as good.
            tail = self._tails.setdefault(account_id, LogTail(organization_id, account_id, head))
        tail.followers += 1
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.ensure_future(self._sweep())
        try:
            yield tail
        finally:
            tail.followers -= 1
            if not tail.followers:
                self._drop(tail)

    async def page(self, organization_id: OrganizationId, account_id: AccountId, after: int) -> list[Entry]:
        """The next entries from the database, for a follower that is too far behind for the tail."""
        async with self._catching_up:
            return await self._entries_after(organization_id, account_id, after)

    def wake_all(self) -> None:
        """Let all who follow anything look again."""
        for tail in self._tails.values():
            tail.wake()

    async def _entries_after(self, organization_id: OrganizationId, account_id: AccountId, after: int) -> list[Entry]:
        found = await self.events.read_after(organization_id, account_id, after, READ_EVENTS_MAX)
        return [Entry(event, self._encode(event)) for event in found]

    def _hear(self, account_id: AccountId) -> None:
        tail = self._tails.get(account_id)
        if tail is None:
            return
        tail.hinted = True
        if not tail.reading:
            tail.reading = True
            task = asyncio.ensure_future(self._read(tail))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _read(self, tail: LogTail) -> None:
        try:
            while tail.hinted and tail.followers:
                tail.hinted = False
                async with self._readers:
                    found = await self._entries_after(tail.organization_id, tail.account_id, tail.head)
                tail.append(found)
                tail.hinted |= len(found) == READ_EVENTS_MAX
        except Exception as error:  # noqa: BLE001 - whoever follows raises it
            self._drop(tail)
            tail.fail(error)
        finally:
            tail.reading = False

    async def _sweep(self) -> None:
        while self._tails:
            await asyncio.sleep(SWEEP_SECONDS)
            now = asyncio.get_running_loop().time()
            followed = defaultdict(list)
            for tail in self._tails.values():
                tail.wake_due(now)
                followed[tail.organization_id].append(tail)
            await asyncio.gather(*(self._look(organization_id, tails) for organization_id, tails in followed.items()))

    async def _look(self, organization_id: OrganizationId, tails: Sequence[LogTail]) -> None:
        try:
            async with self._readers:
                heads = await self.events.heads(organization_id, [tail.account_id for tail in tails])
        except Exception as error:  # noqa: BLE001 - whoever follows raises it
            for tail in tails:
                self._drop(tail)
                tail.fail(error)
            return
        for tail in tails:
            if heads.get(tail.account_id, 0) > tail.head:
                self._hear(tail.account_id)

    def _drop(self, tail: LogTail) -> None:
        if self._tails.get(tail.account_id) is tail:
            del self._tails[tail.account_id]

"""Cache of the newest events of followed accounts: read once, encoded once, shared by all followers."""

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from openbell_server.application.events.ports import EventStore, Wakes
from openbell_server.domain.events.account_events import AccountEvent
from openbell_server.domain.identifiers import AccountId, OrganizationId

READ_EVENTS_MAX: Final = 500
# Limits of the cache per account; a follower that is further behind reads the database.
RING_ENTRIES_MAX: Final = 1000
RING_BYTES_MAX: Final = 1 << 20
# Entries that a follower takes at once; a slow follower holds at most these in memory.
BATCH_MAX: Final = 100
# A lost hint delays an event by at most this.
SWEEP_SECONDS: Final = 0.5
# Concurrent database reads for tails, and as many for followers that catch up; the pool serves other work too.
READERS_MAX: Final = 4
_LINKED_MAX: Final = 4
_ALIKE_MAX: Final = 8
# Previous number, token and label; followers with the same link receive the same message.
Link = tuple[int, str, str]
Made = TypeVar("Made")


@dataclass(slots=True, eq=False)
class Entry:
    """An event and its encoding, which all followers share."""

    event: AccountEvent
    encoded: bytes
    # The resume token after this event, sealed when it is first needed.
    token: str = ""
    # Complete messages by link.
    linked: dict[Link, bytes] = field(default_factory=dict)

    def link(self, key: Link, make: Callable[[Link], bytes]) -> bytes:
        """The message for followers with this link."""
        message = self.linked.get(key)
        if message is None:
            if len(self.linked) >= _LINKED_MAX:
                self.linked.clear()
            message = self.linked[key] = self.encoded + make(key)
        return message


class LogTail:
    """The newest entries of one account's log, after `head`. A follower is only a position; the tail stores none."""

    def __init__(self, organization_id: OrganizationId, account_id: AccountId, head: int) -> None:
        self.organization_id = organization_id
        self.account_id = account_id
        self.head = head
        # The number of the newest event as the account counts it.
        self.counted = head
        self.followers = 0
        # Whether new events were hinted, and whether a task reads them.
        self.hinted = False
        self.reading = False
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        # Frames of the newest entries for followers with the same position and filter.
        self._alike: dict[Hashable, Any] = {}
        self._waiting: dict[asyncio.Future[None], float] = {}
        self._failure: Exception | None = None
        # Called whenever waiting followers are woken.
        self.listeners: set[Callable[[], None]] = set()

    def after(self, position: int) -> Sequence[Entry] | None:
        """The next entries, empty if there are none yet; None if they are older than the cache."""
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
        """Compute a value once per key and keep it until the next event."""
        made: Made | None = self._alike.get(key)
        if made is None:
            if len(self._alike) >= _ALIKE_MAX:
                self._alike.clear()
            made = self._alike[key] = make()
        return made

    async def wait(self, position: int, seconds: float) -> None:
        """Return when the log passes the position, or soon after the time."""
        if self.head > position or self._failure is not None:
            return
        loop = asyncio.get_running_loop()
        # Each follower has its own future, so that cancelling one does not cancel the others.
        waiter = loop.create_future()
        self._waiting[waiter] = loop.time() + seconds
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries read after the head; followers that are before a hole find it in the database."""
        if not entries:
            # Several hints for one event: wake the followers only once.
            return
        for entry in entries:
            if entry.event.number != self.head + 1:
                self._clear()
            self.head = entry.event.number
            self._entries.append(entry)
            self._bytes += len(entry.encoded)
        self._alike.clear()
        while len(self._entries) > RING_ENTRIES_MAX or self._bytes > RING_BYTES_MAX:
            self._bytes -= len(self._entries.popleft().encoded)
        self.wake()

    def skip_missing(self) -> None:
        """Send followers to the database, if the account's counter is ahead of all events that could be read."""
        if self.counted > self.head:
            self._clear()
            self.head = self.counted
            self.wake()

    def _clear(self) -> None:
        self._entries.clear()
        self._alike.clear()
        self._bytes = 0

    def fail(self, error: Exception) -> None:
        """End all followers with this error; their clients resume on another server, or later."""
        self._failure = error
        self.wake()

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        for listener in tuple(self.listeners):
            listener()

    def wake_due(self, now: float) -> None:
        """Wake followers whose wait time is over."""
        for waiter in [waiter for waiter, due in self._waiting.items() if due <= now]:
            del self._waiting[waiter]
            if not waiter.done():
                waiter.set_result(None)


class EventTailCache:
    """One per process. Tails are read after a hint, and when a sweep every SWEEP_SECONDS finds newer events."""

    def __init__(self, events: EventStore, wakes: Wakes, encode: Callable[[AccountEvent], bytes]) -> None:
        self.events = events
        self._encode = encode
        self._tails: dict[AccountId, LogTail] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._readers = asyncio.Semaphore(READERS_MAX)
        self._catching_up = asyncio.Semaphore(READERS_MAX)
        wakes.listen(self._notify)

    @contextlib.asynccontextmanager
    async def tail(
        self, organization_id: OrganizationId, account_id: AccountId, head: int | None = None
    ) -> AsyncIterator[LogTail]:
        """The tail that all followers of the account share. The caller has checked access, and may know the head."""
        tail = self._tails.get(account_id)
        if tail is None:
            if head is None:
                _, head = await self.events.bounds(organization_id, account_id)
            # Another follower may have opened the tail meanwhile; its different head does not matter.
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
        """The next entries from the database up to the first hole, for a follower behind the tail."""
        async with self._catching_up:
            entries = await self._entries_after(organization_id, account_id, after)
        joined = (at for at, entry in enumerate(entries) if entry.event.number - at != entries[0].event.number)
        return entries[: next(joined, None)]

    def wake_all(self) -> None:
        for tail in self._tails.values():
            tail.wake()

    async def _entries_after(self, organization_id: OrganizationId, account_id: AccountId, after: int) -> list[Entry]:
        found = await self.events.read_after(organization_id, account_id, after, READ_EVENTS_MAX)
        return [Entry(event, self._encode(event)) for event in found]

    def _notify(self, account_id: AccountId) -> None:
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
                if not found:
                    tail.skip_missing()
                tail.hinted |= len(found) == READ_EVENTS_MAX
        except Exception as error:  # noqa: BLE001 - the followers raise it
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
        except Exception as error:  # noqa: BLE001 - the followers raise it
            for tail in tails:
                self._drop(tail)
                tail.fail(error)
            return
        for tail in tails:
            tail.counted = heads.get(tail.account_id, 0)
            if tail.counted > tail.head:
                self._notify(tail.account_id)

    def _drop(self, tail: LogTail) -> None:
        if self._tails.get(tail.account_id) is tail:
            del self._tails[tail.account_id]

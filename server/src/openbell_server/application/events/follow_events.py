"""Follow the logs of accounts: every event once and in order, from a resume token or from now, until access ends."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from openbell_server.application.crash_points import crash_point
from openbell_server.application.events.event_frames import GOING_AWAY, Frame, FrameKind, Start, Subscription
from openbell_server.application.events.event_pace import EventPace
from openbell_server.application.events.event_tail_cache import SWEEP_SECONDS, Entry, EventTailCache, LogTail
from openbell_server.application.events.recheck_access import ACCOUNTS_MAX, Access, Enter, RecheckAccess
from openbell_server.domain.access.caps import CAPS, Cap
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.domain.events.account_events import EventKind, gap_reason
from openbell_server.domain.events.cursors import seal, seal_many, unseal, unseal_many
from openbell_server.domain.identifiers import AccountId

HEARTBEAT_SECONDS: Final = 10.0
SYMBOLS_MAX: Final = 100
# Every n-th event of an organization's stream has a resume token, because the token is long.
TOKEN_EVERY: Final = 100


class _Cursor:
    """The position of a subscription in one account's log.

    Without `reports_first_gap`, events that were deleted before the first one are not reported as a gap: a subscription
    from the beginning begins at the oldest event that is left.
    """

    __slots__ = ("position", "previous", "reports_first_gap", "tail")

    def __init__(self, tail: LogTail, position: int, *, reports_first_gap: bool = True) -> None:
        self.tail = tail
        self.position = self.previous = position
        self.reports_first_gap = reports_first_gap


class _Crowd:
    """The positions of a subscription in the logs of an organization, and the accounts that may have new events."""

    def __init__(self, access: Access, tails: contextlib.AsyncExitStack) -> None:
        self.access = access
        self.organization_id = access.principal.organization_id
        # A token of one environment is not valid for the other.
        self.scope = f"events {self.organization_id} {access.principal.environment}"
        self.cursors: dict[AccountId, _Cursor] = {}
        self.ready: set[AccountId] = set()
        self.bell = asyncio.Event()
        self._tails = tails

    async def join(
        self, logs: EventTailCache, account_id: AccountId, head: int, position: int, *, reports_first_gap: bool
    ) -> None:
        tail = await self._tails.enter_async_context(logs.tail(self.organization_id, account_id, head))
        ring = partial(self._ring, account_id)
        tail.listeners.add(ring)
        self._tails.callback(tail.listeners.discard, ring)
        self.cursors[account_id] = _Cursor(tail, position, reports_first_gap=reports_first_gap)
        self._ring(account_id)

    async def join_new(self, logs: EventTailCache, account_ids: Sequence[AccountId]) -> None:
        """Follow accounts that were created after the subscription from their first event."""
        for account_id in account_ids:
            if account_id not in self.cursors:
                await self.join(logs, account_id, 0, 0, reports_first_gap=True)

    def _ring(self, account_id: AccountId) -> None:
        self.ready.add(account_id)
        self.bell.set()

    async def wait(self, seconds: float) -> None:
        """Return when an account may have new events, or after the time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.bell.wait()


class FollowEvents:
    """Serves subscriptions; stores nothing about them. The cursor key seals resume tokens."""

    def __init__(
        self,
        access: RecheckAccess,
        logs: EventTailCache,
        cursor_key: bytes,
        monotonic: Callable[[], float],
        pace: Cap = CAPS["events_per_second"],
    ) -> None:
        self._access = access
        self._pace = EventPace(pace.limit, monotonic)
        self._logs = logs
        self._cursor_key = cursor_key
        self._monotonic = monotonic
        self.draining = asyncio.Event()

    def drain(self) -> None:
        """End every subscription, because this process stops."""
        self.draining.set()
        self._logs.wake_all()

    def subscribe(
        self, enter: Enter, subscription: Subscription, interrupt: Callable[[Exception], None] | None = None
    ) -> AsyncGenerator[Frame, None]:
        """As subscribe_in_batches, frame by frame."""
        return _one_by_one(self.subscribe_in_batches(enter, subscription, interrupt))

    def subscribe_in_batches(
        self, enter: Enter, subscription: Subscription, interrupt: Callable[[Exception], None] | None = None
    ) -> AsyncGenerator[Iterable[Frame], None]:
        """First a frame with the position from which no event is missed; then events, and heartbeats in between.

        The caller sends each batch to its end: a frame counts as sent when the next one is requested. `interrupt` is
        called with the reason when access ends, so that a caller blocked in a send can stop; the next frame raises it.
        """
        if subscription.resume_token and subscription.start is not None:
            raise InvalidParameter("start", "must be left out when a resume token is sent")
        if len(subscription.symbols) > SYMBOLS_MAX:
            raise InvalidParameter("symbols", f"must be at most {SYMBOLS_MAX}")
        if subscription.account_id is None:
            return self._follow_organization(enter, subscription, interrupt)
        return self._follow_account(enter, subscription.account_id, subscription, interrupt)

    async def _follow_account(
        self,
        enter: Enter,
        account_id: AccountId,
        wanted: Subscription,
        interrupt: Callable[[Exception], None] | None,
    ) -> AsyncGenerator[Iterable[Frame], None]:
        monotonic = self._monotonic
        async with (
            self._access.access(enter, account_id) as access,
            self._logs.tail(access.principal.organization_id, account_id) as tail,
        ):
            with _interrupting(access, tail.wake, interrupt):
                cursor, first = await self._begin(tail, wanted)
                for frame in first:
                    access.check()
                    yield (frame,)
                last_sent = monotonic()
                while True:
                    entries = tail.after(cursor.position)
                    frames: Iterable[Frame]
                    if entries is None:
                        gap, entries = await self._page(cursor)
                        if gap is not None:
                            yield (gap,)
                        frames, count = self._matching(cursor, entries, wanted), len(entries)
                    else:
                        frames = self._alike(cursor, entries, wanted)
                        count = len(frames)
                    if entries:
                        async for _ in self._pace.turn(access, count, self.draining):
                            yield (self._about(FrameKind.HEARTBEAT, cursor),)
                        previous = cursor.previous
                        yield self._batch(cursor, frames, entries[-1].event.number, access)
                        last_sent = monotonic() if cursor.previous != previous else last_sent
                    access.check()
                    if self.draining.is_set():
                        yield (self._about(FrameKind.ERROR, cursor, GOING_AWAY),)
                        raise Problem("unavailable", str(GOING_AWAY["message"]))
                    if monotonic() - last_sent >= HEARTBEAT_SECONDS:
                        yield (self._about(FrameKind.HEARTBEAT, cursor),)
                        last_sent = monotonic()
                    if not entries:
                        await tail.wait(cursor.position, last_sent + HEARTBEAT_SECONDS - monotonic())

    def _batch(self, cursor: _Cursor, frames: Iterable[Frame], last: int, access: Access) -> Iterator[Frame]:
        """Moves the cursor after each frame that was sent, and at the end to the last event, framed or not."""
        for frame in frames:
            # A revoked key ends the stream at once, also in the middle of a batch.
            if access.ended is not None or self.draining.is_set():
                return
            crash_point("stream.before_event")
            yield frame
            crash_point("stream.after_event")
            cursor.position = cursor.previous = frame.position
        cursor.position = last

    def _alike(self, cursor: _Cursor, entries: Sequence[Entry], wanted: Subscription) -> Sequence[Frame]:
        """Frames of the newest entries, shared by all followers with the same position and filter."""
        if not entries:
            return ()
        key = (cursor.position, cursor.previous, wanted.kinds, wanted.symbols)
        return cursor.tail.made_once(key, lambda: list(self._matching(cursor, entries, wanted)))

    async def _follow_organization(
        self, enter: Enter, wanted: Subscription, interrupt: Callable[[Exception], None] | None
    ) -> AsyncGenerator[Iterable[Frame], None]:
        monotonic = self._monotonic
        async with self._access.access(enter, None) as access, contextlib.AsyncExitStack() as tails:
            crowd, sent = _Crowd(access, tails), 0
            with _interrupting(access, crowd.bell.set, interrupt):
                async for frame in self._begin_all(crowd, access.account_ids, wanted):
                    access.check()
                    yield (frame,)
                last_sent = monotonic()
                while True:
                    crowd.bell.clear()
                    ready, crowd.ready = crowd.ready, set()
                    for cursor in [crowd.cursors[account_id] for account_id in ready]:
                        async for frame in self._next_of_many(crowd, cursor, wanted):
                            access.check()
                            sent += 1
                            if sent % TOKEN_EVERY == 0:
                                frame.resume_token = self._token_of_many(crowd)
                            crash_point("stream.before_event")
                            yield (frame,)
                            crash_point("stream.after_event")
                            last_sent = monotonic()
                            if self.draining.is_set():
                                break
                    access.check()
                    if self.draining.is_set():
                        token = self._token_of_many(crowd)
                        yield (Frame(FrameKind.ERROR, None, 0, 0, token, body=GOING_AWAY),)
                        raise Problem("unavailable", str(GOING_AWAY["message"]))
                    if monotonic() - last_sent >= HEARTBEAT_SECONDS:
                        yield (Frame(FrameKind.HEARTBEAT, None, 0, 0, self._token_of_many(crowd)),)
                        last_sent = monotonic()
                    await crowd.join_new(self._logs, access.account_ids)
                    if not crowd.ready:
                        await crowd.wait(SWEEP_SECONDS)

    async def _next_of_many(self, crowd: _Crowd, cursor: _Cursor, wanted: Subscription) -> AsyncIterator[Frame]:
        """The next frames of one account; a frame counts as sent once it is yielded."""
        entries = cursor.tail.after(cursor.position)
        if entries is None:
            gap, entries = await self._page(cursor)
            if gap is not None:
                gap.resume_token = self._token_of_many(crowd)
                crowd.ready.add(cursor.tail.account_id)
                yield gap
        if entries:
            crowd.ready.add(cursor.tail.account_id)
            async for _ in self._pace.turn(crowd.access, len(entries), self.draining):
                yield Frame(FrameKind.HEARTBEAT, None, 0, 0, self._token_of_many(crowd))
        for frame in self._matching(cursor, entries, wanted):
            cursor.position = cursor.previous = frame.position
            frame.resume_token = ""
            yield frame
        if entries:
            cursor.position = entries[-1].event.number

    async def _begin_all(
        self, crowd: _Crowd, account_ids: Sequence[AccountId], wanted: Subscription
    ) -> AsyncIterator[Frame]:
        """Find where a subscription to an organization begins, and yield its first frames."""
        heads = await self._logs.events.heads(crowd.organization_id, account_ids)
        begins = {} if wanted.start is Start.BEGINNING else dict(heads)
        if wanted.resume_token:
            resumed = unseal_many(self._cursor_key, crowd.scope, wanted.resume_token, ACCOUNTS_MAX)
            if resumed is None:
                raise Problem("invalid_cursor", "this resume token does not belong to this organization")
            begins = {AccountId(account_id): position for account_id, position in resumed.items()}
            for account_id in account_ids:
                _refuse_ahead(begins.get(account_id, 0), heads.get(account_id, 0))
        reports_first_gap = wanted.start is not Start.BEGINNING
        for account_id in account_ids:
            head, position = heads.get(account_id, 0), begins.get(account_id, 0)
            await crowd.join(self._logs, account_id, head, position, reports_first_gap=reports_first_gap)
        primes = wanted.start is Start.PRIMED and bool(crowd.cursors)
        yield Frame(FrameKind.SUBSCRIBED, None, 0, 0, "" if primes else self._token_of_many(crowd))
        if primes:
            for left, cursor in zip(range(len(crowd.cursors) - 1, -1, -1), list(crowd.cursors.values()), strict=True):
                primed, frames = await self._snapshot(cursor.tail, wanted)
                cursor.position = cursor.previous = primed.position
                if not left:
                    frames[-1].resume_token = self._token_of_many(crowd)
                for frame in frames:
                    yield frame

    def _token_of_many(self, crowd: _Crowd) -> str:
        positions: dict[UUID, int] = {account_id: cursor.position for account_id, cursor in crowd.cursors.items()}
        return seal_many(self._cursor_key, crowd.scope, positions)

    async def _begin(self, tail: LogTail, wanted: Subscription) -> tuple[_Cursor, list[Frame]]:
        """Where a subscription to an account begins, and its first frames."""
        if wanted.resume_token:
            position = unseal(self._cursor_key, f"events {tail.account_id}", wanted.resume_token)
            if position is None:
                raise Problem("invalid_cursor", "this resume token does not belong to this account")
            # The tail may be a little behind the log.
            if position > tail.head:
                _, head = await self._logs.events.bounds(tail.organization_id, tail.account_id)
                _refuse_ahead(position, head)
            cursor = _Cursor(tail, position)
        elif wanted.start is Start.PRIMED:
            cursor, snapshot = await self._snapshot(tail, wanted)
            # Only the last frame of the snapshot has a token: a client that was cut before it must start again.
            subscribed = Frame(FrameKind.SUBSCRIBED, tail.account_id, cursor.position, cursor.previous, "")
            snapshot[-1].resume_token = self._token(cursor)
            return cursor, [subscribed, *snapshot]
        else:
            floor, head = await self._logs.events.bounds(tail.organization_id, tail.account_id)
            cursor = _Cursor(tail, floor if wanted.start is Start.BEGINNING else head)
        return cursor, [self._about(FrameKind.SUBSCRIBED, cursor)]

    async def _snapshot(self, tail: LogTail, wanted: Subscription) -> tuple[_Cursor, list[Frame]]:
        """Frames of the current orders and positions that match the subscription, and the position they belong to."""
        found = await self._logs.events.snapshot(tail.organization_id, tail.account_id)
        kinds, symbols = wanted.kinds, wanted.symbols
        holds = bool(kinds & {EventKind.BROKER_TRADE, EventKind.POSITION_ADJUSTED})
        bodies_of = [
            (FrameKind.ORDER, found.orders if EventKind.BROKER_ORDER in kinds else ()),
            (FrameKind.EXTERNAL_ORDER, found.external_orders if EventKind.EXTERNAL_ORDER in kinds else ()),
            (FrameKind.POSITION, found.positions if holds else ()),
        ]
        frames = [
            Frame(kind, tail.account_id, found.head, found.head, "", body=body)
            for kind, bodies in bodies_of
            for body in bodies
            if not symbols or body["symbol"] in symbols
        ]
        positions = sum(frame.kind is FrameKind.POSITION for frame in frames)
        counts = {"orders": len(frames) - positions, "positions": positions}
        frames.append(Frame(FrameKind.PRIMED, tail.account_id, found.head, found.head, "", body=counts))
        return _Cursor(tail, found.head), frames

    async def _page(self, cursor: _Cursor) -> tuple[Frame | None, Sequence[Entry]]:
        """Entries that the tail no longer has, and a gap frame for events that were deleted."""
        tail, began = cursor.tail, cursor.position
        entries = await self._logs.page(tail.organization_id, tail.account_id, began)
        if entries and entries[0].event.number == began + 1:
            return None, entries
        floor, head = await self._logs.events.bounds(tail.organization_id, tail.account_id)
        if not entries and head > began:
            # Either committed since, or deleted: events up to the head that this read does not find do not exist.
            entries = await self._logs.page(tail.organization_id, tail.account_id, began)
        last = entries[0].event.number - 1 if entries else max(head, began)
        if began < floor < last:
            # Pruned ones first; the next page reports the rest, for another reason.
            last, entries = floor, []
        cursor.position = cursor.previous = last
        is_beginning = not (cursor.reports_first_gap or began) and last <= floor
        if last == began or is_beginning:
            return None, entries
        body = {"first_seq": began + 1, "last_seq": last, "reason": gap_reason(last, floor)}
        gap = self._about(FrameKind.GAP, cursor, body)
        gap.previous = began
        return gap, entries

    def _matching(self, cursor: _Cursor, entries: Sequence[Entry], wanted: Subscription) -> Iterator[Frame]:
        # A generator, so that the frames of a thousand followers are not in memory at the same time.
        account_id, previous, position = cursor.tail.account_id, cursor.previous, cursor.position
        kinds, symbols = wanted.kinds, wanted.symbols
        for entry in entries:
            event = entry.event
            position += 1
            assert event.number == position, "the log has a hole"
            if event.kind in kinds and (not symbols or event.symbol is None or event.symbol in symbols):
                token = entry.token or self._seal(entry)
                yield Frame(FrameKind.EVENT, account_id, position, previous, token, entry)
                previous = position

    def _seal(self, entry: Entry) -> str:
        event = entry.event
        entry.token = seal(self._cursor_key, f"events {event.account_id}", event.number)
        return entry.token

    def _token(self, cursor: _Cursor) -> str:
        return seal(self._cursor_key, f"events {cursor.tail.account_id}", cursor.position)

    def _about(self, kind: FrameKind, cursor: _Cursor, body: Mapping[str, Any] | None = None) -> Frame:
        return Frame(kind, cursor.tail.account_id, cursor.position, cursor.previous, self._token(cursor), body=body)


async def _one_by_one(batches: AsyncGenerator[Iterable[Frame], None]) -> AsyncGenerator[Frame, None]:
    async with contextlib.aclosing(batches):
        async for batch in batches:
            for frame in batch:
                yield frame


def _refuse_ahead(position: int, head: int) -> None:
    # A restored database lost events, and assigns their numbers again to other events.
    if position > head:
        detail = "this resume token is ahead of the log, which was restored from a backup; start again with PRIMED"
        raise Problem("invalid_cursor", detail)


@contextlib.contextmanager
def _interrupting(
    access: Access, wake: Callable[[], None], interrupt: Callable[[Exception], None] | None
) -> Iterator[None]:
    """When access ends, wake the follower and call its interrupt."""
    interrupts: set[Callable[[Exception], None]] = {lambda _: wake()}
    if interrupt is not None:
        interrupts.add(interrupt)
    access.interrupts |= interrupts
    try:
        yield
    finally:
        access.interrupts -= interrupts

"""Follow accounts' logs: from a resume token or from now, every event once, in order, until access ends."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from openbell_server.application.crash_points import crash_point
from openbell_server.application.event_frames import GOING_AWAY, Frame, FrameKind, Start, Subscription
from openbell_server.application.watch_access import ACCOUNTS_MAX, Access, Enter, WatchAccess
from openbell_server.application.watch_logs import SWEEP_SECONDS, Entry, LogTail, WatchLogs
from openbell_server.domain.account_events import EventKind
from openbell_server.domain.cursors import seal, seal_many, unseal, unseal_many
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.domain.identifiers import AccountId

HEARTBEAT_SECONDS: Final = 10.0
SYMBOLS_MAX: Final = 100
# How often a page is read again because events were removed meanwhile.
_PRUNED_MEANWHILE_MAX: Final = 5
# How often an event of an organization has a token: it is long.
TOKEN_EVERY: Final = 100


class _Cursor:
    """How far a subscription is in one account's log."""

    __slots__ = ("position", "previous", "tail", "untold")

    def __init__(self, tail: LogTail, position: int, *, untold: bool = False) -> None:
        """Untold: what is no longer kept before the position's next event was never asked for."""
        self.tail = tail
        self.position = self.previous = position
        self.untold = untold


class _Crowd:
    """How far a subscription is in the logs of an organization's accounts, and which of them may have more."""

    def __init__(self, access: Access, tails: contextlib.AsyncExitStack) -> None:
        """No account has joined yet."""
        self.organization_id = access.principal.organization_id
        # A token of one environment says nothing of accounts of the other.
        self.scope = f"events {self.organization_id} {access.principal.environment}"
        self.cursors: dict[AccountId, _Cursor] = {}
        self.ready: set[AccountId] = set()
        self.bell = asyncio.Event()
        self._tails = tails

    async def join(self, logs: WatchLogs, account_id: AccountId, head: int, position: int, *, untold: bool) -> None:
        """Follow this account too."""
        tail = await self._tails.enter_async_context(logs.tail(self.organization_id, account_id, head))
        ring = partial(self._ring, account_id)
        tail.listeners.add(ring)
        self._tails.callback(tail.listeners.discard, ring)
        self.cursors[account_id] = _Cursor(tail, position, untold=untold)
        self._ring(account_id)

    async def join_new(self, logs: WatchLogs, account_ids: Sequence[AccountId]) -> None:
        """Follow accounts that were created since from their first event."""
        for account_id in account_ids:
            if account_id not in self.cursors:
                await self.join(logs, account_id, 0, 0, untold=False)

    def _ring(self, account_id: AccountId) -> None:
        self.ready.add(account_id)
        self.bell.set()

    async def wait(self, seconds: float) -> None:
        """Return when an account may have more, or after the time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.bell.wait()


class FollowEvents:
    """One subscription after another; nothing is kept between them but what the log holds."""

    def __init__(self, access: WatchAccess, logs: WatchLogs, cursor_key: bytes, monotonic: Callable[[], float]) -> None:
        """The key seals resume tokens."""
        self._access = access
        self._logs = logs
        self._cursor_key = cursor_key
        self._monotonic = monotonic
        self.draining = asyncio.Event()

    def drain(self) -> None:
        """Let every subscription end: this process is going away."""
        self.draining.set()
        self._logs.wake_all()

    def subscribe(
        self, enter: Enter, subscription: Subscription, interrupt: Callable[[Exception], None] | None = None
    ) -> AsyncGenerator[Frame, None]:
        """The same, frame by frame."""
        return _one_by_one(self.subscribe_in_batches(enter, subscription, interrupt))

    def subscribe_in_batches(
        self, enter: Enter, subscription: Subscription, interrupt: Callable[[Exception], None] | None = None
    ) -> AsyncGenerator[Iterable[Frame], None]:
        """First a frame with the position from which nothing is missed; then events, and heartbeats when quiet.

        Each batch is to be sent to its end: a frame counts as sent when the next one is asked for. Interrupt is called
        when access ends, for whoever is stuck in sending: what comes next raises why.
        """
        if subscription.resume_token and subscription.start is not None:
            raise InvalidParameter("start", "must be left out where a resume token says where to begin")
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
                        frames = self._matching(cursor, entries, wanted)
                    else:
                        frames = self._alike(cursor, entries, wanted)
                    if entries:
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
        """The cursor goes on when a frame was sent, and in the end to the last event, whether or not it has a frame."""
        for frame in frames:
            # A key that was revoked ends the stream, however much there is still to send.
            if access.ended is not None or self.draining.is_set():
                return
            crash_point("stream.before_event")
            yield frame
            crash_point("stream.after_event")
            cursor.position = cursor.previous = frame.position
        cursor.position = last

    def _alike(self, cursor: _Cursor, entries: Sequence[Entry], wanted: Subscription) -> Sequence[Frame]:
        """Frames of the newest entries, the same ones for all who are sent the same."""
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
        """What one account has next; a frame counts as sent once it is handed on."""
        entries = cursor.tail.after(cursor.position)
        if entries is None:
            gap, entries = await self._page(cursor)
            if gap is not None:
                gap.resume_token = self._token_of_many(crowd)
                crowd.ready.add(cursor.tail.account_id)
                yield gap
        if entries:
            crowd.ready.add(cursor.tail.account_id)
        for frame in self._matching(cursor, entries, wanted):
            cursor.position = cursor.previous = frame.position
            frame.resume_token = ""
            yield frame
        if entries:
            cursor.position = entries[-1].event.number

    async def _begin_all(
        self, crowd: _Crowd, account_ids: Sequence[AccountId], wanted: Subscription
    ) -> AsyncIterator[Frame]:
        """Where a subscription to an organization begins, and the frames that say so."""
        heads = await self._logs.events.heads(crowd.organization_id, account_ids)
        begins = {} if wanted.start is Start.BEGINNING else dict(heads)
        if wanted.resume_token:
            told = unseal_many(self._cursor_key, crowd.scope, wanted.resume_token, ACCOUNTS_MAX)
            if told is None:
                raise Problem("invalid_cursor", "this resume token was not given for this organization")
            begins = {AccountId(account_id): position for account_id, position in told.items()}
            for account_id in account_ids:
                _refuse_ahead(begins.get(account_id, 0), heads.get(account_id, 0))
        untold = wanted.start is Start.BEGINNING
        for account_id in account_ids:
            head, position = heads.get(account_id, 0), begins.get(account_id, 0)
            await crowd.join(self._logs, account_id, head, position, untold=untold)
        primes = wanted.start is Start.PRIMED and bool(crowd.cursors)
        yield Frame(FrameKind.SUBSCRIBED, None, 0, 0, "" if primes else self._token_of_many(crowd))
        if primes:
            for left, cursor in zip(range(len(crowd.cursors) - 1, -1, -1), list(crowd.cursors.values()), strict=True):
                primed, frames = await self._standing(cursor.tail, wanted)
                cursor.position = cursor.previous = primed.position
                if not left:
                    frames[-1].resume_token = self._token_of_many(crowd)
                for frame in frames:
                    yield frame

    def _token_of_many(self, crowd: _Crowd) -> str:
        positions: dict[UUID, int] = {account_id: cursor.position for account_id, cursor in crowd.cursors.items()}
        return seal_many(self._cursor_key, crowd.scope, positions)

    async def _begin(self, tail: LogTail, wanted: Subscription) -> tuple[_Cursor, list[Frame]]:
        """Where an account's subscription begins, and the frames that say so."""
        if wanted.resume_token:
            position = unseal(self._cursor_key, f"events {tail.account_id}", wanted.resume_token)
            if position is None:
                raise Problem("invalid_cursor", "this resume token was not given for this account")
            # The tail may be a little behind the log.
            if position > tail.head:
                _, head = await self._logs.events.bounds(tail.organization_id, tail.account_id)
                _refuse_ahead(position, head)
            cursor = _Cursor(tail, position)
        elif wanted.start is Start.PRIMED:
            cursor, standing = await self._standing(tail, wanted)
            # Who resumes before all was sent begins anew: only the last frame of it has a token.
            subscribed = Frame(FrameKind.SUBSCRIBED, tail.account_id, cursor.position, cursor.previous, "")
            standing[-1].resume_token = self._token(cursor)
            return cursor, [subscribed, *standing]
        else:
            floor, head = await self._logs.events.bounds(tail.organization_id, tail.account_id)
            cursor = _Cursor(tail, floor if wanted.start is Start.BEGINNING else head)
        return cursor, [self._about(FrameKind.SUBSCRIBED, cursor)]

    async def _standing(self, tail: LogTail, wanted: Subscription) -> tuple[_Cursor, list[Frame]]:
        """What stands, of what was asked for, and the number at which it does."""
        found = await self._logs.events.snapshot(tail.organization_id, tail.account_id)
        kinds, symbols = wanted.kinds, wanted.symbols
        holds = bool(kinds & {EventKind.BROKER_TRADE, EventKind.POSITION_ADJUSTED})
        told = [
            (FrameKind.ORDER, found.orders if EventKind.BROKER_ORDER in kinds else ()),
            (FrameKind.EXTERNAL_ORDER, found.external_orders if EventKind.EXTERNAL_ORDER in kinds else ()),
            (FrameKind.POSITION, found.positions if holds else ()),
        ]
        frames = [
            Frame(kind, tail.account_id, found.head, found.head, "", body=body)
            for kind, bodies in told
            for body in bodies
            if not symbols or body["symbol"] in symbols
        ]
        positions = sum(frame.kind is FrameKind.POSITION for frame in frames)
        counts = {"orders": len(frames) - positions, "positions": positions}
        frames.append(Frame(FrameKind.PRIMED, tail.account_id, found.head, found.head, "", body=counts))
        return _Cursor(tail, found.head), frames

    async def _page(self, cursor: _Cursor) -> tuple[Frame | None, Sequence[Entry]]:
        """What the tail no longer has, and a frame that says what nobody has any more."""
        tail, began = cursor.tail, cursor.position
        entries: Sequence[Entry] = ()
        # More may be removed between two reads: one frame tells of all, and what is left is read the next time.
        for _ in range(_PRUNED_MEANWHILE_MAX):
            entries = await self._logs.page(tail.organization_id, tail.account_id, cursor.position)
            if entries and entries[0].event.number == cursor.position + 1:
                break
            floor, _ = await self._logs.events.bounds(tail.organization_id, tail.account_id)
            if floor <= cursor.position:
                assert not entries, "the log has a hole"
                break
            cursor.position = cursor.previous = floor
            entries = ()
        if cursor.position == began or (cursor.untold and not began):
            return None, entries
        body = {"first_seq": began + 1, "last_seq": cursor.position, "reason": "RETENTION"}
        gap = self._about(FrameKind.GAP, cursor, body)
        gap.previous = began
        return gap, entries

    def _matching(self, cursor: _Cursor, entries: Sequence[Entry], wanted: Subscription) -> Iterator[Frame]:
        """One after the other: what a thousand followers are still to be sent need not be there at the same time."""
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
    """A database that was restored has forgotten events; their numbers are given again, to others."""
    if position > head:
        detail = "this resume token is ahead of the log, which was restored from a backup; begin anew with PRIMED"
        raise Problem("invalid_cursor", detail)


@contextlib.contextmanager
def _interrupting(
    access: Access, wake: Callable[[], None], interrupt: Callable[[Exception], None] | None
) -> Iterator[None]:
    """Whoever waits looks again, and whoever is stuck in sending is told, when access ends."""
    interrupts: set[Callable[[Exception], None]] = {lambda _: wake()}
    if interrupt is not None:
        interrupts.add(interrupt)
    access.interrupts |= interrupts
    try:
        yield
    finally:
        access.interrupts -= interrupts

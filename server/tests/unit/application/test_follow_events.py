"""Following an account's log: access is looked at again, and what is removed meanwhile is told, all of it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from uuid import uuid4

import pytest

from openbell_server.application.events import event_pace
from openbell_server.application.events.event_frames import Frame, FrameKind, Subscription
from openbell_server.application.events.event_tail_cache import READ_EVENTS_MAX, Entry, EventTailCache, LogTail
from openbell_server.application.events.follow_events import FollowEvents
from openbell_server.application.events.ports import Followed, Snapshot
from openbell_server.application.events.recheck_access import RecheckAccess
from openbell_server.domain.access.accounts import Environment, TradingAccount
from openbell_server.domain.access.caps import CAPS, Cap, caps_with
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.errors import Problem
from openbell_server.domain.events.account_events import AccountEvent, EventKind
from openbell_server.domain.events.cursors import seal
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId
from support.builders.tenant import a_trading_account

KEY = b"a secret"
ACCOUNT = a_trading_account(AccountId(uuid4()), OrganizationId(uuid4()))
CALLER = Principal(
    kind=PrincipalKind.API_KEY,
    id="key",
    organization_id=ACCOUNT.organization_id,
    environment=Environment.PAPER,
    permissions=frozenset(),
)


@dataclass
class Backlog:
    """An account whose log never ends, and a key that may be revoked."""

    revoked: bool = False

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        return ACCOUNT

    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        return 0, 1_000_000

    async def heads(self, organization_id: OrganizationId, account_ids: Sequence[AccountId]) -> dict[AccountId, int]:
        return {}

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        return [
            AccountEvent(
                account_id=account_id,
                number=number,
                kind=EventKind.INTENT_ACTION,
                intent_id=IntentId(uuid4()),
                seq=1,
                body="{}",
                occurred_at=datetime.now(UTC),
            )
            for number in range(after + 1, after + 1 + limit)
        ]

    async def first_since(
        self, organization_id: OrganizationId, account_id: AccountId, moment: datetime, head: int
    ) -> int:
        raise NotImplementedError

    async def snapshot(self, organization_id: OrganizationId, account_id: AccountId) -> Snapshot:
        raise AssertionError("nobody asks what stands")

    async def list_followed(
        self,
        organization_id: OrganizationId,
        environment: Environment | None,
        account_ids: Collection[AccountId] | None,
        limit: int,
    ) -> Followed | None:
        raise AssertionError("nobody follows all")

    def listen(self, notify: Callable[[AccountId], None]) -> None:
        """There is always more anyway."""

    async def enter(self) -> Principal:
        if self.revoked:
            raise Problem("unauthenticated", "no valid credential was sent")
        return CALLER


@dataclass
class Shrinking(Backlog):
    """A log that is pruned before every read."""

    floor: int = 0

    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        return self.floor, 1_000_000

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        self.floor = max(after, self.floor) + 10
        return await super().read_after(organization_id, account_id, self.floor, limit)


def following(
    log: Backlog, position: int, access: RecheckAccess | None = None, pace: Cap = CAPS["events_per_second"]
) -> AsyncGenerator[Frame, None]:
    """Everything, from a token of so many events."""
    rechecks = access or RecheckAccess(log, log)
    follow = FollowEvents(rechecks, EventTailCache(log, log, lambda event: b""), KEY, time.monotonic, pace)
    token = seal(KEY, f"events {ACCOUNT.id}", position)
    wanted = Subscription(account_id=ACCOUNT.id, kinds=frozenset(EventKind), resume_token=token)
    return follow.subscribe(log.enter, wanted)


async def test_frames_are_made_once_for_all_at_the_same_place_and_anew_after_the_next_event() -> None:
    log, tail = Backlog(), LogTail(ACCOUNT.organization_id, ACCOUNT.id, 0)
    events = await log.read_after(ACCOUNT.organization_id, ACCOUNT.id, 0, 3)
    tail.append([Entry(event, b"") for event in events[:2]])
    made = [tail.made_once((0, 0), list[Frame]) for _ in range(2)]
    assert made[0] is made[1]
    assert tail.made_once((1, 1), list[Frame]) is not made[0]
    tail.append([Entry(events[2], b"")])
    assert tail.made_once((0, 0), list[Frame]) is not made[0]


async def test_followers_beyond_the_cap_on_events_receive_every_event_later() -> None:
    pace = caps_with({"events_per_second": 4000})["events_per_second"]
    log = Backlog()

    async def follow() -> list[int]:
        frames = following(log, 0, pace=pace)
        numbers = [frame.position async for frame in _first(frames, 3000) if frame.kind is FrameKind.EVENT]
        await frames.aclose()
        return numbers

    async with asyncio.timeout(60):
        for numbers in await asyncio.gather(follow(), follow()):
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) > 2000


async def _first(frames: AsyncGenerator[Frame, None], count: int) -> AsyncIterator[Frame]:
    for _ in range(count):
        yield await anext(frames)


async def test_a_follower_that_waits_for_its_turn_sends_heartbeats_and_stops_when_its_access_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_pace, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(event_pace, "HEARTBEAT_SECONDS", 0.05)
    log = Backlog()
    # A page of the log takes minutes at one event a second.
    frames = following(log, 0, pace=replace(CAPS["events_per_second"], limit=1))
    async with asyncio.timeout(60):
        beats = [frame async for frame in _first(frames, 4)][1:]
        assert {(frame.kind, frame.position) for frame in beats} == {(FrameKind.HEARTBEAT, 0)}
        log.revoked = True
        with pytest.raises(Problem, match="no valid credential"):
            beats = [frame async for frame in frames]
        assert {frame.kind for frame in beats} == {FrameKind.HEARTBEAT}


async def test_a_log_that_is_pruned_between_reads_is_reported_in_gaps_that_join() -> None:
    frames = following(Shrinking(), 3)
    await anext(frames)
    taken = [await anext(frames) for _ in range(2 * (1 + READ_EVENTS_MAX))]
    await frames.aclose()
    first, second = (frame for frame in taken if frame.kind is FrameKind.GAP)
    assert first.body == {"first_seq": 4, "last_seq": 13, "reason": "RETENTION"}
    assert second.body == {"first_seq": 514, "last_seq": 523, "reason": "RETENTION"}
    assert [frame.previous for frame in taken] == [3, *(frame.position for frame in taken[:-1])]


@dataclass
class Holed(Backlog):
    """A log of which events were deleted although nothing records it."""

    floor: int = 0
    head: int = 9
    deleted: frozenset[int] = frozenset()

    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        return self.floor, self.head

    async def heads(self, organization_id: OrganizationId, account_ids: Sequence[AccountId]) -> dict[AccountId, int]:
        return dict.fromkeys(account_ids, self.head)

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        left = await super().read_after(organization_id, account_id, max(after, self.floor), limit)
        return [event for event in left if event.number <= self.head and event.number not in self.deleted]


async def read_frames(frames: AsyncGenerator[Frame, None], count: int) -> list[tuple[object, ...]]:
    """What follows the first frame: numbers of events, and first, last and reason of gaps."""
    async with asyncio.timeout(60):
        taken = [await anext(frames) for _ in range(1 + count)][1:]
    await frames.aclose()
    for before, frame in pairwise(taken):
        assert frame.previous == before.position
    return [tuple(frame.body.values()) if frame.body else (frame.position,) for frame in taken]


@pytest.mark.parametrize(
    ("log", "seen"),
    [
        (Holed(deleted=frozenset({4, 5})), [(4, 5, "DELETED"), (6,), (7,), (8,), (9,)]),
        (Holed(deleted=frozenset({6, 8})), [(4,), (5,), (6, 6, "DELETED"), (7,), (8, 8, "DELETED"), (9,)]),
        (Holed(deleted=frozenset({8, 9})), [(4,), (5,), (6,), (7,), (8, 9, "DELETED")]),
        (Holed(deleted=frozenset(range(1, 10))), [(4, 9, "DELETED")]),
        (Holed(floor=5, deleted=frozenset({6})), [(4, 5, "RETENTION"), (6, 6, "DELETED"), (7,), (8,), (9,)]),
    ],
)
async def test_events_that_were_deleted_without_pruning_are_reported_as_a_gap(
    log: Holed, seen: list[tuple[object, ...]]
) -> None:
    assert await read_frames(following(log, 3), len(seen)) == seen


async def test_a_follower_of_the_newest_events_receives_a_gap_for_deleted_ones() -> None:
    log = Holed()
    frames = following(log, 9)
    assert (await anext(frames)).kind is FrameKind.SUBSCRIBED
    # Committed and deleted before anybody has read them.
    log.head, log.deleted = 14, frozenset({10, 11, 13})
    async with asyncio.timeout(60):
        taken = [await anext(frames) for _ in range(4)]
        log.head, log.deleted = 15, frozenset({15})
        taken.append(await anext(frames))
    await frames.aclose()
    assert [(frame.kind, frame.previous, frame.position) for frame in taken] == [
        (FrameKind.GAP, 9, 11),
        (FrameKind.EVENT, 11, 12),
        (FrameKind.GAP, 12, 13),
        (FrameKind.EVENT, 13, 14),
        (FrameKind.GAP, 14, 15),
    ]


async def test_a_token_that_is_ahead_of_the_log_is_refused() -> None:
    frames = following(Backlog(), 1_000_001)
    with pytest.raises(Problem, match="ahead of the log"):
        await anext(frames)


async def test_a_revoked_key_loses_its_stream_however_much_there_is_still_to_send() -> None:
    log = Backlog()
    frames = following(log, 0)
    for _ in range(1 + READ_EVENTS_MAX):
        await anext(frames)
    log.revoked = True

    async def take_all() -> None:
        async for _ in frames:
            # A client that takes what it gets lets others run.
            await asyncio.sleep(0)

    with pytest.raises(Problem, match="no valid credential"):
        await asyncio.wait_for(take_all(), 60)


async def test_a_revoked_key_receives_not_one_event_more_of_the_page_it_is_in() -> None:
    log = Backlog()
    watch = RecheckAccess(log, log)
    frames = following(log, 0, watch)
    for _ in range(2):
        await anext(frames)
    (access,) = watch._open.values()
    log.revoked = True
    await until_so(lambda: access.ended is not None)
    with pytest.raises(Problem, match="no valid credential"):
        await anext(frames)


@dataclass
class Watched(Backlog):
    """How often the account was read."""

    reads: int = 0

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        self.reads += 1
        return ACCOUNT


@dataclass(eq=False)
class Door:
    """An Enter of its own; it opens, hangs or stays shut."""

    looks: int = 0
    hangs: bool = False
    is_shut: bool = False

    async def __call__(self) -> Principal:
        self.looks += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_shut:
            raise Problem("unauthenticated", "no valid credential was sent")
        return CALLER


async def until_so(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_an_account_is_read_once_for_all_who_are_looked_at_and_who_takes_long_keeps_nobody() -> None:
    log = Watched()
    watch, doors = RecheckAccess(log, log), [Door() for _ in range(20)]
    async with contextlib.AsyncExitStack() as opened:
        entered = [await opened.enter_async_context(watch.access(door, ACCOUNT.id)) for door in doors]
        before = log.reads
        doors[0].hangs = True
        await until_so(lambda: doors[1].looks >= 3)
        assert doors[0].looks == 2
        assert log.reads - before <= 3
        doors[2].is_shut = True
        await until_so(lambda: entered[2].ended is not None)
        assert [access.ended is None for access in entered] == [True, True, False] + [True] * 17


async def test_a_hint_that_brings_nothing_wakes_nobody() -> None:
    tail = LogTail(ACCOUNT.organization_id, ACCOUNT.id, 0)
    waiting = asyncio.ensure_future(tail.wait(0, 60))
    await asyncio.sleep(0)
    tail.append([])
    await asyncio.sleep(0)
    assert not waiting.done()
    tail.append([Entry((await Backlog().read_after(ACCOUNT.organization_id, ACCOUNT.id, 0, 1))[0], b"")])
    await asyncio.wait_for(waiting, 60)

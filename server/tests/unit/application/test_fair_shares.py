"""No organization takes what others need: reads at once, and events a second."""

import asyncio
from collections.abc import Callable
from uuid import uuid4

import pytest

from openbell_server.application.access import reads_at_once
from openbell_server.application.access.reads_at_once import ReadsAtOnce
from openbell_server.application.events.event_pace import BURST_SECONDS, KNOWN_MAX, EventPace
from openbell_server.domain.access.caps import caps_with
from openbell_server.domain.errors import CapReached
from openbell_server.domain.identifiers import OrganizationId

ONE, OTHER = OrganizationId(uuid4()), OrganizationId(uuid4())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> ReadsAtOnce:
    monkeypatch.setattr(reads_at_once, "WAIT_SECONDS", 0.05)
    return ReadsAtOnce(caps_with({"reads_at_once": 2})["reads_at_once"])


async def test_a_read_beyond_the_cap_is_refused_and_one_of_another_organization_is_not(reads: ReadsAtOnce) -> None:
    ends = [await reads.begin(ONE) for _ in range(2)]
    with pytest.raises(CapReached, match="OPENBELL_CAP_READS_AT_ONCE") as refused:
        await reads.begin(ONE)
    assert (refused.value.code, refused.value.limit) == ("too_many_reads", 2)
    (await reads.begin(OTHER))()
    ends[0]()
    (await reads.begin(ONE))()
    ends[1]()


async def test_a_burst_of_reads_waits_for_its_turn(reads: ReadsAtOnce, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads_at_once, "WAIT_SECONDS", 60.0)
    at_once = most = 0

    async def read() -> None:
        nonlocal at_once, most
        end = await reads.begin(ONE)
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        end()

    await asyncio.gather(*(read() for _ in range(30)))
    assert most == 2


async def test_the_reads_that_wait_are_bounded(reads: ReadsAtOnce, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads_at_once, "WAIT_SECONDS", 60.0)
    begun: list[Callable[[], None]] = [await reads.begin(ONE) for _ in range(2)]
    waiting = [asyncio.ensure_future(reads.begin(ONE)) for _ in range(2 * reads_at_once.WAITING_FACTOR)]
    await asyncio.sleep(0)
    with pytest.raises(CapReached):
        await reads.begin(ONE)
    # A caller that leaves while it waits gives its turn to the next.
    waiting.pop(0).cancel()
    for end in begun:
        end()
    for each in waiting:
        (await asyncio.wait_for(each, 60))()
    assert reads._of == {}


def test_events_beyond_the_cap_are_due_later_in_the_order_in_which_they_came() -> None:
    now = 100.0
    pace = EventPace(10, lambda: now)
    # What was not used in the last second may be used at once.
    assert pace.due(ONE, 10) <= now
    assert [pace.due(ONE, 5) - now for _ in range(3)] == [0.5, 1.0, 1.5]
    assert pace.due(OTHER, 10) <= now
    now += 1.5 + BURST_SECONDS
    assert pace.due(ONE, 10) <= now


def test_organizations_without_recent_events_are_dropped() -> None:
    now = 100.0
    pace = EventPace(10, lambda: now)
    for _ in range(KNOWN_MAX):
        pace.due(OrganizationId(uuid4()), 1)
    now += 10
    pace.due(ONE, 1)
    assert list(pace._paid_at) == [ONE]

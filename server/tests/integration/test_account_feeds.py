"""Accounts with feeds of their own: one that is away, back or mute stops its account until compared, and no other."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pytest

from openbell_server.adapters.postgres.access.accounts import PostgresAccountRecords
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.execution.sign_ins import PostgresSessionStore
from openbell_server.adapters.postgres.execution.slot_leases import PostgresLeaseStore
from openbell_server.application.execution.account_dispatcher import AccountDispatcher
from openbell_server.application.execution.follow_broker import FIND_ACCOUNTS_SECONDS, FollowBroker
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.application.execution.slot_leases import LEASE_SECONDS, SlotLeases
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import FeedItem, NotSignedIn
from openbell_server.brokers.paper.definition import PaperBroker
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.access.accounts import SessionState
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.orders.broker_reports import OrderReport, ReportStatus
from openbell_server.processes.executor import _Feeds
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness, ScriptedBroker, until_so
from support.builders.tenant import a_limit_create, a_report, a_tenant, accept, an_execution


@dataclass(slots=True)
class OwnFeeds(ScriptedBroker):
    """Each account has a feed; one that was begun anew is unheard until the reader knows."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    ends: bool = False

    def __post_init__(self) -> None:
        # A list that lags: whatever is found is found by name, and asked for one by one.
        self.lists = False
        self.gate.set()
        self.look_up = self.found

    async def found(self, name: str) -> OrderReport | None:
        gate = self.gate
        await gate.wait()
        return self.book.get(name)

    async def reports(self) -> AsyncIterator[FeedItem]:
        yield None
        while True:
            item = await self.feed.get()
            if self.ends:
                return
            if item is not None and item[1] is None:
                self.unheard.discard(item[0])
            yield item
            self.feed.task_done()

    async def begin(self, *accounts: AccountId) -> None:
        """Their feeds stand again, and the reader knows."""
        for account_id in accounts:
            await self.feed.put((account_id, None))
        await self.feed.join()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        ScriptedBroker.listen_again(self, accounts)
        self.unheard |= {*accounts}


class ByAccount(PaperBroker):
    """Every account has a feed of its own, which is expected to tell of an order within a moment."""

    def __init__(self, echo_seconds: float) -> None:
        super().__init__(PAPER)
        self.capabilities = replace(PAPER.capabilities, feeds_by_account=True, echo_seconds=echo_seconds)


class Hurried:
    """A clock that can be set forward."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
async def broker() -> OwnFeeds:
    return OwnFeeds()


@pytest.fixture
async def harness(pool: Pool, broker: OwnFeeds) -> Harness:
    return Harness(pool, await a_tenant(pool), broker)


@pytest.fixture
async def neighbour(harness: Harness) -> Harness:
    return await populated_tenant(harness)


async def populated_tenant(harness: Harness) -> Harness:
    return Harness(harness.pool, await a_tenant(harness.pool), harness.broker)


def following(
    harness: Harness,
    slots: SlotLeases | None = None,
    store: ExecutionStore | None = None,
    echo_seconds: float = 600.0,
    clock: Callable[[], float] = time.monotonic,
) -> AbstractAsyncContextManager[FollowBroker]:
    return harness.following(slots, store, ByAccount(echo_seconds), clock)


def ready(follow: FollowBroker, *harnesses: Harness) -> Callable[[], bool]:
    return lambda: all(follow.ready(harness.account) for harness in harnesses)


async def working_and_found(harness: Harness) -> tuple[IntentId, str]:
    """An order that its broker acknowledged and finds, and its client order id."""
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    return intent, order_id


def the_work_of(harness: Harness, follow: FollowBroker) -> AccountDispatcher:
    store = PostgresExecutionStore(harness.pool)
    settle, recover = (
        SettleUnknown(store, harness.track, harness.hints, harness.execute),
        RecoverAccount(store, harness.track),
    )
    return AccountDispatcher(store, harness.execute, settle, recover, {"paper": follow}, follow.slots)


async def until_asked_again(broker: OwnFeeds) -> None:
    asked = len(broker.asked)
    await until_so(lambda: len(broker.asked) > asked)


async def state_of(harness: Harness) -> str:
    return str(
        await harness.pool.fetchval("select state from action_states where account_id = $1", harness.account.account_id)
    )


async def test_an_account_whose_own_feed_is_away_opens_no_door_and_its_neighbour_does(
    harness: Harness, neighbour: Harness, broker: OwnFeeds
) -> None:
    broker.unheard.add(harness.account.account_id)
    async with following(harness) as follow:
        await until_so(ready(follow, neighbour))
        work = the_work_of(harness, follow)
        await accept(harness.pool, harness.tenant.submission(), neighbour.tenant.submission())
        for each in (harness, neighbour):
            work.notify(each.account.account_id)
        await until_so(lambda: broker.calls == 1 and not work._working)
        assert (await state_of(harness), broker.calls) == ("QUEUED", 1)
        await broker.begin(harness.account.account_id)
        await until_so(ready(follow, harness))
        work.notify(harness.account.account_id)
        await until_so(lambda: broker.calls == 2)
        await work.drain()
    assert follow.take_failures() == []


async def test_what_filled_while_its_own_feed_was_away_is_learned_before_a_door_opens(
    harness: Harness, neighbour: Harness, broker: OwnFeeds
) -> None:
    intent, order_id = await working_and_found(harness)
    async with following(harness) as follow:
        await until_so(ready(follow, harness, neighbour))
        broker.unheard.add(harness.account.account_id)
        assert not follow.ready(harness.account)
        broker.book[order_id] = a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id)
        broker.gate.clear()
        asked = len(broker.asked)
        await broker.begin(harness.account.account_id)
        await until_so(lambda: len(broker.asked) > asked or follow.ready(harness.account))
        assert (follow.ready(harness.account), follow.ready(neighbour.account)) == (False, True)
        broker.gate.set()
        await until_so(ready(follow, harness))
        assert (await harness.order(intent))["filled_quantity"] == 10


async def test_an_account_that_is_not_signed_in_opens_no_door_and_is_no_failure(
    harness: Harness, broker: OwnFeeds
) -> None:
    await harness.working()

    async def signed_out(name: str) -> OrderReport | None:
        raise NotSignedIn(name)

    broker.look_up = signed_out
    async with following(harness) as follow:
        # Asked again, so the first time is over.
        await until_so(lambda: len(broker.asked) > 1)
        assert not follow.ready(harness.account)
        assert follow.take_failures() == []


async def test_a_comparison_begun_before_its_own_feed_broke_again_opens_no_door(
    harness: Harness, broker: OwnFeeds
) -> None:
    await working_and_found(harness)
    async with following(harness) as follow:
        await until_so(ready(follow, harness))
        first = broker.gate = asyncio.Event()
        asked = len(broker.asked)
        await broker.begin(harness.account.account_id)
        await until_so(lambda: len(broker.asked) > asked)
        second = broker.gate = asyncio.Event()
        await broker.begin(harness.account.account_id)
        first.set()
        await until_so(lambda: len(broker.asked) > asked + 1 or follow.ready(harness.account))
        assert not follow.ready(harness.account)
        second.set()
        await until_so(ready(follow, harness))


async def test_a_feed_that_begins_while_its_slot_is_compared_is_compared_after_it(
    harness: Harness, broker: OwnFeeds
) -> None:
    await working_and_found(harness)
    first = broker.gate = asyncio.Event()
    async with following(harness) as follow:
        await until_so(lambda: len(broker.asked) == 1)
        second = broker.gate = asyncio.Event()
        await broker.begin(harness.account.account_id)
        first.set()
        await until_so(lambda: len(broker.asked) > 1 or follow.ready(harness.account))
        assert not follow.ready(harness.account)
        second.set()
        await until_so(ready(follow, harness))


async def test_an_account_with_nothing_open_is_ready_as_soon_as_it_is_heard_and_costs_no_call(
    harness: Harness, neighbour: Harness, broker: OwnFeeds
) -> None:
    both = [harness.account.account_id, neighbour.account.account_id]
    broker.unheard |= {*both}
    async with following(harness) as follow:
        await until_so(lambda: bool(follow.compared))
        assert not ready(follow, harness)()
        await broker.begin(*both)
        await until_so(ready(follow, harness, neighbour))
        assert (broker.listed, broker.asked) == ([], [])


async def test_a_beginning_of_all_while_that_of_an_account_waits_leaves_nobody_behind(
    harness: Harness, neighbour: Harness, broker: OwnFeeds
) -> None:
    await working_and_found(harness)
    async with following(harness) as follow:
        await until_so(ready(follow, harness, neighbour))
        for account_id in (harness.account.account_id, neighbour.account.account_id):
            await broker.feed.put((account_id, None))
        await broker.feed.put(None)
        await broker.feed.join()
        assert not follow.ready(harness.account)
        await until_so(ready(follow, harness, neighbour))


@dataclass(frozen=True, slots=True)
class Interrupted(PostgresExecutionStore):
    """Something happens while it looks for an account."""

    interrupt: Callable[[], None]

    async def find_account_across_organizations(self, account_id: AccountId) -> BrokerAccount | None:
        found = await PostgresExecutionStore.find_account_across_organizations(self, account_id)
        self.interrupt()
        return found


@pytest.mark.parametrize("is_paused", [True, False])
async def test_a_beginning_that_met_trouble_keeps_its_account_shut_no_longer_than_that(
    harness: Harness, broker: OwnFeeds, *, is_paused: bool
) -> None:
    interrupted = asyncio.Event()
    slots = await harness.all_slots()

    def interrupt() -> None:
        if not interrupted.is_set():
            interrupted.set()
            harness.clock.seconds += 2 * LEASE_SECONDS if is_paused else 0
            if not is_paused:
                raise ConnectionError

    async with following(harness, slots, Interrupted(harness.pool, interrupt)) as follow:
        await until_so(ready(follow, harness))
        await broker.begin(harness.account.account_id)
        async with asyncio.timeout(60):
            await interrupted.wait()
        await slots.renew()
        await until_so(ready(follow, harness))


async def test_a_mute_account_is_listened_to_again_and_the_feeds_of_others_go_on(
    harness: Harness, neighbour: Harness, broker: OwnFeeds
) -> None:
    clock = Hurried()
    async with following(harness, echo_seconds=0.2, clock=clock) as follow:
        await until_so(ready(follow, harness, neighbour))
        connects, work = follow._connects, the_work_of(harness, follow)
        await harness.accept(a_limit_create())
        work.notify(harness.account.account_id)
        await until_so(lambda: broker.again == [harness.account.account_id])
        assert (follow.ready(harness.account), follow.ready(neighbour.account)) == (False, True)
        # It is being begun anew, which takes longer than its next turn.
        clock.ahead += 120
        await until_asked_again(broker)
        clock.ahead += 120
        await until_asked_again(broker)
        (write,) = broker.writes
        report = a_report(ReportStatus.WORKING, client_order_id=write.client_order_id)
        broker.book[write.client_order_id] = report
        # What was still on its way ends the silence.
        await broker.feed.put((harness.account.account_id, report))
        await broker.begin(harness.account.account_id)
        await until_so(ready(follow, harness))
        assert (broker.again, follow._connects) == ([harness.account.account_id], connects)
        await work.drain()


async def test_an_account_of_a_slot_that_was_lost_is_neither_behind_nor_mute(
    harness: Harness, broker: OwnFeeds
) -> None:
    clock, slots = Hurried(), await harness.all_slots()
    harnesses = [harness, *[await populated_tenant(harness) for _ in range(7)]]
    everybody = {each.account.account_id: each.account.slot for each in harnesses}
    for each in harnesses:
        await working_and_found(each)
    async with following(harness, slots, clock=clock) as follow:
        await until_so(ready(follow, *harnesses))
        broker.gate.clear()
        await broker.begin(*everybody)
        follow.echoes.mute |= {*everybody}
        await SlotLeases(PostgresLeaseStore(harness.pool), uuid4(), harness.clock).renew()
        await slots.renew()
        ours = {account_id for account_id, slot in everybody.items() if slot in slots.held()}
        clock.ahead += FIND_ACCOUNTS_SECONDS
        await until_so(lambda: {*follow._behind} == ours == follow.echoes.mute)


async def test_an_account_whose_own_feed_is_away_is_shown_as_degraded(
    harness: Harness, neighbour: Harness, broker: OwnFeeds
) -> None:
    broker.unheard.add(harness.account.account_id)
    records, slots = PostgresAccountRecords(harness.pool, DatabaseClock(harness.pool)), await harness.all_slots()

    async def shown(each: Harness) -> SessionState:
        record = await records.find(each.account.organization_id, each.account.account_id)
        assert record is not None
        return record.session_status

    async with following(harness, slots) as follow:
        await until_so(ready(follow, neighbour))
        store = PostgresSessionStore(harness.pool, DatabaseClock(harness.pool))
        feeds = _Feeds(store, slots, {"paper": follow}, frozenset)
        await feeds.report()
        assert (await shown(harness), await shown(neighbour)) == (SessionState.DEGRADED, SessionState.READY)
        await broker.begin(harness.account.account_id)
        await feeds.report()
        assert await shown(harness) is SessionState.READY


async def test_no_door_opens_while_nobody_reads_the_feed_of_a_broker_that_seems_to_stand(
    harness: Harness, broker: OwnFeeds
) -> None:
    async with following(harness) as follow:
        await until_so(ready(follow, harness))
        broker.ends = True
        await broker.feed.put(None)
        await until_so(lambda: not follow.ready(harness.account))

        async def has_ended() -> bool:
            return not [task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == "FollowBroker.run"]  # type: ignore[union-attr]

        await until(has_ended)
        assert (broker.is_connected, follow.ready(harness.account)) == (True, False)

"""Following a broker whose feed is late, silent or foreign: comparisons keep the record true all the same."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.execution.account_dispatcher import AccountDispatcher
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.brokers.paper.definition import PaperBroker
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import Accepted, OrderReport, Outcome, ReportStatus
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness, ScriptedBroker, until_so
from support.builders.tenant import a_limit_create, a_report, a_tenant, an_execution, described

WORKING, FILLED = ReportStatus.WORKING, ReportStatus.FILLED


@dataclass(slots=True)
class GatedBroker(ScriptedBroker):
    """Its list is taken at once and answered when the gate is open."""

    gate: asyncio.Event | None = None

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        taken = await ScriptedBroker.orders_since(self, account_id, since)
        if self.gate is not None:
            await self.gate.wait()
        return taken


class SoonMute(PaperBroker):
    """Its feed is expected to tell of an order within a moment."""

    def __init__(self) -> None:
        super().__init__(PAPER)
        self.capabilities = replace(PAPER.capabilities, echo_seconds=0.2)


class Hurried:
    """A clock that can be set forward."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
async def harness(pool: Pool) -> Harness:
    return Harness(pool, await a_tenant(pool), GatedBroker())


def the_work_of(harness: Harness, follow: FollowBroker) -> AccountDispatcher:
    store = PostgresExecutionStore(harness.pool)
    settle = SettleUnknown(store, harness.track, harness.hints, harness.execute)
    recover = RecoverAccount(store, harness.track)
    return AccountDispatcher(store, harness.execute, settle, recover, {"paper": follow}, follow.slots)


def ready(follow: FollowBroker, harness: Harness) -> Callable[[], bool]:
    return lambda: follow.ready(harness.account)


async def until_position(harness: Harness, wanted: int) -> None:
    async def is_there() -> bool:
        return await harness.position() == wanted

    await until(is_there, 60)


async def test_a_report_that_comes_during_a_comparison_waits_for_it_and_is_not_lost(harness: Harness) -> None:
    assert isinstance(harness.broker, GatedBroker)
    intent, order_id = await harness.working()
    first, second = an_execution(1, 4), an_execution(2, 6)
    # As the broker stood when it was asked, and what it told while its answer was on the way.
    harness.broker.book[order_id] = described(a_report(WORKING, [first], client_order_id=order_id))
    resting = described(replace(a_report(WORKING, [an_execution(7, 5)]), client_order_id="by-phone"), "x1")
    harness.broker.book["x"] = resting
    gate = harness.broker.gate = asyncio.Event()
    async with harness.following() as follow:
        await until_so(lambda: len(harness.broker.listed) == 1)
        sold_more = replace(resting, filled_quantity=Decimal(8), executions=())
        harness.broker.book["x"] = sold_more
        harness.broker.book[order_id] = described(a_report(FILLED, [first, second], client_order_id=order_id))
        told = a_report(FILLED, [first, second], [second], order_id)
        await harness.broker.feed.put((harness.account.account_id, told))
        await harness.broker.feed.put((harness.account.account_id, sold_more))
        await harness.broker.feed.join()
        await asyncio.sleep(1)
        assert (await harness.position(), follow.ready(harness.account)) == (0, False)
        gate.set()
        await harness.until_closed(intent)
        await until_position(harness, 18)
        await until_so(ready(follow, harness))
    order = await harness.order(intent)
    assert (order["filled_quantity"], order["close_reason"]) == (10, "FILLED")
    assert follow.take_failures() == []


async def test_an_order_that_is_not_ours_and_that_the_feed_tells_of_is_kept_within_seconds(
    harness: Harness,
) -> None:
    async with harness.following() as follow:
        await until_so(ready(follow, harness))
        told = replace(a_report(FILLED, [an_execution(1, 7)]), client_order_id="by-phone", broker_order_id="x1")
        # Too old for the list: it is found by its name, and described there.
        harness.broker.book["by-phone"] = described(told, age=timedelta(days=9))
        await harness.broker.feed.put((harness.account.account_id, told))
        await until_position(harness, 7)
        assert harness.broker.asked == ["by-phone"]
        assert follow.reconcile.counts["external_orders"] == 1


async def test_a_fill_that_the_feed_never_tells_is_learned_within_a_minute(harness: Harness) -> None:
    clock = Hurried()
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = described(a_report(WORKING, client_order_id=order_id))
    async with harness.following(clock=clock) as follow:
        await until_so(ready(follow, harness))
        harness.broker.book[order_id] = described(a_report(FILLED, [an_execution(1, 10)], client_order_id=order_id))
        # The first minute has the look far back.
        clock.ahead += 120
        await harness.until_closed(intent)


async def test_a_late_fill_while_nobody_held_the_slot_is_learned_by_whoever_takes_it(harness: Harness) -> None:
    clock = Hurried()
    intent, order_id = await harness.working()
    await harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    await harness.reconcile()
    late = a_report(ReportStatus.CANCELED, [an_execution(1, 4)], client_order_id=order_id)
    harness.broker.book[order_id] = described(late, age=timedelta(hours=3))
    async with harness.following(clock=clock) as follow:
        await until_so(ready(follow, harness))
        clock.ahead += 61
        await until_position(harness, 4)
    assert (await harness.order(intent))["filled_quantity"] == 4


async def test_a_feed_that_is_mute_after_an_answer_is_begun_anew_and_its_orders_are_asked_for(
    harness: Harness,
) -> None:
    clock = Hurried()
    async with harness.following(definition=SoonMute(), clock=clock) as follow:
        await until_so(ready(follow, harness))
        work = the_work_of(harness, follow)
        connects = follow._connects

        async def taken(order_id: str) -> Outcome:
            harness.broker.book[order_id] = described(a_report(WORKING, client_order_id=order_id))
            return Accepted("b1")

        harness.broker.script.append(taken)
        intent = await harness.accept(a_limit_create())
        work.notify(harness.account.account_id)
        await until_so(lambda: follow.echoes.silences == 1)
        await until_so(lambda: follow._connects > connects and follow.ready(harness.account))
        assert follow.fallen_silent == [harness.account.account_id]
        assert follow.echoes.mute == {harness.account.account_id}
        (order_id,) = harness.broker.book
        filled = described(a_report(FILLED, [an_execution(1, 10)], client_order_id=order_id))
        harness.broker.book[order_id] = filled
        clock.ahead += 5
        await harness.until_closed(intent)
        await until_so(lambda: not follow.echoes.mute)
        assert (follow.echoes.silences, follow.echoes.restarts) == (1, 1)
        await work.drain()
    assert follow.take_failures() == []


async def test_a_feed_that_tells_of_what_was_answered_is_left_alone(harness: Harness) -> None:
    async with harness.following(definition=SoonMute()) as follow:
        await until_so(ready(follow, harness))
        work, connects = the_work_of(harness, follow), follow._connects

        async def told_first(order_id: str) -> Outcome:
            report = described(a_report(WORKING, client_order_id=order_id))
            harness.broker.book[order_id] = report
            await harness.broker.feed.put((harness.account.account_id, report))
            await harness.broker.feed.join()
            return Accepted("b1")

        harness.broker.script.append(told_first)
        await harness.accept(a_limit_create())
        work.notify(harness.account.account_id)
        await until_so(lambda: harness.broker.calls == 1)
        await work.drain()
        await asyncio.sleep(1)
        assert (follow.echoes.silences, follow._connects) == (0, connects)

"""Following a broker and working its accounts: nothing is sent before it was compared, and no trouble spreads."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from math import ceil
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.execution import settle_unknown
from openbell_server.application.execution.account_dispatcher import (
    ACCOUNTS_AT_ONCE_MAX,
    DOORS_AT_ONCE_MAX,
    AccountDispatcher,
)
from openbell_server.application.execution.execute_action import ExecuteAction
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.application.execution.slot_leases import LEASE_SECONDS, SlotLeases
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.orders.broker_reports import Accepted, OrderReport, Outcome, ReportStatus, Unknown
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness, LookUp, ScriptedBroker, until_so
from support.builders.tenant import Tenant, a_report, a_tenant, accept, an_execution

CALLS_AT_ONCE = PAPER.capabilities.calls_at_once_max
# Some places are for cancels and look-ups only.
CALLS_AT_ONCE -= ceil(CALLS_AT_ONCE * PAPER.capabilities.calls_reserved)


@pytest.fixture
async def harness(pool: Pool) -> Harness:
    # A list that lags: whatever is found is found by name.
    return Harness(pool, await a_tenant(pool), ScriptedBroker(lists=False))


def slow(broker: ScriptedBroker, gate: asyncio.Event) -> LookUp:
    """Look-ups that are answered once the gate is open."""

    async def look_up(order_id: str) -> OrderReport | None:
        await gate.wait()
        return broker.book.get(order_id)

    return look_up


def ready(follow: FollowBroker, harness: Harness) -> Callable[[], bool]:
    return lambda: follow.ready(harness.account)


async def working_and_found(harness: Harness) -> tuple[IntentId, str]:
    """An order that its broker acknowledged and finds, and its client order id."""
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    return intent, order_id


async def in_another_slot(harness: Harness) -> Tenant:
    while (tenant := await a_tenant(harness.pool)).account.slot == harness.account.slot:
        pass
    return tenant


async def test_a_comparison_begun_before_a_reconnect_makes_no_slot_ready(harness: Harness) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    await working_and_found(harness)
    harness.broker.look_up = slow(harness.broker, gates[0])
    async with harness.following() as follow:
        await until_so(lambda: len(harness.broker.asked) == 1)
        harness.broker.look_up = slow(harness.broker, gates[1])
        await harness.broker.feed.put(None)
        await harness.broker.feed.join()
        gates[0].set()
        await until_so(lambda: len(harness.broker.asked) > 1 or follow.ready(harness.account))
        assert not follow.ready(harness.account)
        gates[1].set()
        await until_so(ready(follow, harness))


async def test_a_reconnect_makes_no_slot_ready_while_an_earlier_look_up_is_on_its_way(harness: Harness) -> None:
    gate = asyncio.Event()
    _, order_id = await working_and_found(harness)
    async with harness.following() as follow:
        await until_so(ready(follow, harness))
        harness.broker.look_up = slow(harness.broker, gate)
        asked = len(harness.broker.asked)
        untold = a_report(ReportStatus.WORKING, [an_execution(1, 3)], (), order_id)
        await harness.broker.feed.put((harness.account.account_id, untold))
        await until_so(lambda: len(harness.broker.asked) > asked)
        assert follow.ready(harness.account)
        await harness.broker.feed.put(None)
        await harness.broker.feed.join()
        assert not follow.ready(harness.account)
        gate.set()
        await until_so(ready(follow, harness))


async def test_an_order_that_a_look_up_misses_at_connect_is_asked_for_again(harness: Harness) -> None:
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id)

    async def lags_once(order_id: str) -> OrderReport | None:
        return None if len(harness.broker.asked) == 1 else harness.broker.book.get(order_id)

    harness.broker.look_up = lags_once
    async with harness.following():
        await harness.until_closed(intent)
    assert (await harness.order(intent))["filled_quantity"] == 10
    assert harness.broker.asked == [order_id, order_id]


async def test_a_slot_is_not_ready_until_each_of_its_look_ups_was_answered_and_others_are(
    harness: Harness,
) -> None:
    neighbour = Harness(harness.pool, await in_another_slot(harness), harness.broker)
    _, poisoned = await working_and_found(harness)
    await working_and_found(neighbour)

    async def fails_for_one(order_id: str) -> OrderReport | None:
        if order_id == poisoned:
            raise TimeoutError
        return harness.broker.book.get(order_id)

    harness.broker.look_up = fails_for_one
    async with harness.following() as follow:
        await until_so(ready(follow, neighbour))
        await until_so(lambda: harness.broker.asked.count(poisoned) > 2 or follow.ready(harness.account))
        assert not follow.ready(harness.account)
        assert follow.ready(neighbour.account)
        assert {type(failure) for failure in follow.take_failures()} == {TimeoutError}
        harness.broker.look_up = None
        await until_so(ready(follow, harness))


async def test_a_report_that_met_a_lapsed_lease_is_learned_once_the_slot_is_held_again(
    harness: Harness,
) -> None:
    intent, order_id = await working_and_found(harness)
    slots = await harness.all_slots()
    async with harness.following(slots) as follow:
        await until_so(ready(follow, harness))
        filled = a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id)
        harness.broker.book[order_id] = filled
        # The executor stood still for longer than its leases last.
        harness.clock.seconds += 2 * LEASE_SECONDS
        await harness.broker.feed.put((harness.account.account_id, filled))
        await until_so(lambda: harness.broker.feed.empty() and not follow.compared)
        assert slots.held() == frozenset()
        await slots.renew()
        await harness.until_closed(intent)
    assert (await harness.order(intent))["filled_quantity"] == 10


def the_work_of(harness: Harness, follow: FollowBroker, slots: SlotLeases) -> AccountDispatcher:
    store = PostgresExecutionStore(harness.pool)
    settle, recover = (
        SettleUnknown(store, harness.track, harness.hints, harness.execute),
        RecoverAccount(store, harness.track),
    )
    return AccountDispatcher(store, harness.execute, settle, recover, {"paper": follow}, slots)


async def number_of(harness: Harness, state: str) -> int:
    return int(await harness.pool.fetchval("select count(*) from action_states where state = $1", state))


async def test_accounts_in_doubt_at_a_slow_broker_hold_up_no_door_of_others(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No look-up ends before the gate opens, so that the order is not sent after them.
    monkeypatch.setattr(settle_unknown, "CALL_SECONDS", 600.0)
    gate = asyncio.Event()
    slots = await harness.all_slots()
    async with harness.following(slots) as follow:
        await until_so(ready(follow, harness))
        for _ in range(ACCOUNTS_AT_ONCE_MAX):
            doubtful = Harness(harness.pool, await a_tenant(harness.pool), harness.broker)
            await accept(harness.pool, *(doubtful.tenant.submission() for _ in range(3)))
            harness.broker.script.extend([Unknown("no answer")] * 3)
            await doubtful.work()
        await harness.pool.execute("update action_states set updated_at = updated_at - interval '5 seconds'")
        harness.broker.look_up = slow(harness.broker, gate)
        work = the_work_of(harness, follow, slots)
        asked = len(harness.broker.asked)
        await work.sweep()
        await until_so(lambda: len(harness.broker.asked) > asked)
        await harness.accept()
        work.notify(harness.account.account_id)

        async def is_acknowledged() -> bool:
            return await number_of(harness, "ACKED") == 1

        await until(is_acknowledged, 60)
        gate.set()
        await work.drain()


async def test_a_burst_over_many_accounts_opens_no_more_doors_than_its_broker_takes_calls(
    harness: Harness,
) -> None:
    gate = asyncio.Event()

    async def when_open(_: str) -> Outcome:
        await gate.wait()
        return Accepted("b1")

    tenants = [await a_tenant(harness.pool) for _ in range(CALLS_AT_ONCE // DOORS_AT_ONCE_MAX + 4)]
    slots = await harness.all_slots()
    async with harness.following(slots) as follow:
        await until_so(ready(follow, harness))
        for tenant in tenants:
            await accept(harness.pool, *(tenant.submission() for _ in range(DOORS_AT_ONCE_MAX)))
        actions = len(tenants) * DOORS_AT_ONCE_MAX
        harness.broker.script.extend([when_open] * actions)
        work = the_work_of(harness, follow, slots)
        for tenant in tenants:
            work.notify(tenant.account.id)
        await until_so(lambda: not work._working and harness.broker.calls >= CALLS_AT_ONCE)
        assert (harness.broker.calls, await number_of(harness, "DISPATCHING")) == (CALLS_AT_ONCE, CALLS_AT_ONCE)
        gate.set()

        async def is_all_acknowledged() -> bool:
            return await number_of(harness, "ACKED") == actions

        await until(is_all_acknowledged)
        await work.drain()
    assert work.failures == []


async def test_an_account_is_not_looked_at_again_for_what_a_look_has_seen(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    slots = await harness.all_slots()
    async with harness.following(slots) as follow:
        await until_so(ready(follow, harness))
        work, account_id = the_work_of(harness, follow, slots), harness.account.account_id
        open_doors = ExecuteAction._open_doors

        async def counted(*called: Any) -> Any:
            looks.append(called)
            return await open_doors(*called)

        monkeypatch.setattr(ExecuteAction, "_open_doors", counted)

        async def looks_after(recorded_at: datetime | None) -> int:
            looks.clear()
            work.notify(account_id, recorded_at)
            # The word of the relay comes while the look at the api's goes on.
            work.notify(account_id, recorded_at)
            await until_so(lambda: not work._working and not work._in_flight)
            return len(looks)

        await harness.accept()
        recorded_at = await harness.pool.fetchval("select max(created_at) from intent_outbox")
        assert await looks_after(recorded_at) == 1
        assert await looks_after(recorded_at) == 0
        assert await looks_after(recorded_at + timedelta(hours=1)) == 2
        assert await looks_after(None) == 2
        await work.drain()
    assert await number_of(harness, "ACKED") == 1

"""Following a broker and working its accounts: nothing is sent before it was compared, and no trouble spreads."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from math import ceil
from typing import Any

import pytest

from builders import Tenant, a_report, a_tenant, accept, an_execution
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution import PostgresExecutionStore
from openbell_server.application.execute_action import ExecuteAction
from openbell_server.application.follow_broker import FollowBroker
from openbell_server.application.hold_slots import LEASE_SECONDS, HoldSlots
from openbell_server.application.recover_account import RecoverAccount
from openbell_server.application.settle_unknown import SettleUnknown
from openbell_server.application.work_accounts import ACCOUNTS_AT_ONCE_MAX, DOORS_AT_ONCE_MAX, WorkAccounts
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.broker_orders import Accepted, OrderReport, Outcome, ReportStatus, Unknown
from openbell_server.domain.identifiers import IntentId
from paper_broker import until
from scripted_broker import Desk, LookUp, ScriptedBroker, until_so

CALLS_AT_ONCE = PAPER.capabilities.calls_at_once_max
# Some places are for cancels and look-ups only.
CALLS_AT_ONCE -= ceil(CALLS_AT_ONCE * PAPER.capabilities.calls_reserved)


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    # A list that lags: whatever is found is found by name.
    return Desk(pool, await a_tenant(pool), ScriptedBroker(lists=False))


def slow(broker: ScriptedBroker, gate: asyncio.Event) -> LookUp:
    """Look-ups that are answered once the gate is open."""

    async def look_up(order_id: str) -> OrderReport | None:
        await gate.wait()
        return broker.book.get(order_id)

    return look_up


def ready(follow: FollowBroker, desk: Desk) -> Callable[[], bool]:
    return lambda: follow.ready(desk.account)


async def working_and_found(desk: Desk) -> tuple[IntentId, str]:
    """An order that its broker acknowledged and finds, and its client order id."""
    intent, order_id = await desk.working()
    desk.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    return intent, order_id


async def in_another_slot(desk: Desk) -> Tenant:
    while (tenant := await a_tenant(desk.pool)).account.slot == desk.account.slot:
        pass
    return tenant


async def test_a_comparison_begun_before_a_reconnect_makes_no_slot_ready(desk: Desk) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    await working_and_found(desk)
    desk.broker.look_up = slow(desk.broker, gates[0])
    async with desk.following() as follow:
        await until_so(lambda: len(desk.broker.asked) == 1)
        desk.broker.look_up = slow(desk.broker, gates[1])
        await desk.broker.feed.put(None)
        await desk.broker.feed.join()
        gates[0].set()
        await until_so(lambda: len(desk.broker.asked) > 1 or follow.ready(desk.account))
        assert not follow.ready(desk.account)
        gates[1].set()
        await until_so(ready(follow, desk))


async def test_a_reconnect_makes_no_slot_ready_while_an_earlier_look_up_is_on_its_way(desk: Desk) -> None:
    gate = asyncio.Event()
    _, order_id = await working_and_found(desk)
    async with desk.following() as follow:
        await until_so(ready(follow, desk))
        desk.broker.look_up = slow(desk.broker, gate)
        asked = len(desk.broker.asked)
        untold = a_report(ReportStatus.WORKING, [an_execution(1, 3)], (), order_id)
        await desk.broker.feed.put((desk.account.account_id, untold))
        await until_so(lambda: len(desk.broker.asked) > asked)
        assert follow.ready(desk.account)
        await desk.broker.feed.put(None)
        await desk.broker.feed.join()
        assert not follow.ready(desk.account)
        gate.set()
        await until_so(ready(follow, desk))


async def test_an_order_that_a_look_up_misses_at_connect_is_asked_for_again(desk: Desk) -> None:
    intent, order_id = await desk.working()
    desk.broker.book[order_id] = a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id)

    async def lags_once(order_id: str) -> OrderReport | None:
        return None if len(desk.broker.asked) == 1 else desk.broker.book.get(order_id)

    desk.broker.look_up = lags_once
    async with desk.following():
        await desk.until_closed(intent)
    assert (await desk.order(intent))["filled_quantity"] == 10
    assert desk.broker.asked == [order_id, order_id]


async def test_a_slot_is_not_ready_until_each_of_its_look_ups_was_answered_and_others_are(desk: Desk) -> None:
    neighbour = Desk(desk.pool, await in_another_slot(desk), desk.broker)
    _, poisoned = await working_and_found(desk)
    await working_and_found(neighbour)

    async def fails_for_one(order_id: str) -> OrderReport | None:
        if order_id == poisoned:
            raise TimeoutError
        return desk.broker.book.get(order_id)

    desk.broker.look_up = fails_for_one
    async with desk.following() as follow:
        await until_so(ready(follow, neighbour))
        await until_so(lambda: desk.broker.asked.count(poisoned) > 2 or follow.ready(desk.account))
        assert not follow.ready(desk.account)
        assert follow.ready(neighbour.account)
        assert {type(failure) for failure in follow.take_failures()} == {TimeoutError}
        desk.broker.look_up = None
        await until_so(ready(follow, desk))


async def test_a_report_that_met_a_lapsed_lease_is_learned_once_the_slot_is_held_again(desk: Desk) -> None:
    intent, order_id = await working_and_found(desk)
    slots = await desk.all_slots()
    async with desk.following(slots) as follow:
        await until_so(ready(follow, desk))
        filled = a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id)
        desk.broker.book[order_id] = filled
        # The executor stood still for longer than its leases last.
        desk.clock.seconds += 2 * LEASE_SECONDS
        await desk.broker.feed.put((desk.account.account_id, filled))
        await until_so(lambda: desk.broker.feed.empty() and not follow.compared)
        assert slots.held() == frozenset()
        await slots.renew()
        await desk.until_closed(intent)
    assert (await desk.order(intent))["filled_quantity"] == 10


def the_work_of(desk: Desk, follow: FollowBroker, slots: HoldSlots) -> WorkAccounts:
    store = PostgresExecutionStore(desk.pool)
    settle, recover = SettleUnknown(store, desk.track, desk.hints, desk.execute), RecoverAccount(store, desk.track)
    return WorkAccounts(store, desk.execute, settle, recover, {"paper": follow}, slots)


async def number_of(desk: Desk, state: str) -> int:
    return int(await desk.pool.fetchval("select count(*) from action_states where state = $1", state))


async def test_accounts_in_doubt_at_a_slow_broker_hold_up_no_door_of_others(desk: Desk) -> None:
    gate = asyncio.Event()
    slots = await desk.all_slots()
    async with desk.following(slots) as follow:
        await until_so(ready(follow, desk))
        for _ in range(ACCOUNTS_AT_ONCE_MAX):
            doubtful = Desk(desk.pool, await a_tenant(desk.pool), desk.broker)
            await accept(desk.pool, *(doubtful.tenant.submission() for _ in range(3)))
            desk.broker.script.extend([Unknown("no answer")] * 3)
            await doubtful.work()
        await desk.pool.execute("update action_states set updated_at = updated_at - interval '5 seconds'")
        desk.broker.look_up = slow(desk.broker, gate)
        work = the_work_of(desk, follow, slots)
        asked = len(desk.broker.asked)
        await work.sweep()
        await until_so(lambda: len(desk.broker.asked) > asked)
        await desk.accept()
        work.hear(desk.account.account_id)

        async def is_acknowledged() -> bool:
            return await number_of(desk, "ACKED") == 1

        # Less than the look-ups of one account take together.
        await until(is_acknowledged, 8)
        gate.set()
        await work.drain()


async def test_a_burst_over_many_accounts_opens_no_more_doors_than_its_broker_takes_calls(desk: Desk) -> None:
    gate = asyncio.Event()

    async def when_open(_: str) -> Outcome:
        await gate.wait()
        return Accepted("b1")

    tenants = [await a_tenant(desk.pool) for _ in range(CALLS_AT_ONCE // DOORS_AT_ONCE_MAX + 4)]
    slots = await desk.all_slots()
    async with desk.following(slots) as follow:
        await until_so(ready(follow, desk))
        for tenant in tenants:
            await accept(desk.pool, *(tenant.submission() for _ in range(DOORS_AT_ONCE_MAX)))
        actions = len(tenants) * DOORS_AT_ONCE_MAX
        desk.broker.script.extend([when_open] * actions)
        work = the_work_of(desk, follow, slots)
        for tenant in tenants:
            work.hear(tenant.account.id)
        await until_so(lambda: not work._working and desk.broker.calls >= CALLS_AT_ONCE)
        assert (desk.broker.calls, await number_of(desk, "DISPATCHING")) == (CALLS_AT_ONCE, CALLS_AT_ONCE)
        gate.set()

        async def is_all_acknowledged() -> bool:
            return await number_of(desk, "ACKED") == actions

        await until(is_all_acknowledged)
        await work.drain()
    assert work.failures == []


async def test_an_account_is_not_looked_at_again_for_what_a_look_has_seen(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    slots = await desk.all_slots()
    async with desk.following(slots) as follow:
        await until_so(ready(follow, desk))
        work, account_id = the_work_of(desk, follow, slots), desk.account.account_id
        open_doors = ExecuteAction._open_doors

        async def counted(*called: Any) -> Any:
            looks.append(called)
            return await open_doors(*called)

        monkeypatch.setattr(ExecuteAction, "_open_doors", counted)

        async def looks_after(recorded_at: datetime | None) -> int:
            looks.clear()
            work.hear(account_id, recorded_at)
            # The word of the relay comes while the look at the api's goes on.
            work.hear(account_id, recorded_at)
            await until_so(lambda: not work._working and not work._in_flight)
            return len(looks)

        await desk.accept()
        recorded_at = await desk.pool.fetchval("select max(created_at) from intent_outbox")
        assert await looks_after(recorded_at) == 1
        assert await looks_after(recorded_at) == 0
        assert await looks_after(recorded_at + timedelta(hours=1)) == 2
        assert await looks_after(None) == 2
        await work.drain()
    assert await number_of(desk, "ACKED") == 1

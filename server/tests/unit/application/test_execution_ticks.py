"""Ticks of an executor: who is written together, who takes the long way, and that nobody waits for ever."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from openbell_server.application.execution import execution_ticks
from openbell_server.application.execution.execution_ticks import LONG_WAY_SECONDS, SLOW_SECONDS
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.controls.symbol_controls import SymbolControls
from openbell_server.domain.identifiers import Symbol, client_order_id
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.broker_reports import Accepted, OrderReport, Refused, ReportStatus
from openbell_server.domain.orders.intents import ActionType
from support.builders.tenant import a_cancel, a_report, an_execution
from support.environment.scripted_ticks import Executor, broken
from support.environment.store_benches import InMemory
from support.environment.tick_benches import memory_tick_bench

TWO, THREE = an_execution(1, 2), an_execution(2, 3)


@pytest.fixture
async def executor() -> Executor:
    return Executor(await memory_tick_bench())


def report_of(door: Any, *fills: Any) -> OrderReport:
    return a_report(ReportStatus.WORKING, fills, client_order_id=client_order_id(door.action.action_id))


async def soon(*work: Awaitable[Any]) -> list[Any]:
    """Nobody is left waiting."""
    return await asyncio.wait_for(asyncio.gather(*work), 10)


async def two_accounts(executor: Executor) -> list[BrokerAccount]:
    return [await executor.bench.database.another_account() for _ in range(2)]


# ---- together


async def test_what_comes_in_one_turn_is_written_in_one_tick(executor: Executor) -> None:
    doors = [await executor.door(account) for account in [executor.bench.account, *await two_accounts(executor)]]
    executor.store.ticks.clear()
    written = await soon(*(executor.ticks.record(door, Accepted("b")) for door in doors))
    assert [each.state for each in written] == [ActionState.ACKED] * 3
    assert [len(units) for units, _ in executor.store.ticks] == [3]
    assert sorted(executor.hints.accounts) == sorted(door.account.account_id for door in doors)


async def test_an_answer_and_a_report_of_one_order_are_one_unit(executor: Executor) -> None:
    door = await executor.door()
    executor.store.ticks.clear()
    written, applied = await soon(
        executor.ticks.record(door, Accepted("b1")), executor.ticks.apply([report_of(door, TWO)])
    )
    assert (written.order.filled_quantity, applied) == (2, ([], []))
    ((units, _),) = executor.store.ticks
    assert len(units) == 1


async def test_an_answer_waits_a_moment_for_the_first_report_of_its_order(executor: Executor) -> None:
    door = await executor.door()
    executor.store.ticks.clear()
    answer = asyncio.ensure_future(executor.ticks.record(door, Accepted("b1")))
    for _ in range(3):
        await asyncio.sleep(0)
    applied = await soon(executor.ticks.apply([report_of(door, TWO)]))
    assert applied == [([], [])]
    written = await answer
    assert written is not None
    assert written.order.filled_quantity == 2
    assert [len(units) for units, _ in executor.store.ticks] == [1]


async def test_an_answer_without_a_report_is_written_alone(executor: Executor) -> None:
    door = await executor.door()
    executor.store.ticks.clear()
    (written,) = await soon(executor.ticks.record(door, Accepted("b1")))
    assert written.state == ActionState.ACKED
    assert [len(units) for units, _ in executor.store.ticks] == [1]


async def test_what_comes_while_a_tick_is_written_goes_with_the_next(executor: Executor) -> None:
    door = await executor.door()
    executor.store.ticks.clear()
    executor.store.gate = asyncio.Event()
    first = asyncio.ensure_future(executor.ticks.record(door, Accepted("b1")))
    await asyncio.sleep(0.01)
    second = asyncio.ensure_future(executor.ticks.apply([report_of(door, TWO)]))
    await asyncio.sleep(0)
    assert len(executor.store.ticks) == 1
    executor.store.gate.set()
    _, applied = await soon(first, second)
    assert applied == ([], [])
    assert [len(units) for units, _ in executor.store.ticks] == [1, 1]


async def test_a_repeated_report_changes_nothing(executor: Executor) -> None:
    door = await executor.door()
    report = report_of(door, TWO)
    assert await executor.ticks.apply([report]) == ([], [])
    before = await executor.bench.record()
    assert await soon(executor.ticks.apply([report, report]), executor.ticks.apply([report])) == [([], [])] * 2
    assert await executor.bench.record() == before
    assert executor.ticks.long_way == {}


async def test_a_report_that_counts_more_than_it_tells_is_returned_as_incomplete(executor: Executor) -> None:
    door = await executor.door()
    report = replace(report_of(door, TWO, THREE), executions=(TWO,))
    assert await executor.ticks.apply([report]) == ([], [report])


# ---- the long way


async def test_a_changed_version_takes_the_long_way_and_the_order_is_forgotten(executor: Executor) -> None:
    door = await executor.door()
    await executor.bench.accept(a_cancel(door.action.intent_id))
    before = await executor.bench.record()
    assert await soon(executor.ticks.record(door, Accepted("b1"))) == [None]
    assert await executor.bench.record() == before
    assert executor.ticks.long_way == {"changed": 1}
    executor.store.ticks.clear()
    assert await executor.ticks.apply([report_of(door, TWO)]) == ([report_of(door, TWO)], [])
    assert executor.store.ticks == []


async def test_news_that_came_while_the_tick_was_written_take_the_long_way_with_it(executor: Executor) -> None:
    door = await executor.door()
    await executor.bench.accept(a_cancel(door.action.intent_id))
    executor.store.gate = asyncio.Event()
    answer = asyncio.ensure_future(executor.ticks.record(door, Accepted("b1")))
    await asyncio.sleep(0.01)
    report = asyncio.ensure_future(executor.ticks.apply([report_of(door, TWO)]))
    await asyncio.sleep(0.01)
    executor.store.gate.set()
    assert await soon(answer, report) == [None, ([report_of(door, TWO)], [])]


async def test_an_order_that_others_will_change_is_forgotten(executor: Executor) -> None:
    door = await executor.door()
    executor.ticks.forget(door.action.action_id)
    assert await executor.ticks.record(door, Accepted("b1")) is None


async def test_a_door_that_another_opened_takes_the_long_way(executor: Executor) -> None:
    door = await executor.door()
    assert await executor.ticks.record(replace(door), Accepted("b1")) is None


async def test_an_error_of_the_store_sends_everyone_the_long_way_and_loses_nobody(executor: Executor) -> None:
    doors = [await executor.door(account) for account in await two_accounts(executor)]
    waiting = await executor.accounts(3)
    executor.store.before_tick = broken
    found = await soon(
        executor.ticks.record(doors[0], Accepted("b1")),
        executor.ticks.apply([report_of(doors[1], TWO)]),
        *(executor.ticks.open_doors(account, 1) for account in waiting),
    )
    assert found == [None, ([report_of(doors[1], TWO)], []), None, None, None]
    assert [type(error).__name__ for error in executor.ticks.failures] == ["Broken"]
    executor.store.before_tick = lambda: None
    assert await executor.door() is not None


async def test_an_error_while_terms_are_read_loses_nobody(executor: Executor) -> None:
    door, waiting = await executor.door(), await executor.accounts(2)
    executor.store.before_terms = broken
    found = await soon(
        executor.ticks.record(door, Accepted("b1")), *(executor.ticks.open_doors(account, 1) for account in waiting)
    )
    assert found == [None, None, None]


async def test_a_locked_account_takes_the_long_way_and_the_others_are_written(executor: Executor) -> None:
    accounts = await two_accounts(executor)
    doors = [await executor.door(account) for account in accounts]
    more = await executor.accounts(2)
    executor.store.locked = {accounts[0].account_id, more[1].account_id}
    found = await soon(
        *(executor.ticks.record(door, Accepted("b")) for door in doors),
        *(executor.ticks.open_doors(account, 1) for account in more),
    )
    assert [each is not None for each in found] == [False, True, True, False]
    assert executor.ticks.long_way == {"blocked": 2}


async def test_a_restore_that_one_account_shows_keeps_no_other_of_its_tick_from_opening(executor: Executor) -> None:
    restored, other, locked = sorted(await executor.accounts(3), key=lambda account: account.account_id)
    await soon(*(executor.ticks.open_doors(account, 0) for account in (restored, other, locked)))
    terms = executor.ticks._terms
    terms[restored.account_id] = replace(terms[restored.account_id], database_epoch=2)
    executor.store.locked = {locked.account_id}
    found = await soon(*(executor.ticks.open_doors(account, 1) for account in (restored, other, locked)))
    assert [each is not None for each in found] == [False, True, False]
    assert executor.ticks.failures == []


async def test_one_execution_of_two_orders_is_left_to_the_long_way(executor: Executor) -> None:
    first, second = await executor.door(), await executor.door()
    reports = report_of(first, TWO), report_of(second, TWO)
    assert await soon(*(executor.ticks.apply([report]) for report in reports)) == [([], []), ([reports[1]], [])]


async def test_an_order_of_a_slot_that_is_not_held_any_more_takes_the_long_way(executor: Executor) -> None:
    door = await executor.door()
    executor.slots = ()
    report = report_of(door, TWO)
    assert await executor.ticks.apply([report]) == ([report], [])
    assert await executor.ticks.record(door, Accepted("b1")) is None
    assert (await executor.bench.again(door.action)).state is ActionState.DISPATCHING


async def test_a_fill_whose_price_a_rule_needs_takes_the_long_way(executor: Executor) -> None:
    door = await executor.door()
    account = executor.bench.account
    executor.ticks.priced = {(account.organization_id, account.broker, Symbol("AAPL"))}
    report = report_of(door, TWO)
    assert await executor.ticks.apply([report]) == ([report], [])
    assert await executor.ticks.apply([report_of(door)]) == ([], [])


async def test_the_oldest_orders_are_forgotten_first(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_ticks, "ORDERS_REMEMBERED_MAX", 2)
    doors = [await executor.door() for _ in range(3)]
    found = [await executor.ticks.record(door, Refused("1", "")) for door in doors]
    assert [each is not None for each in found] == [False, True, True]


# ---- doors


async def test_a_slow_tick_makes_the_next_open_fewer_doors(executor: Executor) -> None:
    accounts = await executor.accounts(10)
    executor.store.seconds = SLOW_SECONDS + 0.1
    await soon(*(executor.ticks.open_doors(account, 64) for account in accounts))
    opened = [sum(request.doors for request in doors) for _, doors in executor.store.ticks]
    assert opened == [256, *[64] * 6]


async def test_quick_ticks_open_as_many_doors_as_before(executor: Executor) -> None:
    accounts = await executor.accounts(10)
    await soon(*(executor.ticks.open_doors(account, 64) for account in accounts))
    assert [sum(request.doors for request in doors) for _, doors in executor.store.ticks] == [256, 256, 128]


async def test_an_account_with_rules_is_not_opened(executor: Executor) -> None:
    database, account = executor.bench.database, executor.bench.account
    assert isinstance(database, InMemory)
    await executor.bench.accept()
    database.memory.books[account.account_id].controls = {Symbol("AAPL"): SymbolControls()}
    assert await soon(executor.ticks.open_doors(account, 1)) == [None]
    assert executor.store.ticks == []
    assert executor.ticks.long_way == {"rules": 1}


async def test_a_cancel_takes_the_long_way_and_the_next_command_of_its_account_does_not(executor: Executor) -> None:
    database, account = executor.bench.database, executor.bench.account
    assert isinstance(database, InMemory)
    door = await executor.door()
    await executor.bench.accept(a_cancel(door.action.intent_id))
    assert await executor.ticks.open_doors(account, 1) is None
    # The long way has sent it.
    actions = database.memory.books[account.account_id].actions
    (cancel,) = [row for row in actions.values() if row.action_type is ActionType.CANCEL]
    actions[cancel.action_id] = replace(cancel, state=ActionState.DISPATCHING)
    await executor.bench.accept()
    opened = await executor.ticks.open_doors(account, 1)
    assert opened is not None
    assert len(opened.doors) == 1
    assert executor.ticks.long_way == {"CANCELS": 1}


async def test_an_account_that_needed_the_long_way_is_tried_again_after_a_while(executor: Executor) -> None:
    account = executor.bench.account
    await executor.door()
    await executor.bench.change("halt")
    executor.store.ticks.clear()
    assert await executor.ticks.open_doors(account, 1) is None
    assert await executor.ticks.open_doors(account, 1) is None
    assert len(executor.store.ticks) == 1
    assert executor.ticks.long_way == {"HALTED": 1, "recently": 1}
    executor.clock.seconds += LONG_WAY_SECONDS + 0.1
    assert await executor.ticks.open_doors(account, 1) is None
    assert len(executor.store.ticks) == 2


async def test_terms_are_read_again_after_they_were_outdated(executor: Executor) -> None:
    await executor.door()
    await executor.bench.change("epoch")
    await executor.bench.accept()
    assert await executor.ticks.open_doors(executor.bench.account, 1) is None
    opened = await executor.ticks.open_doors(executor.bench.account, 1)
    assert opened is not None
    assert len(opened.doors) == 1


async def test_an_account_waits_once(executor: Executor) -> None:
    (account,) = await executor.accounts(1)
    first, second = await soon(executor.ticks.open_doors(account, 1), executor.ticks.open_doors(account, 1))
    assert (len(first.doors), second) == (1, None)


async def test_a_cancelled_waiter_breaks_nothing(executor: Executor) -> None:
    doors = [await executor.door(account) for account in await two_accounts(executor)]
    waiting = await executor.accounts(2)
    executor.store.gate = asyncio.Event()
    tasks: list[asyncio.Future[Any]] = [
        *(asyncio.ensure_future(executor.ticks.record(door, Accepted("b"))) for door in doors),
        *(asyncio.ensure_future(executor.ticks.open_doors(account, 1)) for account in waiting),
    ]
    await asyncio.sleep(0.01)
    tasks[0].cancel()
    tasks[2].cancel()
    executor.store.gate.set()
    written, opened = await soon(tasks[1], tasks[3])
    assert (written.state, len(opened.doors)) == (ActionState.ACKED, 1)
    # What nobody waits for any more is written all the same.
    found = await executor.bench.look(doors[0].action.action_id, doors[0].action.intent_id, doors[0].account)
    assert found.state is ActionState.ACKED
    assert executor.ticks.failures == []
    assert await executor.door() is not None

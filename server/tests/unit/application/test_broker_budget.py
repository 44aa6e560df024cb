"""The budget of one broker, on a clock that stands until it is set."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.application.execution.broker_budget import (
    PAUSE_SECONDS_MAX,
    BrokerBudget,
    BudgetedSession,
    Room,
    Use,
)
from openbell_server.application.ports.broker import SlowDown
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, OrderReport, Unknown
from support.brokers.execution_harness import Clock
from support.brokers.paper_broker import ACCOUNT, named, resting, soon
from support.brokers.scripted_broker import ScriptedBroker, until_so


def a_budget(clock: Clock, per_second: float | None = None, at_once: int = 100, reserved: float = 0.2) -> BrokerBudget:
    capabilities = replace(
        PAPER.capabilities, calls_per_second_max=per_second, calls_at_once_max=at_once, calls_reserved=reserved
    )
    return BrokerBudget(capabilities, clock)


def spend(budget: BrokerBudget, use: Use, calls: int) -> None:
    for _ in range(calls):
        budget.begin(use)
        budget.end(use)


def test_without_a_limit_per_second_only_calls_at_once_count() -> None:
    budget = a_budget(Clock(), at_once=10)
    spend(budget, Use.COMMAND, 1_000)
    assert budget.room() == Room(10, 8)
    budget.begin(Use.COMMAND)
    assert budget.room() == Room(9, 7)


def test_commands_leave_the_reserve_to_cancels_and_look_ups() -> None:
    budget = a_budget(Clock(), per_second=10)
    spend(budget, Use.COMMAND, 8)
    assert budget.room() == Room(2, 0)
    assert [budget.may_begin(use) for use in Use] == [False, True, True]


def test_look_ups_leave_half_of_the_reserve_to_cancels() -> None:
    budget = a_budget(Clock(), per_second=10)
    spend(budget, Use.COMMAND, 8)
    spend(budget, Use.LOOK_UP, 1)
    assert [budget.may_begin(use) for use in Use] == [False, True, False]
    spend(budget, Use.CANCEL, 1)
    assert not any(budget.may_begin(use) for use in Use)


def test_a_budget_of_one_call_leaves_it_to_whoever_comes() -> None:
    clock = Clock()
    budget = a_budget(clock, per_second=0.5, at_once=1)
    assert all(budget.may_begin(use) for use in Use)
    spend(budget, Use.COMMAND, 1)
    clock.seconds = 1.9
    assert budget.room() == Room(0, 0)
    clock.seconds = 2.0
    assert budget.room() == Room(1, 1)


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.floats(0, 0.7), st.sampled_from(Use)), max_size=120),
)
def test_in_no_second_begin_more_calls_than_the_broker_allows(per_second: int, steps: list[tuple[float, Use]]) -> None:
    clock = Clock()
    budget = a_budget(clock, per_second=per_second)
    begun: list[tuple[float, Use]] = []
    for pause, use in steps:
        clock.seconds += pause
        if budget.may_begin(use):
            spend(budget, use, 1)
            begun.append((clock.seconds, use))
    reserved = min(per_second - 1, -(-per_second // 5))
    for at, _ in begun:
        within = [use for when, use in begun if at - 1 < when <= at]
        assert len(within) <= per_second
        assert within.count(Use.COMMAND) <= per_second - reserved


def test_places_kept_for_doors_are_nobody_else_s_until_they_are_given_back() -> None:
    budget = a_budget(Clock(), per_second=10)
    kept = budget.room().at_most(4, 3)
    budget.keep(kept)
    assert budget.room() == Room(6, 5)
    budget.let_go(kept)
    assert budget.room() == Room(10, 8)


def test_a_broker_that_wants_calm_gets_no_new_order_for_as_long_as_it_says_and_every_cancel() -> None:
    clock = Clock()
    budget = a_budget(clock, at_once=10)
    budget.notify(Use.COMMAND, NotSent("429", retry_after=7))
    assert (budget.is_paused, budget.room()) == (True, Room(10, 0))
    assert [budget.may_begin(use) for use in Use] == [False, True, True]
    clock.seconds = 7
    assert not budget.is_paused
    # One goes first.
    assert budget.room() == Room(10, 1)
    budget.begin(Use.COMMAND)
    assert budget.room().commands == 0
    budget.end(Use.COMMAND)
    budget.notify(Use.COMMAND, Accepted("b1"))
    assert budget.room() == Room(10, 8)


def test_a_broker_that_goes_on_wanting_calm_is_left_alone_for_longer_and_longer() -> None:
    clock, pauses = Clock(), []
    budget = a_budget(clock)
    for _ in range(9):
        budget.slow_down(0)
        begun = clock.seconds
        while budget.is_paused:
            clock.seconds += 0.5
        pauses.append(clock.seconds - begun)
    assert pauses == [1, 2, 4, 8, 16, 32, PAUSE_SECONDS_MAX, PAUSE_SECONDS_MAX, PAUSE_SECONDS_MAX]


def test_calls_turned_away_together_are_one_request_for_calm() -> None:
    clock = Clock()
    budget = a_budget(clock)
    for _ in range(8):
        budget.notify(Use.COMMAND, NotSent("429", retry_after=1))
    clock.seconds = 1
    assert not budget.is_paused


@pytest.mark.parametrize("outcome", [NotSent("no connection"), Unknown("no answer")])
def test_trouble_that_is_no_request_for_calm_pauses_nothing(outcome: NotSent | Unknown) -> None:
    budget = a_budget(Clock())
    budget.notify(Use.COMMAND, outcome)
    assert not budget.is_paused


async def test_a_look_up_waits_for_its_turn_and_a_cancel_does_not_wait_behind_it() -> None:
    clock, broker = Clock(), ScriptedBroker()
    budget = a_budget(clock, per_second=10)
    session = BudgetedSession(broker, budget)
    spend(budget, Use.COMMAND, 8)
    await session.find(ACCOUNT, named("first"))
    waiting = asyncio.ensure_future(session.find(ACCOUNT, named("second")))
    await session.cancel(ACCOUNT, named("order"), soon())
    assert broker.asked == ["first"]
    clock.seconds = 1
    await waiting
    assert broker.asked == ["first", "second"]


async def test_a_look_up_that_is_given_up_while_it_waits_takes_nobody_s_turn() -> None:
    clock, broker = Clock(), ScriptedBroker()
    budget = a_budget(clock, per_second=1)
    session = BudgetedSession(broker, budget)
    spend(budget, Use.LOOK_UP, 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await session.find(ACCOUNT, named("late"))
    clock.seconds = 1
    await session.find(ACCOUNT, named("next"))
    assert (broker.asked, budget._under_way.total()) == (["next"], 0)


async def test_a_look_up_that_the_broker_turns_away_pauses_new_orders_and_a_command_outside_doors_is_not_sent() -> None:
    broker, budget = ScriptedBroker(), a_budget(Clock())

    async def wants_calm(_: str) -> OrderReport | None:
        raise SlowDown(5)

    broker.look_up = wants_calm
    session = BudgetedSession(broker, budget)
    with pytest.raises(SlowDown):
        await session.find(ACCOUNT, named("order"))
    assert budget.is_paused
    assert isinstance(await session.submit(resting()), NotSent)
    assert broker.calls == 0


async def test_calls_that_fail_give_their_places_back() -> None:
    broker, budget = ScriptedBroker(), a_budget(Clock(), at_once=3)
    session = BudgetedSession(broker, budget)
    broker.script.extend([ValueError("a bug"), ValueError("a bug")])
    for call in (session.submit(resting()), session.cancel(ACCOUNT, named("order"), soon())):
        with pytest.raises(ValueError, match="a bug"):
            await call
    await until_so(lambda: budget.room() == Room(3, 2))

"""What a tick writes of orders, as PostgreSQL and the simulation's memory both write it."""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from openbell_server.application.execution.ports import Opened, Unit
from openbell_server.application.ports.account_transaction import TrackedAction
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.broker_reports import Accepted, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_aggregate import CloseReason, Standing
from openbell_server.domain.orders.positions import PositionCause
from simulation.memory_database import Move
from support.builders.tenant import a_cancel, a_limit_create, a_replace, an_execution
from support.environment.store_benches import PostgresDatabase
from support.environment.tick_benches import ALL_SLOTS, TickBench, after, filled

# The broker reports a rebate of the one, and no fee of the other.
TWO, THREE = an_execution(1, 2, fee="-0.000000000000000000001"), an_execution(2, 3)
FILLED = ReportStatus.FILLED


async def bodies(bench: TickBench, after_number: int = 0) -> list[dict[str, Any]]:
    """The events since a number, which have no gap."""
    events = await bench.database.events(bench.account)
    assert [number for number, _ in events] == [*range(1, len(events) + 1)]
    return [json.loads(body or "{}") for number, body in events if number > after_number]


async def positions(bench: TickBench) -> list[str]:
    """As the trades say, in the order of the log."""
    return [body["position"] for body in await bodies(bench) if "position" in body]


# ---- a unit is written as a whole


async def test_an_accepted_order_is_written_with_its_action_and_both_events(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    unit = tick_bench.of(opened, Accepted("b1"))
    assert (await tick_bench.tick([unit])).written == [True]
    found = await tick_bench.again(opened.action)
    assert (found.state, found.settled_at is not None) == (ActionState.ACKED, True)
    assert found.order == unit.after.order
    assert (found.order.standing, found.order.broker_order_ids) == (Standing.WORKING, ("b1",))
    told = await bodies(tick_bench, 1)
    assert [body["status"] for body in told] == ["ACKED", "NEW"]


async def test_a_refused_order_is_written_with_the_broker_s_reason(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    assert (await tick_bench.tick([tick_bench.of(opened, Refused("42", "no money"))])).written == [True]
    found = await tick_bench.again(opened.action)
    assert (found.state, found.order.close_reason) == (ActionState.REFUSED, CloseReason.REJECTED)
    reasons = [body["reason"] for body in await bodies(tick_bench, 1)]
    assert [(reason["broker_code"], reason["broker_text"]) for reason in reasons] == [("42", "no money")] * 2


async def test_an_unknown_outcome_is_written_with_its_time(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    assert (await tick_bench.tick([tick_bench.of(opened, Unknown("no answer"))])).written == [True]
    found = await tick_bench.again(opened.action)
    assert (found.state, found.settled_at) == (ActionState.UNKNOWN, None)
    assert found.unknown_since is not None


async def test_a_fill_is_written_with_execution_position_order_and_events(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    unit = tick_bench.of(opened, Accepted("b1"), filled(opened, TWO, THREE))
    assert (await tick_bench.tick([unit])).written == [True]
    async with tick_bench.store.account_transaction(tick_bench.account) as transaction:
        executions, _ = await transaction.executions_of(opened.action.intent_id)
    assert executions == [TWO, THREE]
    assert await tick_bench.database.position(tick_bench.account) == 5
    assert await tick_bench.order(opened) == unit.after.order
    assert unit.after.order.filled_quantity == 5
    assert await positions(tick_bench) == ["2", "5"]
    trades = [body for body in await bodies(tick_bench) if "execution_id" in body]
    assert [body["fee"] for body in trades] == ["-0.000000000000000000001", None]


async def test_a_position_changes_by_the_fill_from_where_it_was(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    await tick_bench.change("position")
    await tick_bench.tick([tick_bench.of(opened, filled(opened, TWO, THREE))])
    assert await tick_bench.database.position(tick_bench.account) == Decimal("105.25")
    assert await positions(tick_bench) == ["102.25", "105.25"]


async def test_each_change_of_a_position_is_kept_with_its_intent(tick_bench: TickBench) -> None:
    first, second = await tick_bench.send(2)
    units = [tick_bench.of(first, filled(first, TWO)), tick_bench.of(second, filled(second, THREE))]
    assert (await tick_bench.tick(units)).written == [True, True]
    moves = [Move(Symbol("AAPL"), Decimal(change), PositionCause.EXECUTION) for change in (2, 3)]
    assert await tick_bench.database.moves(tick_bench.account) == moves
    if isinstance(tick_bench.database, PostgresDatabase):
        rows = await tick_bench.database.pool.fetch(
            "select cause, intent_id, change, quantity from position_changes order by quantity"
        )
        intents = [first.action.intent_id, second.action.intent_id]
        assert [tuple(row) for row in rows] == [("EXECUTION", intents[0], 2, 2), ("EXECUTION", intents[1], 3, 5)]


async def test_units_of_one_symbol_in_one_tick_show_running_positions(tick_bench: TickBench) -> None:
    orders = await tick_bench.send(3)
    await tick_bench.change("position")
    units = [
        tick_bench.of(order, filled(order, an_execution(number, 1), an_execution(10 + number, 2)))
        for number, order in enumerate(orders)
    ]
    assert (await tick_bench.tick(units)).written == [True] * 3
    assert await positions(tick_bench) == ["101.25", "103.25", "104.25", "106.25", "107.25", "109.25"]
    assert await tick_bench.database.position(tick_bench.account) == Decimal("109.25")


async def test_a_unit_that_is_not_written_moves_no_position_of_the_others(tick_bench: TickBench) -> None:
    orders = await tick_bench.send(3)
    units = [tick_bench.of(order, filled(order, an_execution(at, 1 + at))) for at, order in enumerate(orders)]
    units[1] = replace(units[1], version=9)
    assert (await tick_bench.tick(units)).written == [True, False, True]
    assert await positions(tick_bench) == ["1", "4"]


async def test_a_written_unit_starts_the_next_version_of_its_order(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    first = tick_bench.of(opened, Accepted("b1"))
    assert (await tick_bench.tick([first])).written == [True]
    remembered = after(opened, first)
    second = tick_bench.of(remembered, filled(remembered, TWO))
    assert (await tick_bench.tick([replace(second, version=opened.version)])).written == [False]
    assert (await tick_bench.tick([second])).written == [True]
    assert await tick_bench.order(opened) == second.after.order


async def test_a_unit_without_news_is_written_and_changes_nothing(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    before = await tick_bench.record()
    unit = tick_bench.of(opened)
    assert (await tick_bench.tick([unit, unit])).written == [True, False]
    assert await tick_bench.record() == before


async def test_the_broker_s_ids_are_written_whatever_signs_they_have(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    name = "a\"b\\c,{d}' é"
    assert (await tick_bench.tick([tick_bench.of(opened, Accepted(name))])).written == [True]
    assert (await tick_bench.order(opened)).broker_order_ids == (name,)


# ---- what differs is not written


Spoil = Callable[[TickBench, Unit], Unit]


def other_action(**values: Any) -> Spoil:
    def spoil(bench: TickBench, unit: Unit) -> Unit:
        del bench
        action: TrackedAction = replace(unit.before, **values)
        return replace(unit, before=action)

    return spoil


def other_account(**values: Any) -> Spoil:
    def spoil(bench: TickBench, unit: Unit) -> Unit:
        return replace(unit, account=replace(bench.account, **values))

    return spoil


SPOILED: dict[str, Spoil] = {
    "another version": lambda _, unit: replace(unit, version=unit.version + 1),
    "another state": other_action(state=ActionState.UNKNOWN),
    "another attempt": other_action(attempt_id=uuid4()),
    "no attempt": other_action(attempt_id=None),
    "another intent": other_action(intent_id=IntentId(uuid4())),
    "another action": other_action(action_id=uuid4()),
    "another organization": other_account(organization_id=OrganizationId(uuid4())),
    "another account": other_account(account_id=AccountId(uuid4())),
}


async def two_with_fills(bench: TickBench) -> tuple[list[Opened], list[Unit]]:
    orders = await bench.send(2)
    reports = [filled(orders[0], TWO), filled(orders[1], THREE)]
    return orders, [bench.of(each, Accepted("b"), report) for each, report in zip(orders, reports, strict=True)]


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
async def test_a_unit_that_differs_is_not_written_and_the_others_are(tick_bench: TickBench, spoil: Spoil) -> None:
    orders, units = await two_with_fills(tick_bench)
    result = await tick_bench.tick([spoil(tick_bench, units[0]), units[1]])
    assert result.written == [False, True]
    found = await tick_bench.again(orders[0].action)
    assert replace(found, misses=()) == replace(orders[0].action, misses=())
    assert (await tick_bench.again(orders[1].action)).state is ActionState.ACKED
    assert await positions(tick_bench) == ["3"]


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
async def test_a_unit_that_differs_changes_nothing_alone(tick_bench: TickBench, spoil: Spoil) -> None:
    _, units = await two_with_fills(tick_bench)
    before = await tick_bench.record()
    assert (await tick_bench.tick([spoil(tick_bench, units[0])])).written == [False]
    assert await tick_bench.record() == before


async def test_a_unit_of_a_slot_that_the_caller_does_not_hold_changes_nothing(tick_bench: TickBench) -> None:
    _, units = await two_with_fills(tick_bench)
    before = await tick_bench.record()
    others = {*ALL_SLOTS} - {tick_bench.account.slot}
    assert (await tick_bench.tick(units, slots=others)).written == [False, False]
    assert await tick_bench.record() == before


async def test_an_execution_that_is_known_leaves_its_unit_unwritten(tick_bench: TickBench) -> None:
    first, second = await tick_bench.send(2)
    assert (await tick_bench.tick([tick_bench.of(first, filled(first, TWO))])).written == [True]
    before = await tick_bench.record()
    again = tick_bench.of(second, filled(second, THREE, TWO))
    assert (await tick_bench.tick([again])).written == [False]
    assert await tick_bench.record() == before


async def test_an_id_of_an_execution_belongs_to_its_account(tick_bench: TickBench) -> None:
    other = await tick_bench.database.another_account()
    ours, (theirs,) = await tick_bench.sent(), await tick_bench.send(1, other)
    units = [
        tick_bench.of(ours, filled(ours, TWO)),
        tick_bench.unit(theirs, filled(theirs, replace(TWO, quantity=Decimal(4))), account=other),
    ]
    assert (await tick_bench.tick(units)).written == [True, True]
    assert await tick_bench.database.position(tick_bench.account) == 2
    assert await tick_bench.database.position(other) == 4


async def test_of_two_units_of_an_intent_the_first_is_written(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    accepted, refused = tick_bench.of(opened, Accepted("b1")), tick_bench.of(opened, Refused("1", ""))
    assert (await tick_bench.tick([accepted, refused])).written == [True, False]
    assert (await tick_bench.again(opened.action)).state is ActionState.ACKED
    assert len(await bodies(tick_bench, 1)) == 2


async def test_a_unit_is_not_written_twice(tick_bench: TickBench) -> None:
    opened = await tick_bench.sent()
    unit = tick_bench.of(opened, Accepted("b1"), filled(opened, TWO))
    assert (await tick_bench.tick([unit])).written == [True]
    before = await tick_bench.record()
    assert (await tick_bench.tick([unit])).written == [False]
    assert await tick_bench.record() == before


@pytest.mark.parametrize("command", [a_cancel, a_replace])
async def test_a_later_command_makes_what_was_decided_before_it_outdated(
    tick_bench: TickBench, command: Callable[[IntentId], Any]
) -> None:
    opened = await tick_bench.sent()
    unit = tick_bench.of(opened, Accepted("b1"))
    await tick_bench.accept(command(opened.action.intent_id))
    before = await tick_bench.record()
    assert (await tick_bench.tick([unit])).written == [False]
    assert await tick_bench.record() == before


async def test_a_change_of_the_order_the_long_way_makes_what_was_decided_before_it_outdated(
    tick_bench: TickBench,
) -> None:
    opened = await tick_bench.sent()
    unit = tick_bench.of(opened, filled(opened, TWO))
    async with tick_bench.store.account_transaction(tick_bench.account) as transaction:
        working = replace(opened.action.order, standing=Standing.WORKING)
        await transaction.save_order(opened.action, working)
    assert (await tick_bench.tick([unit])).written == [False]


# ---- events


async def test_events_have_no_gaps_when_accepts_and_ticks_alternate(tick_bench: TickBench) -> None:
    orders = await tick_bench.send(3)
    for at, opened in enumerate(orders):
        await tick_bench.accept(a_limit_create())
        units = [tick_bench.of(opened, Accepted("b"), filled(opened, an_execution(at, 10), status=FILLED))]
        assert (await tick_bench.tick(units)).written == [True]
    # Six commands, three outcomes, three trades, and two changes of each order.
    assert len(await bodies(tick_bench)) == 6 + 3 + 3 + 6


async def test_events_of_several_accounts_are_numbered_apart(tick_bench: TickBench) -> None:
    other = await tick_bench.database.another_account()
    ours, (theirs,) = await tick_bench.sent(), await tick_bench.send(1, other)
    units = [
        tick_bench.unit(theirs, Accepted("b1"), account=other),
        tick_bench.of(ours, Accepted("b2"), filled(ours, TWO)),
    ]
    assert (await tick_bench.tick(units)).written == [True, True]
    assert [number for number, _ in await tick_bench.database.events(other)] == [1, 2, 3]
    assert [body["status"] for body in await bodies(tick_bench, 1) if "status" in body] == [
        *("ACKED", "NEW", "PARTIALLY_FILLED"),
    ]


async def test_an_empty_tick_writes_nothing(tick_bench: TickBench) -> None:
    result = await tick_bench.tick()
    assert (result.written, result.opened, result.long_way) == ([], [], {})

"""What is kept of orders, executions and doubts, by PostgreSQL and the simulation's memory alike."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest

from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import SLOTS, AccountId, ActionId, Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.broker_reports import ExecutionChange
from openbell_server.domain.orders.external_orders import ExternalOrder, ExternalStatus
from openbell_server.domain.orders.order_aggregate import Certainty, CloseReason, Order, Pending, Standing
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.domain.orders.positions import PositionCause
from simulation.memory_database import Move
from support.brokers.paper_broker import until
from support.builders.tenant import a_limit_create, a_replace, an_execution, some_terms
from support.environment.store_benches import Bench

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ALL_SLOTS = range(SLOTS)
AAPL = Symbol("AAPL")


def a_change(revision: int, quantity: int, price: int = 1) -> ExecutionChange:
    return ExecutionChange(execution_id="e1", revision=revision, quantity=Decimal(quantity), price=Decimal(price))


# ---- orders and executions

ORDERS = [
    Order(terms=some_terms(7, "1.000000000000000001"), standing=Standing.WORKING, pending=Pending.NONE),
    Order(terms=some_terms(7, "1"), pending=Pending.NEW, certainty=Certainty.UNKNOWN),
    Order(terms=some_terms(7, "1"), standing=Standing.WORKING, pending=Pending.REPLACE, broker_order_ids=("b1", "b2")),
    Order(terms=some_terms(7, "1"), standing=Standing.WORKING, pending=Pending.NONE, triggered=True, terms_version=3),
    Order(
        terms=some_terms(7, "1"),
        standing=Standing.WORKING,
        pending=Pending.CANCEL,
        filled_quantity=Decimal("0.000000000000000001"),
        filled_value=Decimal("123456789012345678.123456789012345678"),
        highest_quantity=Decimal(9),
        busted_quantity=Decimal("0.5"),
        executions_changed=True,
        ended=CloseReason.CANCELED,
        ended_filled=Decimal(2),
    ),
    Order(
        terms=some_terms(7, "1"),
        standing=Standing.CLOSED,
        pending=Pending.NONE,
        close_reason=CloseReason.CANCELED,
        ended=CloseReason.CANCELED,
    ),
]


@pytest.mark.parametrize("order", ORDERS)
async def test_an_order_is_read_as_it_was_written(bench: Bench, order: Order) -> None:
    create = await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.save_order(create, order)
    assert (await bench.again(create)).order == order


async def test_an_execution_is_new_once(bench: Bench) -> None:
    create = await bench.accept()
    for expected in ({"e1", "e2"}, {"e3"}, set()):
        async with bench.store.account_transaction(bench.account) as transaction:
            fills = [an_execution(1, 1), an_execution(2, 1)] + ([an_execution(3, 1)] if "e1" not in expected else [])
            assert await transaction.add_executions(create.intent_id, fills) == expected


async def test_an_execution_told_twice_at_once_is_one(bench: Bench) -> None:
    create = await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        assert await transaction.add_executions(create.intent_id, [an_execution(1, 2), an_execution(1, 2)]) == {"e1"}
        assert await transaction.executions_of(create.intent_id) == ([an_execution(1, 2)], [])


async def test_no_executions_are_none(bench: Bench) -> None:
    create = await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        assert await transaction.add_executions(create.intent_id, []) == set()


async def test_accounts_have_executions_of_their_own(bench: Bench) -> None:
    other = await bench.database.another_account()
    ours, theirs = await bench.accept(), await bench.accept(account=other)
    for account, action in ((bench.account, ours), (other, theirs)):
        async with bench.store.account_transaction(account) as transaction:
            assert await transaction.add_executions(action.intent_id, [an_execution(1, 1)]) == {"e1"}


async def test_executions_and_changes_come_back_in_order(bench: Bench) -> None:
    create = await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        charged, cheaper = an_execution(2, 1, fee="0.25"), replace(a_change(1, 3), fee=Decimal("-0.125"))
        await transaction.add_executions(create.intent_id, [charged, an_execution(1, 1)])
        await transaction.add_execution_changes(create.intent_id, [a_change(2, 0), cheaper])
        fills, changes = await transaction.executions_of(create.intent_id)
    assert (fills, changes) == ([an_execution(1, 1), charged], [cheaper, a_change(2, 0)])


async def test_the_first_word_of_a_revision_stands(bench: Bench) -> None:
    create = await bench.accept()
    for quantity in (3, 4):
        async with bench.store.account_transaction(bench.account) as transaction:
            await transaction.add_execution_changes(create.intent_id, [a_change(1, quantity)])
            _, changes = await transaction.executions_of(create.intent_id)
    assert changes == [a_change(1, 3)]


async def test_a_position_adds_up_exactly(bench: Bench) -> None:
    for change in ("1.000000000000000001", "-3", "0.5"):
        async with bench.store.account_transaction(bench.account) as transaction:
            await transaction.add_to_position(AAPL, Decimal(change), PositionCause.EXTERNAL_ORDER)
    assert await bench.database.position(bench.account) == Decimal("-1.499999999999999999")


async def test_a_change_of_a_position_keeps_its_value_or_the_average_price_of_the_whole(bench: Bench) -> None:
    value, average = Decimal("-13.000000000000000001"), Decimal("187.45")
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.add_to_position(AAPL, Decimal(3), PositionCause.OPENING, average_price=average)
        await transaction.add_to_position(AAPL, Decimal(-2), PositionCause.EXTERNAL_ORDER, value=value)
        await transaction.add_to_position(AAPL, Decimal(0), PositionCause.EXTERNAL_ORDER, value=value)
        await transaction.add_to_position(AAPL, Decimal(1), PositionCause.UNEXPLAINED)
    assert await bench.database.moves(bench.account) == [
        Move(AAPL, Decimal(3), PositionCause.OPENING, average_price=average),
        Move(AAPL, Decimal(-2), PositionCause.EXTERNAL_ORDER, value=value),
        Move(AAPL, Decimal(1), PositionCause.UNEXPLAINED),
    ]


async def test_what_no_fill_explains_counts_like_a_fill_and_is_told_with_the_time_of_the_broker_s_word(
    bench: Bench,
) -> None:
    async with bench.store.account_transaction(bench.account) as transaction:
        before, now = await transaction.held_positions(), transaction.now
        await transaction.add_to_position(AAPL, Decimal(3), PositionCause.EXTERNAL_ORDER)
        await transaction.add_to_position(AAPL, Decimal("-4.5"), PositionCause.UNEXPLAINED)
        await transaction.save_positions_as_of(now)
    async with bench.store.account_transaction(bench.account) as transaction:
        after = await transaction.held_positions()
    assert (before.as_of, before.quantities, before.moved_at) == (None, {}, {})
    assert (after.as_of, after.quantities, [*after.moved_at]) == (now, {AAPL: Decimal("-1.5")}, [AAPL])
    assert after.moved_at[AAPL] >= now


async def test_an_order_is_known_by_the_ids_of_its_actions(bench: Bench) -> None:
    create = await bench.accept()
    change = await bench.accept(a_replace(create.intent_id))
    unknown = ActionId(uuid4())
    async with bench.store.account_transaction(bench.account) as transaction:
        found = await transaction.intents_of([create.action_id, change.action_id, unknown])
    assert found == {create.action_id: create.intent_id, change.action_id: create.intent_id}


async def test_an_order_is_known_by_each_id_its_broker_gave_it(bench: Bench) -> None:
    create = await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.save_order(create, ORDERS[2])
        found = await transaction.intents_of_broker_orders(["b2", "b9", "b1"])
    assert found == {"b1": create.intent_id, "b2": create.intent_id}


async def test_a_replace_says_what_it_asks_for_and_keeps_the_first_id(bench: Bench) -> None:
    create = await bench.accept(a_limit_create())
    change = await bench.accept(a_replace(create.intent_id, price="2.5", quantity="3"))
    wanted = replace(create.order.terms, quantity=Decimal(3), limit_price=Decimal("2.5"))
    assert (change.replacement, change.order_action_id) == (wanted, create.action_id)
    assert change.order_name.client_order_id == create.order_name.client_order_id


def an_external_order() -> ExternalOrder:
    return ExternalOrder(
        broker_order_id="x1",
        client_order_id="theirs",
        symbol=AAPL,
        order_side=OrderSide.BUY,
        order_type=OrderType.LIMIT,
        quantity=Decimal(3),
        limit_price=Decimal("1.5"),
        stop_price=None,
        time_in_force=TimeInForce.DAY,
        status=ExternalStatus.WORKING,
        filled_quantity=Decimal(1),
        accepted_at=NOON,
    )


async def test_an_order_that_is_not_ours_is_kept_as_it_was_told_last(bench: Bench) -> None:
    working = an_external_order()
    assert working.filled_value is None
    value = Decimal("4.500000000000000000001")
    ended = replace(working, status=ExternalStatus.FILLED, filled_quantity=Decimal(3), filled_value=value)
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.save_external_order(working)
        assert await transaction.open_external_orders() == [working]
        assert await transaction.external_orders_named(["theirs", "others"]) == [working]
        await transaction.save_external_order(ended)
        assert await transaction.external_orders_among(["x1", "x2"]) == {"x1": ended}
        assert await transaction.open_external_orders() == []


async def test_how_far_an_account_was_compared_is_kept(bench: Bench) -> None:
    async with bench.store.account_transaction(bench.account) as transaction:
        last = await transaction.last_reconciliation()
        assert last is not None
        assert last.reconciled_at is None
        await transaction.save_reconciliation(NOON, last.event_no)
    async with bench.store.account_transaction(bench.account) as transaction:
        again = await transaction.last_reconciliation()
    assert again == replace(last, reconciled_at=NOON)


async def test_what_was_skipped_is_known(bench: Bench) -> None:
    first, second = await bench.accept(), await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.save_action(first, ActionState.SKIPPED, None)
        assert await transaction.skipped_among([first.action_id, second.action_id]) == {first.action_id}
        assert await transaction.forgotten_among([first.action_id]) == set()


# ---- doubts


async def test_look_ups_that_missed_are_kept_and_others_are_not_misses(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    async with bench.store.account_transaction(bench.account) as transaction:
        for seconds, found in enumerate((False, True, False)):
            await transaction.add_probe(create.action_id, NOON + timedelta(seconds=seconds), found=found)
    assert [*(await bench.again(create)).misses] == [NOON, NOON + timedelta(seconds=2)]


async def test_the_last_fifty_look_ups_are_kept(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    async with bench.store.account_transaction(bench.account) as transaction:
        for seconds in range(52):
            await transaction.add_probe(create.action_id, NOON + timedelta(seconds=seconds), found=False)
    misses = (await bench.again(create)).misses
    assert (len(misses), misses[0]) == (50, NOON + timedelta(seconds=2))


async def test_an_action_is_flagged_once(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    flagged = []
    for _ in range(2):
        async with bench.store.account_transaction(bench.account) as transaction:
            await transaction.flag_action(create.action_id)
        flagged.append((await bench.again(create)).flagged_at)
    assert flagged[0] is not None
    assert flagged[0] == flagged[1]


async def test_a_resend_is_counted_and_is_in_other_hands(bench: Bench) -> None:
    create, attempt_id = await bench.bring(await bench.accept(), ActionState.UNKNOWN), uuid4()
    async with bench.store.account_transaction(bench.account) as transaction:
        resent_at = await transaction.record_resend(create, attempt_id)
    found = await bench.again(create)
    assert (found.resends, found.attempt_id, found.send_started_at) == (1, attempt_id, resent_at)
    assert found.state is ActionState.UNKNOWN


async def test_who_has_not_the_last_attempt_in_hand_resends_nothing(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.record_resend(create, uuid4())
    with pytest.raises(AssertionError):
        async with bench.store.account_transaction(bench.account) as transaction:
            await transaction.record_resend(create, uuid4())
    assert (await bench.again(create)).resends == 1


async def test_an_account_is_halted_once_and_stays_so(bench: Bench) -> None:
    halted = []
    for code in ("FIRST", "SECOND"):
        async with bench.store.account_transaction(bench.account) as transaction:
            halted.append(await transaction.halt(code, "why"))
    async with bench.store.account_transaction(bench.account) as transaction:
        assert (halted, transaction.halt_code) == ([True, False], "FIRST")


# ---- the log


async def test_events_are_numbered_without_a_gap_in_the_order_of_their_calls(bench: Bench) -> None:
    create = await bench.accept()
    before = len(await bench.database.events(bench.account))

    async def write(number: int) -> None:
        async with bench.store.account_transaction(bench.account) as transaction:
            for part in "ab":
                transaction.append_event(EventKind.BROKER_ORDER, create.intent_id, 1, f"{number}{part}")

    await asyncio.gather(*(write(number) for number in range(6)))
    written = (await bench.database.events(bench.account))[before:]
    assert [number for number, _ in written] == [*range(before + 1, before + 13)]
    bodies = [body for _, body in written]
    assert all(second == f"{first[:-1]}b" for first, second in zip(bodies[::2], bodies[1::2], strict=True))


# ---- what to look at next


async def test_an_account_is_found_with_its_slot(bench: Bench) -> None:
    assert await bench.store.find_account_across_organizations(bench.account.account_id) == bench.account
    assert await bench.store.find_account_across_organizations(AccountId(UUID(int=1))) is None


async def test_an_account_waits_while_an_action_of_it_is_queued(bench: Bench) -> None:
    waiting, create = bench.store.accounts_waiting_across_organizations, await bench.accept()
    assert await waiting(ALL_SLOTS, 0) == [bench.account.account_id]
    assert await waiting(ALL_SLOTS, 3600) == []
    assert await waiting([slot for slot in ALL_SLOTS if slot != bench.account.slot], 0) == []
    await bench.bring(create, ActionState.DISPATCHING)
    assert await waiting(ALL_SLOTS, 0) == []


async def test_an_account_is_in_doubt_once_its_sender_must_be_gone(bench: Bench) -> None:
    doubtful, create = bench.store.accounts_in_doubt_across_organizations, await bench.accept()
    assert await doubtful(ALL_SLOTS, 0) == []
    await bench.bring(create, ActionState.DISPATCHING)
    assert await doubtful(ALL_SLOTS, 0) == [bench.account.account_id]
    assert await doubtful(ALL_SLOTS, 3600) == []
    assert await doubtful([slot for slot in ALL_SLOTS if slot != bench.account.slot], 0) == []


async def test_a_doubt_is_looked_at_again_after_a_second(bench: Bench) -> None:
    await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    doubtful = bench.store.accounts_in_doubt_across_organizations
    assert await doubtful(ALL_SLOTS, 0) == []

    async def is_due() -> bool:
        return await doubtful(ALL_SLOTS, 0) == [bench.account.account_id]

    await until(is_due)


async def test_a_doubt_is_looked_at_less_often_the_older_it_is(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    doubtful = bench.store.accounts_in_doubt_across_organizations
    due = []
    for sent, looked in [(15, 2), (28, 5), (28, 9), (60, 12), (60, 18), (900, 28), (900, 32)]:
        await bench.database.make_older(bench.account, create.action_id, sent, looked)
        due.append(await doubtful(ALL_SLOTS, 0) != [])
    assert due == [True, False, True, False, True, False, True]


async def test_no_account_is_held_where_nothing_was_restored(bench: Bench) -> None:
    assert await bench.store.accounts_held_across_organizations(ALL_SLOTS, 0) == []


async def test_an_order_is_asked_for_from_its_door_to_its_end(bench: Bench) -> None:
    create = await bench.accept()

    async def is_asked() -> list[bool]:
        with_orders = await bench.store.accounts_with_open_orders_across_organizations("paper", ALL_SLOTS)
        async with bench.store.account_transaction(bench.account) as transaction:
            return [with_orders == [bench.account], bool(await transaction.open_orders())]

    asked = [await is_asked()]
    create = await bench.bring(create, ActionState.DISPATCHING)
    asked.append(await is_asked())
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.save_order(create, ORDERS[-1])
    asked.append(await is_asked())
    assert asked == [[False, False], [True, True], [False, False]]


async def test_an_account_is_compared_once_something_happened_to_it(bench: Bench) -> None:
    await bench.accept()
    touched = []
    for _ in range(2):
        touched.append(await bench.store.accounts_touched_across_organizations("paper", ALL_SLOTS))
        async with bench.store.account_transaction(bench.account) as transaction:
            last = await transaction.last_reconciliation()
            assert last is not None
            await transaction.save_reconciliation(transaction.now, last.event_no)
    assert touched == [[bench.account], []]


async def test_accounts_are_compared_with_their_own_broker_by_who_has_their_slot(bench: Bench) -> None:
    await bench.bring(await bench.accept(), ActionState.ACKED)
    others = [slot for slot in ALL_SLOTS if slot != bench.account.slot]
    for broker, slots in (("other", ALL_SLOTS), ("paper", others)):
        assert await bench.store.accounts_with_open_orders_across_organizations(broker, slots) == []
        assert await bench.store.accounts_touched_across_organizations(broker, slots) == []

"""What execution's store does, as PostgreSQL and the simulation's memory both do it."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from openbell_server.application.ports.account_transaction import TrackedAction
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.errors import IllegalTransition
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import ActionId, IntentId, Symbol
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState, Reason
from openbell_server.domain.orders.broker_reports import ExecutionChange
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Certainty, Order, Pending, Standing
from openbell_server.domain.orders.order_terms import TimeInForce
from openbell_server.domain.orders.positions import PositionCause
from support.builders.tenant import a_cancel, a_limit_create, a_replace, an_execution, some_terms
from support.environment.store_benches import Bench

ALL: Final[dict[str, Any]] = {"commands": 9, "cancels": True, "cancels_unseen": False}
LONG_AGO = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Trouble(Exception):
    """What ends a transaction."""


# ---- what is ready


async def test_a_new_create_is_ready(bench: Bench) -> None:
    create = await bench.accept()
    assert await bench.ready() == [create.action_id]


async def test_creates_are_ready_in_the_order_of_their_commits(bench: Bench) -> None:
    creates = [await bench.accept() for _ in range(5)]
    assert await bench.ready() == [create.action_id for create in creates]


async def test_no_more_is_ready_than_may_be(bench: Bench) -> None:
    creates = [await bench.accept() for _ in range(3)]
    assert await bench.ready(2) == [create.action_id for create in creates[:2]]


async def test_nothing_is_ready_where_nothing_may_be(bench: Bench) -> None:
    await bench.accept()
    assert await bench.ready(0) == []


async def test_cancels_go_alone_before_older_creates(bench: Bench) -> None:
    working = await bench.bring(await bench.accept(), ActionState.ACKED)
    create = await bench.accept()
    cancel = await bench.accept(a_cancel(working.intent_id))
    assert await bench.ready() == [cancel.action_id]
    assert await bench.ready(cancels=False) == [create.action_id]


async def test_creates_do_not_wait_for_a_cancel_that_cannot_go_yet(bench: Bench) -> None:
    in_doubt = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    create = await bench.accept()
    await bench.accept(a_cancel(in_doubt.intent_id))
    assert await bench.ready() == [create.action_id]


async def test_cancels_are_not_ready_unless_asked_for(bench: Bench) -> None:
    working = await bench.bring(await bench.accept(), ActionState.ACKED)
    await bench.accept(a_cancel(working.intent_id))
    assert await bench.ready(cancels=False) == []


async def test_what_is_in_doubt_holds_up_no_cancel_where_the_broker_knows_our_id(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    cancel = await bench.accept(a_cancel(create.intent_id))
    assert await bench.ready() == []
    assert await bench.ready(cancels_unseen=True) == [cancel.action_id]


async def test_a_replace_in_doubt_holds_up_no_cancel(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.ACKED)
    await bench.bring(await bench.accept(a_replace(create.intent_id)), ActionState.UNKNOWN)
    cancel = await bench.accept(a_cancel(create.intent_id))
    assert await bench.ready() == [cancel.action_id]


async def test_only_so_many_others_than_cancels_are_ready(bench: Bench) -> None:
    first, _ = await bench.accept(), await bench.accept()
    assert await bench.ready(commands=1) == [first.action_id]


@pytest.mark.parametrize("state", [ActionState.DISPATCHING, ActionState.UNKNOWN])
async def test_a_command_waits_for_the_one_before_it_of_its_intent(bench: Bench, state: ActionState) -> None:
    create = await bench.bring(await bench.accept(), state)
    await bench.accept(a_cancel(create.intent_id))
    assert await bench.ready() == []


async def test_a_replace_waits_for_a_create_that_waits_itself(bench: Bench) -> None:
    create = await bench.accept()
    await bench.accept(a_replace(create.intent_id))
    assert await bench.ready() == [create.action_id]


@pytest.mark.parametrize("state", [ActionState.ACKED, ActionState.FAILED, ActionState.REFUSED])
async def test_a_settled_command_holds_up_no_other(bench: Bench, state: ActionState) -> None:
    create = await bench.accept()
    cancel = await bench.accept(a_replace(create.intent_id))
    await bench.bring(create, state)
    assert await bench.ready() == [cancel.action_id]


async def test_doubt_holds_up_its_own_intent_only(bench: Bench) -> None:
    await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    other = await bench.accept()
    assert await bench.ready() == [other.action_id]


async def test_creates_and_replaces_are_judged_at_the_door_and_cancels_are_not(bench: Bench) -> None:
    first = await bench.bring(await bench.accept(), ActionState.ACKED)
    second = await bench.bring(await bench.accept(), ActionState.ACKED)
    await bench.accept(a_replace(first.intent_id))
    await bench.accept(a_cancel(second.intent_id))
    await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        ready = await transaction.ready(9, **ALL) + await transaction.ready(9, **ALL | {"cancels": False})
    judged = {action.action_type: action.at_door is not None for action in ready}
    assert judged == {ActionType.CANCEL: False, ActionType.REPLACE: True, ActionType.CREATE: True}


async def test_the_door_judges_by_how_long_a_command_has_waited(bench: Bench) -> None:
    await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        (action,) = await transaction.ready(1, **ALL)
    assert action.at_door is not None
    assert timedelta(0) <= action.at_door.now - action.at_door.queued_at < timedelta(minutes=1)
    assert not action.at_door.account_disabled
    assert not action.at_door.principal_revoked


# ---- what a cancel makes needless


async def test_nothing_is_superseded_without_a_cancel(bench: Bench) -> None:
    create = await bench.accept()
    await bench.accept(a_replace(create.intent_id))
    assert await bench.superseded() == []


async def test_a_create_that_was_not_sent_is_superseded_with_its_cancel(bench: Bench) -> None:
    create = await bench.accept()
    cancel = await bench.accept(a_cancel(create.intent_id))
    assert await bench.superseded() == [create.action_id, cancel.action_id]


async def test_a_replace_that_was_not_sent_is_superseded_without_its_cancel(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.ACKED)
    change = await bench.accept(a_replace(create.intent_id))
    await bench.accept(a_cancel(create.intent_id))
    assert await bench.superseded() == [change.action_id]


@pytest.mark.parametrize("state", [ActionState.DISPATCHING, ActionState.UNKNOWN, ActionState.ACKED])
async def test_a_create_past_its_door_is_not_superseded(bench: Bench, state: ActionState) -> None:
    create = await bench.bring(await bench.accept(), state)
    await bench.accept(a_cancel(create.intent_id))
    assert await bench.superseded() == []


async def test_what_is_superseded_comes_in_the_order_of_commits(bench: Bench) -> None:
    first, second = await bench.accept(), await bench.accept()
    of_second = await bench.accept(a_cancel(second.intent_id))
    of_first = await bench.accept(a_cancel(first.intent_id))
    expected = [first.action_id, second.action_id, of_second.action_id, of_first.action_id]
    assert await bench.superseded() == expected


# ---- the door


async def test_a_door_opens_once(bench: Bench) -> None:
    create = await bench.bring(await bench.accept(), ActionState.DISPATCHING)
    with pytest.raises(AssertionError):
        async with bench.store.account_transaction(bench.account) as transaction:
            await transaction.open_doors([create.action_id], uuid4())


async def test_a_door_says_who_opened_it_and_when(bench: Bench) -> None:
    create, attempt_id = await bench.accept(), uuid4()
    async with bench.store.account_transaction(bench.account) as transaction:
        opened = await transaction.open_doors([create.action_id], attempt_id)
        assert opened[create.action_id] >= transaction.now
    found = await bench.again(create)
    assert (found.state, found.attempt_id, found.send_started_at) == (
        ActionState.DISPATCHING,
        attempt_id,
        opened[create.action_id],
    )


async def test_an_action_past_its_door_is_not_ready(bench: Bench) -> None:
    await bench.bring(await bench.accept(), ActionState.DISPATCHING)
    assert await bench.ready() == []


async def test_workers_that_race_open_each_door_once(bench: Bench) -> None:
    for _ in range(6):
        await bench.accept()

    async def work() -> list[ActionId]:
        async with bench.store.account_transaction(bench.account) as transaction:
            ready = [action.action_id for action in await transaction.ready(2, **ALL)]
            await transaction.open_doors(ready, uuid4()) if ready else None
            return ready

    opened = [action_id for some in await asyncio.gather(*(work() for _ in range(5))) for action_id in some]
    assert len(opened) == len(set(opened)) == 6


# ---- all or nothing, one after the other


async def fail_after(bench: Bench, action: TrackedAction) -> None:
    """Write everything there is to write, and break off."""
    action_id, intent_id = action.action_id, action.intent_id
    with contextlib.suppress(Trouble):
        async with bench.store.account_transaction(bench.account) as transaction:
            await transaction.open_doors([action_id], uuid4())
            await transaction.save_order(action, replace(action.order, standing=Standing.WORKING))
            await transaction.add_executions(intent_id, [an_execution(1, 1)])
            await transaction.add_execution_changes(intent_id, [a_bust()])
            await transaction.add_to_position(Symbol("AAPL"), Decimal(1), PositionCause.EXTERNAL_ORDER)
            await transaction.add_probe(action_id, LONG_AGO, found=False)
            await transaction.flag_action(action_id)
            await transaction.halt("TEST", "")
            transaction.append_event(EventKind.BROKER_ORDER, intent_id, 1, "{}")
            raise Trouble


async def test_a_transaction_that_breaks_off_leaves_the_action_as_it_was(bench: Bench) -> None:
    create = await bench.accept()
    await fail_after(bench, create)
    assert await bench.again(create) == create
    assert await bench.ready() == [create.action_id]


async def test_a_transaction_that_breaks_off_leaves_no_execution(bench: Bench) -> None:
    create = await bench.accept()
    await fail_after(bench, create)
    async with bench.store.account_transaction(bench.account) as transaction:
        assert await transaction.executions_of(create.intent_id) == ([], [])


async def test_a_transaction_that_breaks_off_leaves_no_position(bench: Bench) -> None:
    create = await bench.accept()
    await fail_after(bench, create)
    assert await bench.database.position(bench.account) is None


async def test_a_transaction_that_breaks_off_leaves_no_event(bench: Bench) -> None:
    create = await bench.accept()
    before = await bench.database.events(bench.account)
    await fail_after(bench, create)
    assert await bench.database.events(bench.account) == before


async def test_a_transaction_that_breaks_off_leaves_no_halt(bench: Bench) -> None:
    create = await bench.accept()
    await fail_after(bench, create)
    async with bench.store.account_transaction(bench.account) as transaction:
        assert transaction.halt_code is None


async def test_a_transaction_waits_for_the_one_before_it_and_sees_what_it_wrote(bench: Bench) -> None:
    create, entered, may_end = await bench.accept(), asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with bench.store.account_transaction(bench.account) as transaction:
            await transaction.open_doors([create.action_id], uuid4())
            entered.set()
            await may_end.wait()

    async def second() -> ActionState:
        await entered.wait()
        async with bench.store.account_transaction(bench.account) as transaction:
            (found,) = await transaction.of_intents([create.intent_id])
            return found.state

    running = [asyncio.ensure_future(first()), asyncio.ensure_future(second())]
    await entered.wait()
    await asyncio.sleep(0.1)
    assert not running[1].done()
    may_end.set()
    await running[0]
    assert await running[1] is ActionState.DISPATCHING


async def test_accounts_do_not_wait_for_each_other(bench: Bench) -> None:
    other = await bench.database.another_account()
    async with (
        bench.store.account_transaction(bench.account),
        asyncio.timeout(60),
        bench.store.account_transaction(other) as transaction,
    ):
        assert transaction.halt_code is None


# ---- states


async def test_a_state_is_written_with_its_reason(bench: Bench) -> None:
    found = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    assert (found.state, found.unknown_since is not None) == (ActionState.UNKNOWN, True)


async def test_a_step_that_the_table_does_not_have_is_refused(bench: Bench) -> None:
    create = await bench.accept()
    with pytest.raises(IllegalTransition):
        async with bench.store.account_transaction(bench.account) as transaction:
            await transaction.save_action(create, ActionState.ACKED, None)
    assert (await bench.again(create)).state is ActionState.QUEUED


async def test_what_was_settled_meanwhile_is_not_settled_again(bench: Bench) -> None:
    seen = await bench.bring(await bench.accept(), ActionState.UNKNOWN)
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.save_action(seen, ActionState.ACKED, None)
    async with bench.store.account_transaction(bench.account) as transaction:
        await transaction.save_action(seen, ActionState.FAILED, Reason("TEST"))
    assert (await bench.again(seen)).state is ActionState.ACKED


@pytest.mark.parametrize("state", [ActionState.DISPATCHING, ActionState.UNKNOWN])
async def test_an_action_past_its_door_is_in_doubt(bench: Bench, state: ActionState) -> None:
    create = await bench.bring(await bench.accept(), state)
    async with bench.store.account_transaction(bench.account) as transaction:
        assert [action.action_id for action in await transaction.in_doubt()] == [create.action_id]


@pytest.mark.parametrize("state", [ActionState.ACKED, ActionState.REFUSED, ActionState.FAILED])
async def test_a_settled_action_is_not_in_doubt(bench: Bench, state: ActionState) -> None:
    assert (await bench.bring(await bench.accept(), state)).state in SETTLED
    async with bench.store.account_transaction(bench.account) as transaction:
        assert await transaction.in_doubt() == []


async def test_doubts_come_in_the_order_of_commits(bench: Bench) -> None:
    first, second = await bench.accept(), await bench.accept()
    await bench.bring(second, ActionState.DISPATCHING)
    await bench.bring(first, ActionState.UNKNOWN)
    async with bench.store.account_transaction(bench.account) as transaction:
        found = [action.action_id for action in await transaction.in_doubt()]
    assert found == [first.action_id, second.action_id]


def a_bust() -> ExecutionChange:
    return ExecutionChange(execution_id="e1", revision=1, quantity=Decimal(0), price=Decimal(1))


async def test_an_unknown_intent_has_no_actions(bench: Bench) -> None:
    async with bench.store.account_transaction(bench.account) as transaction:
        assert await transaction.of_intents([IntentId(UUID(int=1))]) == []


async def test_an_action_waits_until_its_door_is_open(bench: Bench) -> None:
    create = await bench.accept()
    async with bench.store.account_transaction(bench.account) as transaction:
        assert (await transaction.has_queued(), await transaction.has_queued(cancels=True)) == (True, False)
        await transaction.open_doors([create.action_id], uuid4())
        assert not await transaction.has_queued()


async def test_the_actions_of_an_intent_come_in_order(bench: Bench) -> None:
    create = await bench.accept()
    change = await bench.accept(a_replace(create.intent_id))
    cancel = await bench.accept(a_cancel(create.intent_id))
    async with bench.store.account_transaction(bench.account) as transaction:
        found = [(action.seq, action.action_id) for action in await transaction.of_intents([create.intent_id])]
    assert found == [(1, create.action_id), (2, change.action_id), (3, cancel.action_id)]


async def test_a_new_order_has_the_facts_it_was_asked_for_with(bench: Bench) -> None:
    create = await bench.accept(a_limit_create(price="1.000000000000000001", quantity="0.5"))
    terms = some_terms(Decimal("0.5"), "1.000000000000000001", TimeInForce.GOOD_TILL_CANCEL)
    assert create.order == Order(terms=terms)
    assert (create.order.pending, create.order.certainty) == (Pending.NEW, Certainty.CONFIRMED)


async def test_standing_of_an_account_without_credential(bench: Bench) -> None:
    async with bench.store.account_transaction(bench.account) as transaction:
        standing = await transaction.standing()
        assert (standing.epochs, transaction.hold, transaction.was_restored) == (transaction.epochs, None, False)
    assert (standing.credential_version, standing.credential_status) == (None, CredentialStatus.NOT_REQUIRED)

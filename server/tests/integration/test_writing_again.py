"""Writing again: only what provably never arrived, under an id that the broker enforces, while it may still pass."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from account_desk import Clock, NothingToSignIn
from builders import a_cancel, a_limit_create, a_replace, a_report, a_tenant, an_execution, some_terms
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.symbol_controls import PostgresControlStore
from openbell_server.application.execute_action import DOOR_SECONDS
from openbell_server.application.keep_sessions import Passage
from openbell_server.application.ports.broker import ReplaceSupport
from openbell_server.application.ports.execution import AccountTransaction, BrokerAccount
from openbell_server.domain.broker_honesty import RESENDS_MAX, IdClass
from openbell_server.domain.broker_orders import NotSent, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.controls import ManualControl
from openbell_server.domain.identifiers import IntentId, Symbol, client_order_id
from openbell_server.domain.orders import TimeInForce
from scripted_broker import Desk

LOST = Unknown("no answer")


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    return Desk(pool, await a_tenant(pool))


async def lost(desk: Desk) -> tuple[IntentId, str]:
    """A create that got no answer, and the id that it was written with."""
    intent = await desk.accept(a_limit_create())
    desk.broker.script.append(LOST)
    (door,) = await desk.work()
    return intent, client_order_id(door.action.action_id)


async def look(desk: Desk, id_class: IdClass = IdClass.ENFORCED, **honesty: Any) -> None:
    """A look-up past every delay, after one that found nothing."""
    await desk.pool.execute(
        "update action_states set send_started_at = clock_timestamp() - interval '10 seconds', probes = "
        "jsonb_build_array(jsonb_build_object('at', clock_timestamp() - interval '3 seconds', 'found', false)) "
        "where state = 'UNKNOWN'"
    )
    await desk.settle(1, id_class, **honesty)


async def resends(desk: Desk) -> int:
    return int(await desk.pool.fetchval("select max(resends) from action_states"))


async def test_a_create_that_never_arrived_is_written_again_with_the_same_id_and_a_fresh_end(desk: Desk) -> None:
    _, order_id = await lost(desk)
    await look(desk)
    first, again = desk.broker.writes
    assert (first.client_order_id, again.client_order_id) == (order_id, order_id)
    assert again.valid_until > first.valid_until
    assert await desk.states() == [("CREATE", "ACKED", None)]
    told = await desk.told("WRITTEN_AGAIN")
    assert (told["state"], told["unknown"]["writes"], told["unknown"]["flagged_at"]) == ("UNKNOWN", 2, None)
    assert "at most 2 times" in told["unknown"]["settles_by"]


async def test_it_is_written_at_most_twice_more_and_then_failed(desk: Desk) -> None:
    intent, _ = await lost(desk)
    for again in range(1, RESENDS_MAX + 1):
        desk.broker.script.append(LOST)
        await look(desk)
        assert await desk.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]
        assert (await resends(desk), desk.broker.calls) == (again, 1 + again)
    await look(desk)
    assert await desk.states() == [("CREATE", "FAILED", "NOT_AT_BROKER")]
    assert (await desk.order(intent))["close_reason"] == "FAILED"
    assert desk.broker.calls == 1 + RESENDS_MAX


@pytest.mark.parametrize("id_class", [IdClass.FOR_A_WHILE, IdClass.ECHOED, IdClass.NONE])
async def test_no_other_class_is_ever_written_again_not_even_after_proof(desk: Desk, id_class: IdClass) -> None:
    await lost(desk)
    await look(desk, id_class)
    assert await desk.states() == [("CREATE", "FAILED", "NOT_AT_BROKER")]
    assert desk.broker.calls == 1


async def test_a_new_write_begins_the_look_ups_anew(desk: Desk) -> None:
    await lost(desk)
    desk.broker.script.append(LOST)
    await look(desk)
    for _ in range(3):
        await desk.settle(3600, id_class=IdClass.ENFORCED)
    assert (await desk.states(), desk.broker.calls) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 2)


async def test_the_attempt_is_on_record_before_anything_is_written(desk: Desk) -> None:
    await lost(desk)
    seen = []

    async def look_at_the_record(_: str) -> Outcome:
        seen.append(await resends(desk))
        return LOST

    desk.broker.script.append(look_at_the_record)
    await look(desk)
    assert seen == [1]


async def test_a_refusal_of_the_second_write_is_the_answer(desk: Desk) -> None:
    await lost(desk)
    desk.broker.script.append(Refused("E1", "no money"))
    await look(desk)
    assert await desk.states() == [("CREATE", "REFUSED", "BROKER_REFUSED")]


async def test_an_id_that_the_broker_has_after_all_is_looked_up_and_the_order_found(desk: Desk) -> None:
    _, order_id = await lost(desk)
    desk.broker.script.append(Unknown("it exists"))
    await look(desk)
    assert (await desk.states())[0][1] == "UNKNOWN"
    filled = a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id)
    desk.broker.book[order_id] = filled
    await desk.settle(3600, id_class=IdClass.ENFORCED)
    assert (await desk.states(), desk.broker.calls) == ([("CREATE", "ACKED", None)], 2)


async def test_that_nothing_left_the_second_time_says_nothing_of_the_first(desk: Desk) -> None:
    await lost(desk)

    async def too_late(_: str) -> Outcome:
        desk.clock.seconds += DOOR_SECONDS
        return NotSent("no connection")

    desk.broker.script.append(too_late)
    await look(desk)
    assert (await desk.states(), await resends(desk)) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 1)


class Pausing(Clock):
    """Whoever reads it is paused for longer than a door stays fresh."""

    def __call__(self) -> float:
        self.seconds += DOOR_SECONDS + 1
        return self.seconds


async def test_a_second_door_that_grew_old_is_not_written_through(desk: Desk) -> None:
    await lost(desk)
    await look(replace(desk, clock=Pausing()))
    assert (await desk.states(), desk.broker.calls) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 1)


async def disable_symbol(desk: Desk) -> None:
    where = (desk.account.organization_id, desk.account.account_id, Symbol("AAPL"))
    control = ManualControl(manually_disabled=True)
    await PostgresControlStore(desk.pool).set_manual(*where, control, desk.tenant.principal)


async def disable_account(desk: Desk) -> None:
    await desk.pool.execute("update accounts set disabled = true")


async def disable_organization(desk: Desk) -> None:
    await desk.pool.execute("update organizations set disabled = true")


async def revoke_key(desk: Desk) -> None:
    await desk.pool.execute("update api_keys set revoked_at = clock_timestamp()")


async def halt(desk: Desk) -> None:
    async with PostgresExecutionStore(desk.pool).account_transaction(desk.account) as transaction:
        await transaction.halt("TEST", "a test")


async def grow_old(desk: Desk) -> None:
    await desk.pool.execute("update accounts set environment = 'live'")
    await desk.pool.execute("update action_states set queued_at = queued_at - interval '2 minutes'")


async def cancel(desk: Desk) -> None:
    await desk.accept(a_cancel(await desk.pool.fetchval("select order_id from orders")))


async def cancel_in_vain(desk: Desk) -> None:
    await cancel(desk)
    await desk.pool.execute(
        "update action_states set state = 'SKIPPED', settled_at = clock_timestamp() where action_type = 'CANCEL'"
    )


@pytest.mark.parametrize(
    "change",
    [disable_symbol, disable_account, disable_organization, revoke_key, halt, grow_old, cancel, cancel_in_vain],
)
async def test_what_may_not_pass_the_door_any_more_is_failed_and_not_written(
    desk: Desk, change: Callable[[Desk], Awaitable[None]]
) -> None:
    await lost(desk)
    await change(desk)
    await look(desk)
    assert (await desk.states())[0] == ("CREATE", "FAILED", "NOT_AT_BROKER")
    assert desk.broker.calls == 1


class StandingAt(NothingToSignIn):
    """Implements Fence: the account stands so with its broker."""

    def __init__(self, passage: Passage) -> None:
        self.stands = passage

    async def passage(self, account: BrokerAccount, transaction: AccountTransaction) -> Passage:
        del account, transaction
        return self.stands


@pytest.mark.parametrize(("passage", "state"), [(Passage.NOT_READY, "FAILED"), (Passage.WAIT, "UNKNOWN")])
async def test_nothing_is_written_again_with_a_credential_that_is_not_the_account_s(
    desk: Desk, passage: Passage, state: str
) -> None:
    await lost(desk)
    await look(replace(desk, fence=StandingAt(passage)))
    assert ((await desk.states())[0][1], desk.broker.calls) == (state, 1)


async def a_lost_replace(desk: Desk) -> str:
    intent, order_id = await desk.working()
    await desk.accept(a_replace(intent))
    desk.broker.script.append(LOST)
    await desk.work()
    old = some_terms(10, "1.50", TimeInForce.GOOD_TILL_CANCEL)
    desk.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id, terms=old)
    return order_id


async def test_a_replace_that_never_arrived_is_written_again_where_its_id_is_enforced(desk: Desk) -> None:
    await a_lost_replace(desk)
    await look(desk)
    _, first, again = desk.broker.writes
    assert first.replacement is not None
    assert again.replacement is not None
    assert (again.client_order_id, again.replacement.terms) == (first.client_order_id, first.replacement.terms)
    assert (await desk.states())[1] == ("REPLACE", "ACKED", None)


async def test_a_replace_by_what_may_still_fill_is_not_written_again(desk: Desk) -> None:
    await a_lost_replace(desk)
    await look(desk, replace=ReplaceSupport.NATIVE_REMAINING)
    assert (await desk.states())[1] == ("REPLACE", "FAILED", "NOT_AT_BROKER")
    assert desk.broker.calls == 2


async def test_each_repeat_of_a_cancel_is_counted(desk: Desk) -> None:
    intent, order_id = await desk.working()
    desk.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    await desk.accept(a_cancel(intent))
    desk.broker.script.extend([LOST, LOST, LOST])
    await desk.work()
    for repeats in (1, 2):
        await look(desk, IdClass.NONE, repeats_cancels=True)
        assert (await resends(desk), len(desk.broker.writes)) == (repeats, 2 + repeats)
    assert (await desk.states())[1][1] == "UNKNOWN"

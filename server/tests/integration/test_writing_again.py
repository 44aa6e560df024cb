"""Writing again: only what provably never arrived, under an id that the broker enforces, while it may still pass."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.execution.broker_sign_ins import SendPermission
from openbell_server.application.execution.execute_action import DOOR_SECONDS
from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount
from openbell_server.application.ports.broker import ReplaceSupport
from openbell_server.domain.controls.symbol_controls import ManualControl
from openbell_server.domain.identifiers import IntentId, Symbol, client_order_id
from openbell_server.domain.orders.broker_guarantees import RESENDS_MAX, IdClass
from openbell_server.domain.orders.broker_reports import NotSent, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import TimeInForce
from support.brokers.execution_harness import Clock, NothingToSignIn
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_replace, a_report, an_execution, some_terms

LOST = Unknown("no answer")


async def lost(harness: Harness) -> tuple[IntentId, str]:
    """A create that got no answer, and the id that it was written with."""
    intent = await harness.accept(a_limit_create())
    harness.broker.script.append(LOST)
    (door,) = await harness.work()
    return intent, client_order_id(door.action.action_id)


async def look(harness: Harness, id_class: IdClass = IdClass.ENFORCED, **honesty: Any) -> None:
    """A look-up past every delay, after one that found nothing."""
    await harness.pool.execute(
        "update action_states set send_started_at = clock_timestamp() - interval '10 seconds', probes = "
        "jsonb_build_array(jsonb_build_object('at', clock_timestamp() - interval '3 seconds', 'found', false)) "
        "where state = 'UNKNOWN'"
    )
    await harness.settle(1, id_class, **honesty)


async def resends(harness: Harness) -> int:
    return int(await harness.pool.fetchval("select max(resends) from action_states"))


async def test_a_create_that_never_arrived_is_written_again_with_the_same_id_and_a_fresh_end(
    harness: Harness,
) -> None:
    _, order_id = await lost(harness)
    await look(harness)
    first, again = harness.broker.writes
    assert (first.client_order_id, again.client_order_id) == (order_id, order_id)
    assert again.valid_until > first.valid_until
    assert await harness.states() == [("CREATE", "ACKED", None)]
    told = await harness.told("WRITTEN_AGAIN")
    assert (told["status"], told["unknown"]["writes"], told["unknown"]["flagged_at"]) == ("UNKNOWN", 2, None)
    assert "at most 2 times" in told["unknown"]["settles_by"]


async def test_it_is_written_at_most_twice_more_and_then_failed(harness: Harness) -> None:
    intent, _ = await lost(harness)
    for again in range(1, RESENDS_MAX + 1):
        harness.broker.script.append(LOST)
        await look(harness)
        assert await harness.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]
        assert (await resends(harness), harness.broker.calls) == (again, 1 + again)
    await look(harness)
    assert await harness.states() == [("CREATE", "FAILED", "NOT_AT_BROKER")]
    assert (await harness.order(intent))["close_reason"] == "FAILED"
    assert harness.broker.calls == 1 + RESENDS_MAX


@pytest.mark.parametrize("id_class", [IdClass.FOR_A_WHILE, IdClass.ECHOED, IdClass.NONE])
async def test_no_other_class_is_ever_written_again_not_even_after_proof(harness: Harness, id_class: IdClass) -> None:
    await lost(harness)
    await look(harness, id_class)
    assert await harness.states() == [("CREATE", "FAILED", "NOT_AT_BROKER")]
    assert harness.broker.calls == 1


async def test_a_new_write_begins_the_look_ups_anew(harness: Harness) -> None:
    await lost(harness)
    harness.broker.script.append(LOST)
    await look(harness)
    for _ in range(3):
        await harness.settle(3600, id_class=IdClass.ENFORCED)
    assert (await harness.states(), harness.broker.calls) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 2)


async def test_the_attempt_is_on_record_before_anything_is_written(harness: Harness) -> None:
    await lost(harness)
    seen = []

    async def look_at_the_record(_: str) -> Outcome:
        seen.append(await resends(harness))
        return LOST

    harness.broker.script.append(look_at_the_record)
    await look(harness)
    assert seen == [1]


async def test_a_refusal_of_the_second_write_is_the_answer(harness: Harness) -> None:
    await lost(harness)
    harness.broker.script.append(Refused("E1", "no money"))
    await look(harness)
    assert await harness.states() == [("CREATE", "REFUSED", "BROKER_REFUSED")]


async def test_an_id_that_the_broker_has_after_all_is_looked_up_and_the_order_found(harness: Harness) -> None:
    _, order_id = await lost(harness)
    harness.broker.script.append(Unknown("it exists"))
    await look(harness)
    assert (await harness.states())[0][1] == "UNKNOWN"
    filled = a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id)
    harness.broker.book[order_id] = filled
    await harness.settle(3600, id_class=IdClass.ENFORCED)
    assert (await harness.states(), harness.broker.calls) == ([("CREATE", "ACKED", None)], 2)


async def test_that_nothing_left_the_second_time_says_nothing_of_the_first(harness: Harness) -> None:
    await lost(harness)

    async def too_late(_: str) -> Outcome:
        harness.clock.seconds += DOOR_SECONDS
        return NotSent("no connection")

    harness.broker.script.append(too_late)
    await look(harness)
    assert (await harness.states(), await resends(harness)) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 1)


async def test_an_answer_to_the_first_write_settles_nothing_once_there_is_a_second(harness: Harness) -> None:
    await harness.accept(a_limit_create())
    harness.broker.script.append(LOST)
    (first,) = await harness.work()
    harness.broker.script.append(LOST)
    await look(harness)
    assert await resends(harness) == 1
    await harness.execute.answers(first, Refused("E1", "late"))
    assert await harness.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]


class Pausing(Clock):
    """Whoever reads it is paused for longer than a door stays fresh."""

    def __call__(self) -> float:
        self.seconds += DOOR_SECONDS + 1
        return self.seconds


async def test_a_second_door_that_grew_old_is_not_written_through(harness: Harness) -> None:
    await lost(harness)
    await look(replace(harness, clock=Pausing()))
    assert (await harness.states(), harness.broker.calls) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 1)


async def disable_symbol(harness: Harness) -> None:
    where = (harness.account.organization_id, harness.account.account_id, Symbol("AAPL"))
    control = ManualControl(manually_disabled=True)
    await PostgresControlStore(harness.pool).set_manual(*where, control, harness.tenant.principal)


async def disable_account(harness: Harness) -> None:
    await harness.pool.execute("update accounts set disabled = true")


async def disable_organization(harness: Harness) -> None:
    await harness.pool.execute("update organizations set disabled = true")


async def revoke_key(harness: Harness) -> None:
    await harness.pool.execute("update api_keys set revoked_at = clock_timestamp()")


async def halt(harness: Harness) -> None:
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as transaction:
        await transaction.halt("TEST", "a test")


async def grow_old(harness: Harness) -> None:
    await harness.pool.execute("update accounts set environment = 'live'")
    await harness.pool.execute("update action_states set queued_at = queued_at - interval '2 minutes'")


async def cancel(harness: Harness) -> None:
    await harness.accept(a_cancel(await harness.pool.fetchval("select order_id from orders")))


async def cancel_in_vain(harness: Harness) -> None:
    await cancel(harness)
    await harness.pool.execute(
        "update action_states set state = 'SKIPPED', settled_at = clock_timestamp() where action_type = 'CANCEL'"
    )


@pytest.mark.parametrize(
    "change",
    [disable_symbol, disable_account, disable_organization, revoke_key, halt, grow_old, cancel, cancel_in_vain],
)
async def test_what_may_not_pass_the_door_any_more_is_failed_and_not_written(
    harness: Harness, change: Callable[[Harness], Awaitable[None]]
) -> None:
    await lost(harness)
    await change(harness)
    await look(harness)
    assert (await harness.states())[0] == ("CREATE", "FAILED", "NOT_AT_BROKER")
    assert harness.broker.calls == 1


class StandingAt(NothingToSignIn):
    """Implements SendGate: the account stands so with its broker."""

    def __init__(self, passage: SendPermission) -> None:
        self.stands = passage

    async def passage(self, account: BrokerAccount, transaction: AccountTransaction) -> SendPermission:
        del account, transaction
        return self.stands


@pytest.mark.parametrize(("passage", "state"), [(SendPermission.NOT_READY, "FAILED"), (SendPermission.WAIT, "UNKNOWN")])
async def test_nothing_is_written_again_with_a_credential_that_is_not_the_account_s(
    harness: Harness, passage: SendPermission, state: str
) -> None:
    await lost(harness)
    await look(replace(harness, fence=StandingAt(passage)))
    assert ((await harness.states())[0][1], harness.broker.calls) == (state, 1)


async def a_lost_replace(harness: Harness) -> str:
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent))
    harness.broker.script.append(LOST)
    await harness.work()
    old = some_terms(10, "1.50", TimeInForce.GOOD_TILL_CANCEL)
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id, terms=old)
    return order_id


async def test_a_replace_that_never_arrived_is_written_again_where_its_id_is_enforced(harness: Harness) -> None:
    await a_lost_replace(harness)
    await look(harness)
    _, first, again = harness.broker.writes
    assert first.replacement is not None
    assert again.replacement is not None
    assert (again.client_order_id, again.replacement.terms) == (first.client_order_id, first.replacement.terms)
    assert (await harness.states())[1] == ("REPLACE", "ACKED", None)


async def test_a_replace_by_what_may_still_fill_is_not_written_again(harness: Harness) -> None:
    await a_lost_replace(harness)
    await look(harness, replace=ReplaceSupport.NATIVE_REMAINING)
    assert (await harness.states())[1] == ("REPLACE", "FAILED", "NOT_AT_BROKER")
    assert harness.broker.calls == 2


async def test_each_repeat_of_a_cancel_is_counted(harness: Harness) -> None:
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    await harness.accept(a_cancel(intent))
    harness.broker.script.extend([LOST, LOST, LOST])
    await harness.work()
    for repeats in (1, 2):
        await look(harness, IdClass.NONE, repeats_cancels=True)
        assert (await resends(harness), len(harness.broker.writes)) == (repeats, 2 + repeats)
    assert (await harness.states())[1][1] == "UNKNOWN"

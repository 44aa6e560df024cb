"""Doubt is shown and people are told of it, whether or not the broker can be reached; it never ends by that."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from openbell_server.adapters.postgres.execution.execution import ROUND_MAX, PostgresExecutionStore
from openbell_server.adapters.postgres.operators.diagnostics import Diagnostics
from openbell_server.application.execution.account_dispatcher import SWEEP_SECONDS, AccountDispatcher
from openbell_server.application.execution.flag_unknown import FLAG_SECONDS, STUCK_SECONDS, FlagUnknown
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.identifiers import IntentId, client_order_id
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.broker_reports import OrderReport, ReportStatus, Unknown
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_report, accept
from support.rest.rest_api import rest_api

PROMISED_SECONDS = 30.0


async def in_doubt(harness: Harness) -> tuple[IntentId, str]:
    intent = await harness.accept(a_limit_create())
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    return intent, client_order_id(door.action.action_id)


async def pass_time(harness: Harness, seconds: float) -> None:
    await harness.pool.execute(
        "update action_states set send_started_at = send_started_at - $1 * interval '1 second', "
        "unknown_since = unknown_since - $1 * interval '1 second' where settled_at is null",
        seconds,
    )


async def flag(harness: Harness) -> None:
    await FlagUnknown(PostgresExecutionStore(harness.pool), harness.hints)(harness.account, PAPER.capabilities)


async def flagged(harness: Harness) -> int:
    return int(await harness.pool.fetchval("select count(flagged_at) from action_states"))


def test_what_an_abandoned_action_waits_for_adds_up_to_less_than_was_promised() -> None:
    assert STUCK_SECONDS + FLAG_SECONDS + 4 * SWEEP_SECONDS < PROMISED_SECONDS


async def test_an_action_unknown_for_long_is_flagged_once_with_an_event_and_stays_unknown(
    harness: Harness,
) -> None:
    await in_doubt(harness)
    await flag(harness)
    assert await flagged(harness) == 0
    await pass_time(harness, FLAG_SECONDS)
    for _ in range(2):
        await flag(harness)
    assert await flagged(harness) == 1
    assert await harness.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]
    told = await harness.told("NEEDS_ATTENTION")
    assert (told["status"], told["unknown"]["writes"]) == ("UNKNOWN", 1)
    assert told["unknown"]["flagged_at"] > told["unknown"]["since"]
    count, oldest, needing = await Diagnostics(harness.pool).unknown_actions()
    assert (count, needing) == (1, 1)
    assert oldest >= FLAG_SECONDS


async def test_an_action_abandoned_past_its_door_is_shown_as_unknown_then_flagged_without_its_broker(
    harness: Harness,
) -> None:
    await harness.accept()
    await harness.open_doors()
    await pass_time(harness, STUCK_SECONDS)
    await flag(harness)
    assert await harness.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]
    await pass_time(harness, FLAG_SECONDS)
    await flag(harness)
    assert (await flagged(harness), harness.broker.asked) == (1, [])


async def test_the_sweep_flags_though_the_broker_is_out_of_reach(harness: Harness) -> None:
    await in_doubt(harness)
    await pass_time(harness, FLAG_SECONDS)
    slots = await harness.all_slots()
    store = PostgresExecutionStore(harness.pool)
    async with harness.following(slots) as follow:
        harness.broker.is_connected = False
        settle = SettleUnknown(store, harness.track, harness.hints, harness.execute)
        work = AccountDispatcher(
            store, harness.execute, settle, RecoverAccount(store, harness.track), {"paper": follow}, slots
        )

        async def is_flagged() -> bool:
            await work.sweep()
            return await flagged(harness) == 1

        await until(is_flagged)
        await work.drain()
    assert work.failures == []


async def test_however_many_are_in_doubt_all_of_them_are_flagged(harness: Harness) -> None:
    await accept(harness.pool, *(harness.tenant.submission() for _ in range(ROUND_MAX + 5)))
    await harness.open_doors(ROUND_MAX + 5)
    await pass_time(harness, 60)
    for _ in range(2):
        await flag(harness)
    await pass_time(harness, 60)
    for _ in range(2):
        await flag(harness)
    assert await flagged(harness) == ROUND_MAX + 5


async def missed_twice(harness: Harness, **honesty: Any) -> None:
    await harness.pool.execute(
        "update action_states set send_started_at = clock_timestamp() - interval '10 seconds', probes = "
        "jsonb_build_array(jsonb_build_object('at', clock_timestamp() - interval '3 seconds', 'found', false))"
    )
    for _ in range(3):
        await harness.settle(1, **honesty)


@pytest.mark.parametrize("id_class", list(IdClass))
async def test_that_an_order_is_not_among_the_open_ones_proves_nothing_and_is_flagged_at_once(
    harness: Harness, id_class: IdClass
) -> None:
    intent, order_id = await in_doubt(harness)
    await missed_twice(harness, id_class=id_class, look_up=LookUp.OPEN_ORDERS)
    assert (await harness.states(), harness.broker.calls) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 1)
    assert await flagged(harness) == 1
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    await harness.settle(1, id_class=id_class, look_up=LookUp.OPEN_ORDERS)
    assert await harness.states() == [("CREATE", "ACKED", None)]
    assert (await harness.order(intent))["certainty"] == "CONFIRMED"


@pytest.mark.parametrize("id_class", list(IdClass))
async def test_an_order_whose_broker_can_be_asked_by_its_own_id_only_is_not_asked_for_but_flagged_at_once(
    harness: Harness, id_class: IdClass
) -> None:
    await in_doubt(harness)
    await missed_twice(harness, id_class=id_class, look_up=LookUp.BROKER_ID)
    assert (await harness.states(), harness.broker.calls) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 1)
    assert (harness.broker.asked, await flagged(harness)) == ([], 1)


async def test_a_cancel_of_an_order_that_is_not_shown_stays_unknown(harness: Harness) -> None:
    intent, _ = await harness.working()
    await harness.accept(a_cancel(intent))
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    await missed_twice(harness, look_up=LookUp.OPEN_ORDERS, repeats_cancels=True)
    assert ((await harness.states())[1][1], len(harness.broker.writes)) == ("UNKNOWN", 2)


async def test_an_intent_in_doubt_is_shown_with_its_evidence_its_writes_and_what_would_settle_it(
    harness: Harness,
) -> None:
    intent, _ = await in_doubt(harness)
    await harness.settle(3600)
    async with rest_api(harness.pool) as api:
        fresh = (await api.read(harness.tenant, f"/{intent}")).json()["execution"]
        await pass_time(harness, FLAG_SECONDS)
        await flag(harness)
        shown = (await api.read(harness.tenant, f"/{intent}")).json()["execution"]
    assert (fresh["status"], fresh["certainty"]) == ("UNKNOWN", "UNKNOWN")
    assert "flagged_at" not in fresh["unknown"]
    assert [probe["found"] for probe in shown["unknown"]["probes"]] == [False]
    assert shown["unknown"]["writes"] == 1
    assert shown["unknown"]["flagged_at"] > shown["unknown"]["since"]
    settles_by = "A report or a look-up that shows the order. Two look-ups"
    assert shown["unknown"]["settles_by"].startswith(settles_by)


async def test_a_broker_that_cannot_be_asked_keeps_no_doubt_from_being_flagged(harness: Harness) -> None:
    await in_doubt(harness)

    async def fails(_: str) -> OrderReport | None:
        raise TimeoutError

    harness.broker.look_up = fails
    await pass_time(harness, FLAG_SECONDS)
    await asyncio.gather(harness.settle(0), flag(harness), return_exceptions=True)
    assert await flagged(harness) == 1


async def test_settled_actions_are_not_flagged(harness: Harness) -> None:
    await harness.working()
    await harness.pool.execute("update action_states set unknown_since = clock_timestamp() - interval '1 hour'")
    await flag(replace(harness))
    assert await flagged(harness) == 0

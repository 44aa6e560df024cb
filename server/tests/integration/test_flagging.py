"""Doubt is shown and people are told of it, whether or not the broker can be reached; it never ends by that."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from builders import a_cancel, a_limit_create, a_report, a_tenant, accept
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.examination import Examination
from openbell_server.adapters.postgres.execution import ROUND_MAX, PostgresExecutionStore
from openbell_server.application.flag_unknown import FLAG_SECONDS, STUCK_SECONDS, FlagUnknown
from openbell_server.application.recover_account import RecoverAccount
from openbell_server.application.settle_unknown import SettleUnknown
from openbell_server.application.work_accounts import SWEEP_SECONDS, WorkAccounts
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.broker_honesty import IdClass, LookUp
from openbell_server.domain.broker_orders import OrderReport, ReportStatus, Unknown
from openbell_server.domain.identifiers import IntentId, client_order_id
from paper_broker import until
from rest_api import rest_api
from scripted_broker import Desk

PROMISED_SECONDS = 30.0


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    return Desk(pool, await a_tenant(pool))


async def in_doubt(desk: Desk) -> tuple[IntentId, str]:
    intent = await desk.accept(a_limit_create())
    desk.broker.script.append(Unknown("no answer"))
    (door,) = await desk.work()
    return intent, client_order_id(door.action.action_id)


async def pass_time(desk: Desk, seconds: float) -> None:
    await desk.pool.execute(
        "update action_states set send_started_at = send_started_at - $1 * interval '1 second', "
        "unknown_since = unknown_since - $1 * interval '1 second' where settled_at is null",
        seconds,
    )


async def flag(desk: Desk) -> None:
    await FlagUnknown(PostgresExecutionStore(desk.pool), desk.hints)(desk.account, PAPER.capabilities)


async def flagged(desk: Desk) -> int:
    return int(await desk.pool.fetchval("select count(flagged_at) from action_states"))


def test_what_an_abandoned_action_waits_for_adds_up_to_less_than_was_promised() -> None:
    assert STUCK_SECONDS + FLAG_SECONDS + 4 * SWEEP_SECONDS < PROMISED_SECONDS


async def test_an_action_unknown_for_long_is_flagged_once_with_an_event_and_stays_unknown(desk: Desk) -> None:
    await in_doubt(desk)
    await flag(desk)
    assert await flagged(desk) == 0
    await pass_time(desk, FLAG_SECONDS)
    for _ in range(2):
        await flag(desk)
    assert await flagged(desk) == 1
    assert await desk.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]
    told = await desk.told("NEEDS_ATTENTION")
    assert (told["state"], told["unknown"]["writes"]) == ("UNKNOWN", 1)
    assert told["unknown"]["flagged_at"] > told["unknown"]["since"]
    count, oldest, needing = await Examination(desk.pool).unknown_actions()
    assert (count, needing) == (1, 1)
    assert oldest >= FLAG_SECONDS


async def test_an_action_abandoned_past_its_door_is_shown_as_unknown_then_flagged_without_its_broker(
    desk: Desk,
) -> None:
    await desk.accept()
    await desk.open_doors()
    await pass_time(desk, STUCK_SECONDS)
    await flag(desk)
    assert await desk.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]
    await pass_time(desk, FLAG_SECONDS)
    await flag(desk)
    assert (await flagged(desk), desk.broker.asked) == (1, [])


async def test_the_sweep_flags_though_the_broker_is_out_of_reach(desk: Desk) -> None:
    await in_doubt(desk)
    await pass_time(desk, FLAG_SECONDS)
    slots = await desk.all_slots()
    store = PostgresExecutionStore(desk.pool)
    async with desk.following(slots) as follow:
        desk.broker.is_connected = False
        settle = SettleUnknown(store, desk.track, desk.hints, desk.execute)
        work = WorkAccounts(store, desk.execute, settle, RecoverAccount(store, desk.track), {"paper": follow}, slots)

        async def is_flagged() -> bool:
            await work.sweep()
            return await flagged(desk) == 1

        await until(is_flagged)
        await work.drain()
    assert work.failures == []


async def test_however_many_are_in_doubt_all_of_them_are_flagged(desk: Desk) -> None:
    await accept(desk.pool, *(desk.tenant.submission() for _ in range(ROUND_MAX + 5)))
    await desk.open_doors(ROUND_MAX + 5)
    await pass_time(desk, 60)
    for _ in range(2):
        await flag(desk)
    await pass_time(desk, 60)
    for _ in range(2):
        await flag(desk)
    assert await flagged(desk) == ROUND_MAX + 5


async def missed_twice(desk: Desk, **honesty: Any) -> None:
    await desk.pool.execute(
        "update action_states set send_started_at = clock_timestamp() - interval '10 seconds', probes = "
        "jsonb_build_array(jsonb_build_object('at', clock_timestamp() - interval '3 seconds', 'found', false))"
    )
    for _ in range(3):
        await desk.settle(1, **honesty)


@pytest.mark.parametrize("id_class", list(IdClass))
async def test_that_an_order_is_not_among_the_open_ones_proves_nothing_and_is_flagged_at_once(
    desk: Desk, id_class: IdClass
) -> None:
    intent, order_id = await in_doubt(desk)
    await missed_twice(desk, id_class=id_class, look_up=LookUp.OPEN_ORDERS)
    assert (await desk.states(), desk.broker.calls) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 1)
    assert await flagged(desk) == 1
    desk.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    await desk.settle(1, id_class=id_class, look_up=LookUp.OPEN_ORDERS)
    assert await desk.states() == [("CREATE", "ACKED", None)]
    assert (await desk.order(intent))["certainty"] == "CONFIRMED"


@pytest.mark.parametrize("id_class", list(IdClass))
async def test_an_order_whose_broker_can_be_asked_by_its_own_id_only_is_not_asked_for_but_flagged_at_once(
    desk: Desk, id_class: IdClass
) -> None:
    await in_doubt(desk)
    await missed_twice(desk, id_class=id_class, look_up=LookUp.BROKER_ID)
    assert (await desk.states(), desk.broker.calls) == ([("CREATE", "UNKNOWN", "NO_ANSWER")], 1)
    assert (desk.broker.asked, await flagged(desk)) == ([], 1)


async def test_a_cancel_of_an_order_that_is_not_shown_stays_unknown(desk: Desk) -> None:
    intent, _ = await desk.working()
    await desk.accept(a_cancel(intent))
    desk.broker.script.append(Unknown("no answer"))
    await desk.work()
    await missed_twice(desk, look_up=LookUp.OPEN_ORDERS, repeats_cancels=True)
    assert ((await desk.states())[1][1], len(desk.broker.writes)) == ("UNKNOWN", 2)


async def test_an_intent_in_doubt_is_shown_with_its_evidence_its_writes_and_what_would_settle_it(desk: Desk) -> None:
    intent, _ = await in_doubt(desk)
    await desk.settle(3600)
    async with rest_api(desk.pool) as api:
        fresh = (await api.read(desk.tenant, f"/{intent}")).json()["execution"]
        await pass_time(desk, FLAG_SECONDS)
        await flag(desk)
        shown = (await api.read(desk.tenant, f"/{intent}")).json()["execution"]
    assert (fresh["state"], fresh["certainty"]) == ("UNKNOWN", "unknown")
    assert "flagged_at" not in fresh["unknown"]
    assert [probe["found"] for probe in shown["unknown"]["probes"]] == [False]
    assert shown["unknown"]["writes"] == 1
    assert shown["unknown"]["flagged_at"] > shown["unknown"]["since"]
    settles_by = "A report or a look-up that shows the order. Two look-ups"
    assert shown["unknown"]["settles_by"].startswith(settles_by)


async def test_a_broker_that_cannot_be_asked_keeps_no_doubt_from_being_flagged(desk: Desk) -> None:
    await in_doubt(desk)

    async def fails(_: str) -> OrderReport | None:
        raise TimeoutError

    desk.broker.look_up = fails
    await pass_time(desk, FLAG_SECONDS)
    await asyncio.gather(desk.settle(0), flag(desk), return_exceptions=True)
    assert await flagged(desk) == 1


async def test_settled_actions_are_not_flagged(desk: Desk) -> None:
    await desk.working()
    await desk.pool.execute("update action_states set unknown_since = clock_timestamp() - interval '1 hour'")
    await flag(replace(desk))
    assert await flagged(desk) == 0

"""Execution with a scripted broker: each command is written once, in order, and its end is the broker's word."""

import asyncio
import json
import time

import pytest

from openbell_server.application.execution.execute_action import DOOR_SECONDS
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Outcome, Refused, ReportStatus, Unknown
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_report, accept, an_execution

SETTLE_SECONDS = 0.05


async def settled(harness: Harness, state: str) -> None:
    """Probe, ten times a second, until the first action stands there."""
    async with asyncio.timeout(60):
        while (await harness.states())[0][1] != state:
            await harness.settle(SETTLE_SECONDS)
            await asyncio.sleep(0.1)


OUTCOMES = [
    (Accepted("b1"), "ACKED", None, "NEW"),
    (Refused("E1", "no money"), "REFUSED", "BROKER_REFUSED", "REJECTED"),
    (Unknown("no answer"), "UNKNOWN", "NO_ANSWER", "UNKNOWN"),
    (TimeoutError(), "UNKNOWN", "NO_ANSWER", "UNKNOWN"),
    (ConnectionResetError("reset"), "UNKNOWN", "NO_ANSWER", "UNKNOWN"),
    (ValueError("a bug of the adapter"), "UNKNOWN", "NO_ANSWER", "UNKNOWN"),
    (Refused("E\0", "half a \ud800 and \0"), "REFUSED", "BROKER_REFUSED", "REJECTED"),
    (ValueError("\0\ud800"), "UNKNOWN", "NO_ANSWER", "UNKNOWN"),
]


@pytest.mark.parametrize(("answer", "state", "reason", "status"), OUTCOMES)
async def test_a_create_is_written_once_whatever_the_answer(
    harness: Harness, answer: Outcome | Exception, state: str, reason: str | None, status: str
) -> None:
    await harness.accept()
    harness.broker.script.append(answer)
    await harness.work()
    assert await harness.states() == [("CREATE", state, reason)]
    for _ in range(3):
        assert await harness.work() == []
    assert [write.command for write in harness.broker.writes] == ["submit"]
    body = await harness.pool.fetchval("select body from account_events where kind = 2 order by event_no desc limit 1")
    assert json.loads(body)["status"] == status


CANCEL_OUTCOMES = [(answer, state, reason) for answer, state, reason, _ in OUTCOMES]


@pytest.mark.parametrize(("answer", "state", "reason"), CANCEL_OUTCOMES)
async def test_a_cancel_is_written_once_whatever_the_answer(
    harness: Harness, answer: Outcome | Exception, state: str, reason: str | None
) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_cancel(intent))
    harness.broker.script.append(answer)
    await harness.work()
    assert await harness.work() == []
    assert await harness.states() == [("CREATE", "ACKED", None), ("CANCEL", state, reason)]
    assert [(write.command, write.client_order_id) for write in harness.broker.writes] == [
        ("submit", order_id),
        ("cancel", order_id),
    ]


async def test_what_was_provably_not_sent_may_be_tried_again_inside_its_door(harness: Harness) -> None:
    await harness.accept()
    harness.broker.script.extend([NotSent("no connection"), NotSent("no connection")])
    await harness.work()
    assert (harness.broker.calls, len(harness.broker.writes)) == (3, 1)
    assert await harness.states() == [("CREATE", "ACKED", None)]


async def test_what_was_not_sent_before_its_door_closed_is_failed_for_good(harness: Harness) -> None:
    intent = await harness.accept()

    async def late(_: str) -> Outcome:
        harness.clock.seconds = DOOR_SECONDS - 0.1
        return NotSent("no connection")

    harness.broker.script.append(late)
    await harness.work()
    assert await harness.work() == []
    assert harness.broker.calls == 1
    assert await harness.states() == [("CREATE", "FAILED", "NOT_SENT")]
    assert (await harness.order(intent))["close_reason"] == "FAILED"


async def test_a_door_older_than_two_seconds_is_never_written(harness: Harness) -> None:
    await harness.accept()
    (door,) = await harness.open_doors()
    harness.clock.seconds += DOOR_SECONDS + 0.001
    await harness.execute.dispatch(harness.broker, door)
    assert harness.broker.calls == 0
    assert await harness.states() == [("CREATE", "FAILED", "NOT_SENT")]


async def test_a_broker_is_told_not_to_take_a_command_after_its_door_closed(harness: Harness) -> None:
    await harness.accept()
    await harness.work()
    opened = await harness.pool.fetchval("select send_started_at from action_states")
    (write,) = harness.broker.writes
    assert abs((write.valid_until - opened).total_seconds() - DOOR_SECONDS) < 0.5


async def test_workers_that_race_open_each_door_once(harness: Harness) -> None:
    await accept(harness.pool, *(harness.tenant.submission() for _ in range(40)))
    rival = Harness(harness.pool, harness.tenant, harness.broker)

    async def work_until_empty(worker: Harness) -> list[Door]:
        doors: list[Door] = []
        while opened := await worker.work(free=3):
            doors += opened
        return doors

    taken = await asyncio.gather(*(work_until_empty(worker) for worker in (harness, rival, harness, rival)))
    assert len({door.action.action_id for doors in taken for door in doors}) == sum(map(len, taken)) == 40
    written = [write.client_order_id for write in harness.broker.writes]
    assert len(written) == len(set(written)) == 40
    assert {state for _, state, _ in await harness.states()} == {"ACKED"}


async def test_doors_open_in_commit_order_and_no_more_than_are_free(harness: Harness) -> None:
    intents = [await harness.accept() for _ in range(5)]
    opened = [[door.action.intent_id for door in await harness.open_doors(free)] for free in (2, 2, 2)]
    assert opened == [intents[:2], intents[2:4], intents[4:]]


async def test_the_commands_of_an_intent_go_one_after_the_other(harness: Harness) -> None:
    intent = await harness.accept(a_limit_create())
    (door,) = await harness.open_doors()
    await harness.accept(a_cancel(intent))
    assert await harness.open_doors() == []
    harness.broker.script.append(Unknown("no answer"))
    await harness.execute.dispatch(harness.broker, door)
    assert await harness.open_doors() == []
    await harness.report(a_report(ReportStatus.WORKING, client_order_id=client_order_id(door.action.action_id)))
    await harness.work()
    assert [write.command for write in harness.broker.writes] == ["submit", "cancel"]


async def test_an_order_is_told_to_wait_for_a_cancel_that_was_recorded_before_the_broker_had_it(
    harness: Harness,
) -> None:
    intent = await harness.accept(a_limit_create())
    (door,) = await harness.open_doors()
    await harness.accept(a_cancel(intent))
    await harness.execute.dispatch(harness.broker, door)
    harness.hints.accounts.clear()
    (door,) = await harness.open_doors()
    told = await harness.pool.fetch("select body from account_events where kind = 2 order by event_no")
    assert [json.loads(row["body"])["status"] for row in told] == ["NEW", "PENDING_CANCEL"]
    assert harness.hints.accounts == [harness.account.account_id]
    await harness.execute.dispatch(harness.broker, door)
    assert (await harness.order(intent))["pending"] == "CANCEL"


async def test_a_cancel_of_an_unsent_create_sends_nothing(harness: Harness) -> None:
    intent = await harness.accept()
    await harness.accept(a_cancel(intent))
    assert await harness.work() == []
    assert harness.broker.calls == 0
    assert await harness.states() == [("CREATE", "SKIPPED", "SUPERSEDED"), ("CANCEL", "SKIPPED", "NOTHING_SENT")]
    order = await harness.order(intent)
    assert (order["standing"], order["close_reason"], order["filled_quantity"]) == ("CLOSED", "SKIPPED", 0)
    assert harness.hints.accounts


async def test_a_cancel_goes_ahead_of_queued_creates(harness: Harness) -> None:
    intent, order_id = await harness.working()
    await accept(harness.pool, *(harness.tenant.submission() for _ in range(5)))
    await harness.accept(a_cancel(intent))
    await harness.work(free=1)
    assert (harness.broker.writes[-1].command, harness.broker.writes[-1].client_order_id) == ("cancel", order_id)


async def test_a_cancel_goes_ahead_of_however_many_queued_creates(harness: Harness) -> None:
    intent, order_id = await harness.working()
    for _ in range(3):
        await accept(harness.pool, *(harness.tenant.submission() for _ in range(200)))
    await harness.accept(a_cancel(intent))
    await harness.work(free=1)
    assert (harness.broker.writes[-1].command, harness.broker.writes[-1].client_order_id) == ("cancel", order_id)


async def test_a_cancel_of_an_order_that_closed_meanwhile_is_skipped(harness: Harness) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_cancel(intent))
    await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert await harness.work() == []
    assert (await harness.states())[1] == ("CANCEL", "SKIPPED", "ORDER_TERMINAL")
    assert len(harness.broker.writes) == 1


async def test_an_unknown_order_that_is_found_is_acknowledged_and_filled_and_never_sent_again(
    harness: Harness,
) -> None:
    intent = await harness.accept()
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    assert (await harness.order(intent))["certainty"] == "UNKNOWN"
    order_id = client_order_id(door.action.action_id)
    harness.broker.book[order_id] = a_report(ReportStatus.FILLED, [an_execution(1, 10, 2)], client_order_id=order_id)
    await harness.settle(SETTLE_SECONDS)
    assert await harness.states() == [("CREATE", "ACKED", None)]
    order = await harness.order(intent)
    assert (order["filled_quantity"], order["close_reason"], order["certainty"]) == (10, "FILLED", "CONFIRMED")
    await harness.settle(SETTLE_SECONDS)
    assert await harness.work() == []
    assert harness.broker.calls == 1


async def test_an_unknown_order_that_is_missed_twice_after_the_settle_time_is_failed(harness: Harness) -> None:
    intent = await harness.accept()
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    begun = time.monotonic()
    await settled(harness, "FAILED")
    assert time.monotonic() - begun >= 1.0
    assert await harness.states() == [("CREATE", "FAILED", "NOT_AT_BROKER")]
    probes = json.loads(await harness.pool.fetchval("select probes from action_states"))
    assert len(probes) >= 2
    assert not any(probe["found"] for probe in probes)
    assert (await harness.order(intent))["close_reason"] == "FAILED"
    assert harness.broker.calls == 1


async def test_misses_before_the_settle_time_prove_nothing(harness: Harness) -> None:
    await harness.accept()
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    await harness.pool.execute(
        "update action_states set send_started_at = send_started_at - interval '50 seconds', probes = ("
        "select jsonb_agg(jsonb_build_object('at', send_started_at - make_interval(secs => 50 - n), 'found', false)) "
        "from generate_series(1, 40) n)"
    )
    # Of all misses only the one of this look is past 45 seconds, however long it takes; a lone one proves nothing.
    for settle_seconds in (45, 3600, 3600):
        await harness.settle(settle_seconds)
        assert await harness.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]


async def test_an_order_found_after_a_miss_is_never_failed(harness: Harness) -> None:
    await harness.accept()
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    await harness.settle(0)
    order_id = client_order_id(door.action.action_id)
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    await settled(harness, "ACKED")
    assert harness.broker.calls == 1


async def test_an_action_abandoned_past_its_door_is_probed_not_sent(harness: Harness) -> None:
    await harness.accept()
    (door,) = await harness.open_doors()
    await harness.settle(SETTLE_SECONDS)
    assert await harness.states() == [("CREATE", "DISPATCHING", None)]
    await harness.pool.execute("update action_states set send_started_at = send_started_at - interval '10 seconds'")
    await harness.settle(3600)
    assert await harness.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]
    order_id = client_order_id(door.action.action_id)
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    await harness.settle(3600)
    assert await harness.states() == [("CREATE", "ACKED", None)]
    assert harness.broker.calls == 0


async def test_a_cancel_in_doubt_is_never_ended_by_a_timer(harness: Harness) -> None:
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    await harness.accept(a_cancel(intent))
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    begun = time.monotonic()
    while time.monotonic() - begun < 1.5:
        await harness.settle(0)
        assert (await harness.states())[1][1] == "UNKNOWN"
        await asyncio.sleep(0.1)
    harness.broker.book[order_id] = a_report(ReportStatus.CANCELED, client_order_id=order_id)
    await harness.settle(0)
    assert (await harness.states())[1] == ("CANCEL", "ACKED", None)


async def test_a_cancel_in_doubt_is_asked_again_where_a_repeat_can_do_nothing_new(harness: Harness) -> None:
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    await harness.accept(a_cancel(intent))
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    written = len(harness.broker.writes)
    await harness.settle(3600, repeats_cancels=True)
    assert len(harness.broker.writes) == written
    await harness.settle(0, repeats_cancels=True)
    assert [write.command for write in harness.broker.writes[written:]] == ["cancel"]
    assert (await harness.states())[1][:2] == ("CANCEL", "ACKED")

"""Trouble between us, a broker and NATS: what one party cannot say is neither guessed nor lost."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from openbell_exchange.decisions import DUPLICATE_ID
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.publishing import JetStreamPublisher, work_messages
from openbell_server.adapters.jetstream.subjects import WORK_STREAM
from openbell_server.adapters.postgres.events.outbox import PostgresOutboxStore
from openbell_server.adapters.postgres.execution.execution import ROUND_MAX
from openbell_server.application.events.relay_outbox import RelayOutbox
from openbell_server.application.execution.execute_action import DOOR_SECONDS
from openbell_server.application.execution.settle_unknown import MISS_SPACING_SECONDS
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.brokers.paper.wire import REFUSALS
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.events.outbox import Queue
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import NotSent, OrderReport, Outcome, ReportStatus, Unknown
from support.brokers.answered_http import AnsweredHttp
from support.brokers.paper_broker import resting, until
from support.brokers.scripted_broker import Harness, until_so
from support.builders.tenant import a_cancel, a_limit_create, a_report, accept, an_execution

SETTLE_SECONDS = 0.1


async def in_doubt(harness: Harness) -> str:
    """The client order id of a create that got no answer."""
    await harness.accept(a_limit_create())
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    return client_order_id(door.action.action_id)


async def test_no_cancel_stays_queued_however_many_unsent_creates_are_cancelled(harness: Harness) -> None:
    accepted = await accept(harness.pool, *(harness.tenant.submission() for _ in range(3 * ROUND_MAX)))
    cancelled = [create.intent_id for create in accepted[: 2 * ROUND_MAX + 1]]
    await accept(harness.pool, *(harness.tenant.submission(a_cancel(intent)) for intent in cancelled))
    for _ in range(3):
        await harness.work(free=1)
    cancels = [state for kind, state, _ in await harness.states() if kind == "CANCEL"]
    assert len(cancels) == len(cancelled)
    assert set(cancels) <= {"SKIPPED", "ACKED"}
    assert len(harness.broker.writes) <= 3


async def test_a_look_up_that_fails_keeps_no_other_from_being_asked(harness: Harness) -> None:
    poisoned, other = await in_doubt(harness), await in_doubt(harness)
    filled = a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=other)

    async def fails_for_one(order_id: str) -> OrderReport | None:
        if order_id == poisoned:
            raise TimeoutError
        return filled

    harness.broker.look_up = fails_for_one
    with pytest.raises(TimeoutError):
        await harness.settle(0)
    assert harness.broker.asked == [poisoned, other]
    assert await harness.states() == [("CREATE", "UNKNOWN", "NO_ANSWER"), ("CREATE", "ACKED", None)]


async def until_the_database_is_past(harness: Harness, seconds: float) -> None:
    """Wait until so many seconds after the door of the first action."""

    async def is_past() -> bool:
        age = await harness.pool.fetchval("select clock_timestamp() - send_started_at from action_states limit 1")
        return bool(age > timedelta(seconds=seconds))

    await until(is_past)


async def test_a_look_up_begun_before_the_settle_time_proves_nothing_however_late_it_is_recorded(
    harness: Harness,
) -> None:
    gate = asyncio.Event()
    await in_doubt(harness)

    async def misses_and_pauses(_: str) -> OrderReport | None:
        await gate.wait()
        return None

    harness.broker.look_up = misses_and_pauses
    paused = asyncio.ensure_future(harness.settle(SETTLE_SECONDS))
    await until_so(lambda: len(harness.broker.asked) == 1)
    harness.broker.look_up = None
    await until_the_database_is_past(harness, SETTLE_SECONDS)
    await harness.settle(SETTLE_SECONDS)
    await until_the_database_is_past(harness, SETTLE_SECONDS + MISS_SPACING_SECONDS + 0.2)
    gate.set()
    # A machine so slow that the look-up ran out of time has proved nothing either.
    await asyncio.gather(paused, return_exceptions=True)
    assert await harness.states() == [("CREATE", "UNKNOWN", "NO_ANSWER")]


async def test_an_order_called_failed_that_is_seen_working_is_shown_as_working(harness: Harness) -> None:
    order_id = await in_doubt(harness)

    async def is_failed() -> bool:
        await harness.settle(0)
        return (await harness.states())[0][1] == "FAILED"

    await until(is_failed)
    await harness.report(a_report(ReportStatus.WORKING, client_order_id=order_id))
    (order,) = await harness.pool.fetch("select * from orders")
    assert (order["standing"], order["close_reason"], order["broker_order_ids"]) == ("WORKING", None, ["b1"])
    await harness.accept(a_cancel(order["order_id"]))
    await harness.work()
    assert (harness.broker.writes[-1].command, harness.broker.writes[-1].client_order_id) == ("cancel", order_id)


async def test_a_queued_create_whose_order_is_at_the_broker_is_not_sent(harness: Harness) -> None:
    intent = await harness.accept()
    order_id = client_order_id(await harness.pool.fetchval("select action_id from action_states"))
    await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert await harness.work() == []
    assert harness.broker.writes == []
    assert await harness.states() == [("CREATE", "ACKED", None)]
    order = await harness.order(intent)
    assert (order["close_reason"], order["filled_quantity"]) == ("FILLED", 10)


async def test_an_id_that_the_broker_already_has_is_in_doubt_not_refused() -> None:
    duplicate = httpx.Response(REFUSALS[DUPLICATE_ID], json={"code": DUPLICATE_ID, "text": "it exists"})
    session = PaperSession("http://paper")
    session._http = AnsweredHttp(lambda _: duplicate)
    assert await session.submit(resting()) == Unknown("it exists")


async def test_a_cancel_after_one_that_was_never_sent_is_a_new_action(harness: Harness) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_cancel(intent))

    async def too_late(_: str) -> Outcome:
        harness.clock.seconds += DOOR_SECONDS
        return NotSent("no connection")

    harness.broker.script.append(too_late)
    await harness.work()
    assert (await harness.states())[1:] == [("CANCEL", "FAILED", "NOT_SENT")]
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert (await harness.states())[1:] == [("CANCEL", "FAILED", "NOT_SENT"), ("CANCEL", "ACKED", None)]
    assert (harness.broker.writes[-1].command, harness.broker.writes[-1].client_order_id) == ("cancel", order_id)


async def test_an_execution_counts_for_one_order_and_another_that_claims_it_is_asked_about(
    harness: Harness,
) -> None:
    first, second = await harness.working(), await harness.working()
    fill = [an_execution(1, 10)]
    claims = [a_report(ReportStatus.FILLED, fill, client_order_id=order_id) for _, order_id in (first, second)]
    assert await harness.report(claims[0]) == []
    assert await harness.report(claims[1]) == [claims[1]]
    orders = [await harness.order(intent) for intent, _ in (first, second)]
    assert [(order["standing"], order["filled_quantity"]) for order in orders] == [("CLOSED", 10), ("WORKING", 0)]
    assert await harness.pool.fetchval("select quantity from positions") == 10


@pytest.fixture
async def jetstream(services: LocalServices) -> AsyncIterator[JetStreamConnection]:
    connection = JetStreamConnection(services.nats.url)
    connection.start()
    await until_so(connection.is_reachable)
    yield connection
    await connection.close()


async def test_a_work_stream_that_is_deleted_is_made_anew_before_a_notice_is_given_up(
    harness: Harness, jetstream: JetStreamConnection
) -> None:
    assert jetstream.client is not None
    streams = jetstream.client.jetstream()
    await streams.delete_stream(WORK_STREAM)
    await harness.accept()
    relay = RelayOutbox(
        PostgresOutboxStore(harness.pool, Queue.INTENTS),
        JetStreamPublisher(jetstream, WORK_STREAM, work_messages),
        lambda: 0.0,
        harness.clock,
    )

    async def is_resolved() -> bool:
        await relay()
        return await harness.pool.fetchval("select status from intent_outbox") in ("completed", "failed")

    await until(is_resolved)
    assert await harness.pool.fetchval("select status from intent_outbox") == "completed"
    assert (await streams.stream_info(WORK_STREAM)).state.messages == 1

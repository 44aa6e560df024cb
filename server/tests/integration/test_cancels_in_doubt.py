"""A cancel of an order that nobody is sure of: sent where our id is known, and believed only in what is shown."""

from itertools import product

import pytest

from builders import a_cancel, a_limit_create, a_replace, a_report, a_tenant, an_execution
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.execute_action import DOOR_SECONDS
from openbell_server.application.record_answers import Door
from openbell_server.domain.broker_orders import Accepted, NotSent, OrderReport, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.identifiers import IntentId, client_order_id
from paper_broker import until
from scripted_broker import Desk

NO_SUCH_ORDER = Refused("unknown_order", "no such order")


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    return Desk(pool, await a_tenant(pool))


async def in_doubt(desk: Desk) -> tuple[IntentId, str]:
    """A create that got no answer, and its client order id."""
    intent = await desk.accept(a_limit_create())
    desk.broker.script.append(Unknown("no answer"))
    (door,) = await desk.work()
    return intent, client_order_id(door.action.action_id)


async def cancelled(desk: Desk, intent: IntentId) -> Door:
    """The open door of a cancel of this."""
    await desk.accept(a_cancel(intent))
    (door,) = await desk.open_doors(cancels_unseen=True)
    return door


async def answered(desk: Desk, door: Door, answer: Outcome) -> None:
    desk.broker.script.append(answer)
    await desk.execute.dispatch(desk.broker, door)


def shown(status: ReportStatus, order_id: str, filled: int = 0) -> OrderReport:
    return a_report(status, [an_execution(1, filled)] if filled else [], client_order_id=order_id)


async def of(desk: Desk, intent: IntentId) -> tuple[str, str, str, str | None]:
    """Where the cancel stands, what the order waits for, how certain it is, and how it ended."""
    order = await desk.order(intent)
    return (await desk.states())[-1][1], order["pending"], order["certainty"], order["close_reason"]


# What the broker answers to a cancel of an order in doubt, what it then or before shows of the order, and what follows.
EVIDENCE = {
    "WORKING": (ReportStatus.WORKING, 0),
    "FILLED": (ReportStatus.FILLED, 10),
    "CANCELED": (ReportStatus.CANCELED, 0),
}
ANSWERS: dict[str, Outcome] = {"Accepted": Accepted("b1"), "Refused": NO_SUCH_ORDER, "Unknown": Unknown("no answer")}
ENDS = {
    ("Accepted", "WORKING"): ("ACKED", "CANCEL", "CONFIRMED", None),
    ("Refused", "WORKING"): ("UNKNOWN", "CANCEL", "UNKNOWN", None),
    ("Unknown", "WORKING"): ("UNKNOWN", "CANCEL", "UNKNOWN", None),
    ("Accepted", "FILLED"): ("ACKED", "NONE", "CONFIRMED", "FILLED"),
    ("Refused", "FILLED"): ("REFUSED", "NONE", "CONFIRMED", "FILLED"),
    ("Unknown", "FILLED"): ("REFUSED", "NONE", "CONFIRMED", "FILLED"),
    ("Accepted", "CANCELED"): ("ACKED", "NONE", "CONFIRMED", "CANCELED"),
    ("Refused", "CANCELED"): ("ACKED", "NONE", "CONFIRMED", "CANCELED"),
    ("Unknown", "CANCELED"): ("ACKED", "NONE", "CONFIRMED", "CANCELED"),
}
# Where the order of the two matters: an answer to what was not in doubt any more, and one that no cancel waits for.
BY_ORDER = {
    (True, "Accepted", "WORKING"): ("ACKED", "NONE", "CONFIRMED", None),
    (False, "Accepted", "FILLED"): ("REFUSED", "NONE", "CONFIRMED", "FILLED"),
}


@pytest.mark.parametrize(("answer_first", "answer", "evidence"), [*product((True, False), ANSWERS, EVIDENCE)])
async def test_a_cancel_of_a_create_in_doubt_goes_by_our_id_and_ends_with_what_the_broker_shows(
    desk: Desk, *, answer_first: bool, answer: str, evidence: str
) -> None:
    intent, order_id = await in_doubt(desk)
    door = await cancelled(desk, intent)
    report = shown(*EVIDENCE[evidence][:1], order_id, EVIDENCE[evidence][1])
    if answer_first:
        await answered(desk, door, ANSWERS[answer])
        state, pending, certainty, _ = await of(desk, intent)
        assert (state, pending, certainty) == ("ACKED" if answer == "Accepted" else "UNKNOWN", "NEW", "UNKNOWN")
        await desk.report(report)
    else:
        await desk.report(report)
        assert (await of(desk, intent))[1] == ("CANCEL" if evidence == "WORKING" else "NONE")
        await answered(desk, door, ANSWERS[answer])
    expected = BY_ORDER.get((answer_first, answer, evidence), ENDS[answer, evidence])
    assert await of(desk, intent) == expected
    assert (await desk.states())[0] == ("CREATE", "ACKED", None)
    assert [(write.command, write.client_order_id) for write in desk.broker.writes] == [
        ("submit", order_id),
        ("cancel", order_id),
    ]


async def test_a_cancel_of_a_create_in_doubt_waits_where_the_broker_does_not_know_our_id(desk: Desk) -> None:
    intent, order_id = await in_doubt(desk)
    await desk.accept(a_cancel(intent))
    assert await desk.work() == []
    await desk.report(shown(ReportStatus.WORKING, order_id))
    await desk.work()
    assert (await of(desk, intent))[0] == "ACKED"


@pytest.mark.parametrize("filled", [0, 10])
async def test_a_cancel_waits_behind_a_create_that_is_being_written(desk: Desk, filled: int) -> None:
    intent = await desk.accept(a_limit_create())
    (door,) = await desk.open_doors()
    await desk.accept(a_cancel(intent))
    assert await desk.open_doors(cancels_unseen=True) == []
    await answered(desk, door, Accepted("b1"))
    if filled:
        await desk.report(shown(ReportStatus.FILLED, client_order_id(door.action.action_id), filled))
    await desk.work(cancels_unseen=True)
    assert [write.command for write in desk.broker.writes] == ["submit"] + ["cancel"] * (not filled)
    assert (await of(desk, intent))[0] == ("SKIPPED" if filled else "ACKED")


async def test_a_cancel_of_a_queued_create_sends_nothing_wherever_ids_are_known(desk: Desk) -> None:
    intent = await desk.accept(a_limit_create())
    await desk.accept(a_cancel(intent))
    assert await desk.work(cancels_unseen=True) == []
    assert [state for _, state, _ in await desk.states()] == ["SKIPPED", "SKIPPED"]


async def test_a_cancel_that_was_refused_unseen_is_repeated_when_its_order_is_seen(desk: Desk) -> None:
    intent, order_id = await in_doubt(desk)
    await answered(desk, await cancelled(desk, intent), NO_SUCH_ORDER)
    assert (await desk.states())[1] == ("CANCEL", "UNKNOWN", "ORDER_IN_DOUBT")
    await desk.settle(3600, repeats_cancels=True)
    assert len(desk.broker.writes) == 2
    desk.broker.book[order_id] = shown(ReportStatus.WORKING, order_id)
    await desk.settle(3600, repeats_cancels=True)
    assert [write.command for write in desk.broker.writes] == ["submit", "cancel", "cancel"]
    assert (await of(desk, intent)) == ("ACKED", "CANCEL", "CONFIRMED", None)
    await desk.report(shown(ReportStatus.CANCELED, order_id))
    assert (await of(desk, intent))[3] == "CANCELED"


async def test_a_cancel_of_an_order_that_proves_never_to_have_arrived_ends_with_it(desk: Desk) -> None:
    intent, _ = await in_doubt(desk)
    await answered(desk, await cancelled(desk, intent), NO_SUCH_ORDER)

    async def is_settled() -> bool:
        await desk.settle(0)
        return [state for _, state, _ in await desk.states()] == ["FAILED", "REFUSED"]

    await until(is_settled)
    assert (await desk.states())[1] == ("CANCEL", "REFUSED", "ORDER_TERMINAL")
    assert (await of(desk, intent))[3] == "FAILED"


async def test_a_cancel_that_was_not_sent_leaves_its_create_in_doubt(desk: Desk) -> None:
    intent, _ = await in_doubt(desk)
    door = await cancelled(desk, intent)
    desk.clock.seconds += DOOR_SECONDS
    await answered(desk, door, NotSent("no connection"))
    assert await of(desk, intent) == ("FAILED", "NEW", "UNKNOWN", None)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Accepted("b1"), ("ACKED", "CANCEL", "UNKNOWN", None)),
        (Refused("late", "too late"), ("REFUSED", "REPLACE", "UNKNOWN", None)),
        (Unknown("no answer"), ("UNKNOWN", "CANCEL", "UNKNOWN", None)),
    ],
)
async def test_a_cancel_goes_out_while_a_replace_of_its_order_is_in_doubt(
    desk: Desk, answer: Outcome, expected: tuple[str, str, str, str | None]
) -> None:
    intent, order_id = await desk.working()
    await desk.accept(a_replace(intent))
    desk.broker.script.append(Unknown("no answer"))
    await desk.work()
    await desk.accept(a_cancel(intent))
    desk.broker.script.append(answer)
    await desk.work()
    assert (desk.broker.writes[-1].command, desk.broker.writes[-1].client_order_id) == ("cancel", order_id)
    assert await of(desk, intent) == expected
    await desk.report(shown(ReportStatus.CANCELED, order_id))
    state, pending, certainty, end = await of(desk, intent)
    assert (pending, certainty, end) == ("NONE", "CONFIRMED", "CANCELED")
    assert state in ("ACKED", "REFUSED")


async def test_a_later_cancel_goes_out_while_an_earlier_one_is_in_doubt(desk: Desk) -> None:
    intent, order_id = await desk.working()
    await desk.accept(a_cancel(intent))
    desk.broker.script.append(Unknown("no answer"))
    await desk.work()
    await desk.pool.execute("update action_states set send_started_at = send_started_at - interval '6 seconds'")
    await desk.accept(a_cancel(intent))
    await desk.work()
    assert [write.command for write in desk.broker.writes] == ["submit", "cancel", "cancel"]
    assert [state for _, state, _ in await desk.states()] == ["ACKED", "UNKNOWN", "ACKED"]
    await desk.report(shown(ReportStatus.CANCELED, order_id))
    assert [state for _, state, _ in await desk.states()] == ["ACKED", "ACKED", "ACKED"]

"""A cancel of an order that nobody is sure of: sent where our id is known, and believed only in what is shown."""

from itertools import product

import pytest

from openbell_server.application.execution.execute_action import DOOR_SECONDS
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.domain.identifiers import IntentId, client_order_id
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    NotSent,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_replace, a_report, an_execution

NO_SUCH_ORDER = Refused("unknown_order", "no such order")


async def in_doubt(harness: Harness) -> tuple[IntentId, str]:
    """A create that got no answer, and its client order id."""
    intent = await harness.accept(a_limit_create())
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    return intent, client_order_id(door.action.action_id)


async def cancelled(harness: Harness, intent: IntentId) -> Door:
    """The open door of a cancel of this."""
    await harness.accept(a_cancel(intent))
    (door,) = await harness.open_doors(cancels_unseen=True)
    return door


async def answered(harness: Harness, door: Door, answer: Outcome) -> None:
    harness.broker.script.append(answer)
    await harness.execute.dispatch(harness.broker, door)


def shown(status: ReportStatus, order_id: str, filled: int = 0) -> OrderReport:
    return a_report(status, [an_execution(1, filled)] if filled else [], client_order_id=order_id)


async def of(harness: Harness, intent: IntentId) -> tuple[str, str, str, str | None]:
    """Where the cancel stands, what the order waits for, how certain it is, and how it ended."""
    order = await harness.order(intent)
    return (await harness.states())[-1][1], order["pending"], order["certainty"], order["close_reason"]


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
    harness: Harness, *, answer_first: bool, answer: str, evidence: str
) -> None:
    intent, order_id = await in_doubt(harness)
    door = await cancelled(harness, intent)
    report = shown(*EVIDENCE[evidence][:1], order_id, EVIDENCE[evidence][1])
    if answer_first:
        await answered(harness, door, ANSWERS[answer])
        state, pending, certainty, _ = await of(harness, intent)
        assert (state, pending, certainty) == ("ACKED" if answer == "Accepted" else "UNKNOWN", "NEW", "UNKNOWN")
        await harness.report(report)
    else:
        await harness.report(report)
        assert (await of(harness, intent))[1] == ("CANCEL" if evidence == "WORKING" else "NONE")
        await answered(harness, door, ANSWERS[answer])
    expected = BY_ORDER.get((answer_first, answer, evidence), ENDS[answer, evidence])
    assert await of(harness, intent) == expected
    assert (await harness.states())[0] == ("CREATE", "ACKED", None)
    assert [(write.command, write.client_order_id) for write in harness.broker.writes] == [
        ("submit", order_id),
        ("cancel", order_id),
    ]


async def test_a_cancel_of_a_create_in_doubt_waits_where_the_broker_does_not_know_our_id(
    harness: Harness,
) -> None:
    intent, order_id = await in_doubt(harness)
    await harness.accept(a_cancel(intent))
    assert await harness.work() == []
    await harness.report(shown(ReportStatus.WORKING, order_id))
    await harness.work()
    assert (await of(harness, intent))[0] == "ACKED"


@pytest.mark.parametrize("filled", [0, 10])
async def test_a_cancel_waits_behind_a_create_that_is_being_written(harness: Harness, filled: int) -> None:
    intent = await harness.accept(a_limit_create())
    (door,) = await harness.open_doors()
    await harness.accept(a_cancel(intent))
    assert await harness.open_doors(cancels_unseen=True) == []
    await answered(harness, door, Accepted("b1"))
    if filled:
        await harness.report(shown(ReportStatus.FILLED, client_order_id(door.action.action_id), filled))
    await harness.work(cancels_unseen=True)
    assert [write.command for write in harness.broker.writes] == ["submit"] + ["cancel"] * (not filled)
    assert (await of(harness, intent))[0] == ("SKIPPED" if filled else "ACKED")


async def test_a_cancel_of_a_queued_create_sends_nothing_wherever_ids_are_known(harness: Harness) -> None:
    intent = await harness.accept(a_limit_create())
    await harness.accept(a_cancel(intent))
    assert await harness.work(cancels_unseen=True) == []
    assert [state for _, state, _ in await harness.states()] == ["SKIPPED", "SKIPPED"]


async def test_a_cancel_that_was_refused_unseen_is_repeated_when_its_order_is_seen(harness: Harness) -> None:
    intent, order_id = await in_doubt(harness)
    await answered(harness, await cancelled(harness, intent), NO_SUCH_ORDER)
    assert (await harness.states())[1] == ("CANCEL", "UNKNOWN", "ORDER_IN_DOUBT")
    await harness.settle(3600, repeats_cancels=True)
    assert len(harness.broker.writes) == 2
    harness.broker.book[order_id] = shown(ReportStatus.WORKING, order_id)
    await harness.settle(3600, repeats_cancels=True)
    assert [write.command for write in harness.broker.writes] == ["submit", "cancel", "cancel"]
    assert (await of(harness, intent)) == ("ACKED", "CANCEL", "CONFIRMED", None)
    await harness.report(shown(ReportStatus.CANCELED, order_id))
    assert (await of(harness, intent))[3] == "CANCELED"


async def test_a_cancel_of_an_order_that_proves_never_to_have_arrived_ends_with_it(harness: Harness) -> None:
    intent, _ = await in_doubt(harness)
    await answered(harness, await cancelled(harness, intent), NO_SUCH_ORDER)

    async def is_settled() -> bool:
        await harness.settle(0)
        return [state for _, state, _ in await harness.states()] == ["FAILED", "REFUSED"]

    await until(is_settled)
    assert (await harness.states())[1] == ("CANCEL", "REFUSED", "ORDER_TERMINAL")
    assert (await of(harness, intent))[3] == "FAILED"


async def test_a_cancel_that_was_not_sent_leaves_its_create_in_doubt(harness: Harness) -> None:
    intent, _ = await in_doubt(harness)
    door = await cancelled(harness, intent)
    harness.clock.seconds += DOOR_SECONDS
    await answered(harness, door, NotSent("no connection"))
    assert await of(harness, intent) == ("FAILED", "NEW", "UNKNOWN", None)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Accepted("b1"), ("ACKED", "CANCEL", "UNKNOWN", None)),
        (Refused("late", "too late"), ("REFUSED", "REPLACE", "UNKNOWN", None)),
        (Unknown("no answer"), ("UNKNOWN", "CANCEL", "UNKNOWN", None)),
    ],
)
async def test_a_cancel_goes_out_while_a_replace_of_its_order_is_in_doubt(
    harness: Harness, answer: Outcome, expected: tuple[str, str, str, str | None]
) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent))
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    await harness.accept(a_cancel(intent))
    harness.broker.script.append(answer)
    await harness.work()
    assert (harness.broker.writes[-1].command, harness.broker.writes[-1].client_order_id) == ("cancel", order_id)
    assert await of(harness, intent) == expected
    await harness.report(shown(ReportStatus.CANCELED, order_id))
    state, pending, certainty, end = await of(harness, intent)
    assert (pending, certainty, end) == ("NONE", "CONFIRMED", "CANCELED")
    assert state in ("ACKED", "REFUSED")


async def test_a_later_cancel_goes_out_while_an_earlier_one_is_in_doubt(harness: Harness) -> None:
    intent, order_id = await harness.working()
    await harness.accept(a_cancel(intent))
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    await harness.pool.execute("update action_states set send_started_at = send_started_at - interval '6 seconds'")
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert [write.command for write in harness.broker.writes] == ["submit", "cancel", "cancel"]
    assert [state for _, state, _ in await harness.states()] == ["ACKED", "UNKNOWN", "ACKED"]
    await harness.report(shown(ReportStatus.CANCELED, order_id))
    assert [state for _, state, _ in await harness.states()] == ["ACKED", "ACKED", "ACKED"]

"""Ends of orders, and what races with them."""

from conformance.scenarios import repeats_cancels, scenario
from conformance.stage import Stage
from openbell_server.domain.orders.broker_reports import Accepted, Refused
from openbell_server.domain.orders.intents import ActionType
from support.brokers.paper_broker import soon


@scenario()
async def a_cancel_after_the_fill_does_nothing(stage: Stage) -> None:
    intent = await stage.resting()
    # The feed says nothing of the fill, so that the cancel is sent.
    await stage.faults(mute_ms=60_000)
    await stage.price("40.00")
    await stage.cancel(intent)
    await stage.until_action("REFUSED")
    await stage.until_standing(intent, "FILLED", filled="10")


@scenario()
async def a_second_cancel_does_nothing(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.cancel(intent)
    await stage.until_standing(intent, "CANCELED")
    # The application would not ask for it any more.
    outcome = await stage.session.cancel(stage.account_id, await stage.name_of(intent), soon())
    stage.others[ActionType.CANCEL] += 1
    assert isinstance(outcome, Accepted | Refused), outcome


@scenario()
async def a_cancel_does_not_change_earlier_fills(stage: Stage) -> None:
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00")
    await stage.until_standing(intent, "WORKING", filled="4")
    await stage.cancel(intent)
    await stage.until_standing(intent, "CANCELED", filled="4")


@scenario()
async def a_rejected_cancel_leaves_the_order_working(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.faults(cancel_refuse=1)
    await stage.cancel(intent)
    assert (await stage.until_action("REFUSED"))["broker_code"]
    await stage.until_standing(intent, "WORKING")


async def _is_seen(stage: Stage, **faults: float) -> None:
    """A cancel that was done is acknowledged, whatever was said of it."""
    intent = await stage.resting()
    await stage.faults(**faults)
    await stage.cancel(intent)
    await stage.until_standing(intent, "CANCELED", filled="0")
    await stage.until_taken()


@scenario(gate=True)
async def a_cancel_done_before_the_connection_broke_is_detected(stage: Stage) -> None:
    await _is_seen(stage, cancel_then_reset=1)


@scenario()
async def a_cancel_that_was_done_with_an_error_as_reply_is_detected(stage: Stage) -> None:
    await _is_seen(stage, error_500_after_cancel=1)


@scenario()
async def a_cancel_that_was_done_with_an_unknown_rejection_as_reply_is_detected(stage: Stage) -> None:
    await _is_seen(stage, refused_but_canceled=1)


@scenario()
async def a_cancel_that_is_done_late_is_detected(stage: Stage) -> None:
    await _is_seen(stage, cancel_late=1, late_ms=1000)


@scenario(repeats_cancels)
async def a_cancel_that_never_arrived_is_sent_again(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.faults(cancel_hang=1)
    await stage.cancel(intent)
    await stage.until_action("UNKNOWN")
    await stage.faults()
    await stage.until_standing(intent, "CANCELED")


@scenario()
async def a_cancel_rejected_by_a_rate_limit_fails(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.faults(too_many_cancels=1)
    await stage.cancel(intent)
    assert (await stage.until_action("FAILED"))["reason_code"] == "NOT_SENT"
    await stage.until_standing(intent, "WORKING")

"""Changes of orders, and what races with them."""

from decimal import Decimal

from conformance.scenarios import replaces, scenario
from conformance.stage import Stage
from openbell_server.application.ports.broker import BrokerReplacement
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.orders.broker_reports import Refused
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import Terms, TimeInForce
from support.brokers.paper_broker import soon
from support.builders.tenant import new_id


async def _until_terms(stage: Stage, intent: IntentId, quantity: str, limit: str) -> None:
    async def are_such() -> bool:
        row = await stage.harness.order(intent)
        return (row["quantity"], row["limit_price"], row["pending"]) == (Decimal(quantity), Decimal(limit), "NONE")

    await stage.until(are_such)


@scenario(replaces)
async def a_replace_changes_the_price(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.replace(intent, "10", "41.00")
    await _until_terms(stage, intent, "10", "41.00")
    await stage.price("40.50")
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert row["filled_value"] == Decimal(405)


@scenario(replaces, gate=True)
async def a_replaced_quantity_is_the_total_including_fills(stage: Stage) -> None:
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00")
    await stage.until_standing(intent, "WORKING", filled="4")
    await stage.price("60.00")
    await stage.replace(intent, "12", "50.00")
    await _until_terms(stage, intent, "12", "50.00")
    await stage.price("50.00")
    await stage.until_standing(intent, "FILLED", filled="12")


@scenario(replaces)
async def an_order_can_be_replaced_several_times(stage: Stage) -> None:
    intent = await stage.resting()
    for limit in ("41.00", "41.50", "40.00"):
        await stage.replace(intent, "12", limit)
    await stage.until_action("ACKED", "REFUSED", "SKIPPED")
    await _until_terms(stage, intent, "12", "40.00")


@scenario(replaces)
async def a_replace_that_fills_at_once_is_counted(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.replace(intent, "10", "50.00")
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert row["filled_value"] == Decimal(500)


@scenario(replaces)
async def a_fill_that_is_faster_than_a_replace_wins(stage: Stage) -> None:
    intent = await stage.resting()
    # The feed says nothing of the fill, so that the replace is sent.
    await stage.faults(mute_ms=60_000)
    await stage.price("40.00")
    await stage.replace(intent, "12", "41.00")
    action = await stage.until_action("REFUSED")
    assert action["broker_code"]
    await stage.until_standing(intent, "FILLED", filled="10")


@scenario(replaces)
async def a_replace_that_is_faster_than_a_fill_wins(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.faults(mute_ms=60_000)
    await stage.replace(intent, "12", "41.00")
    await stage.until_action("ACKED")
    await stage.price("40.00")
    await stage.until_standing(intent, "FILLED", filled="12")


@scenario(replaces)
async def a_replace_sent_before_a_fill_was_known_still_means_the_total(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.faults(mute_ms=60_000)
    await stage.price("40.00", "4")
    await stage.price("50.00")
    await stage.replace(intent, "12", "41.00")
    await stage.until_action("ACKED")
    await stage.price("41.00")
    await stage.until_standing(intent, "FILLED", filled="12")


@scenario(replaces)
async def a_replace_of_an_order_that_has_ended_is_rejected(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.price("40.00")
    await stage.until_standing(intent, "FILLED", filled="10")
    # The application would not ask for it any more.
    terms = Terms(quantity=Decimal(12), limit_price=Decimal(41), time_in_force=TimeInForce.GOOD_TILL_CANCEL)
    outcome = await stage.session.replace(
        BrokerReplacement(
            account_id=stage.account_id,
            order=await stage.name_of(intent),
            client_order_id=new_id().hex,
            terms=terms,
            filled_quantity=Decimal(10),
            valid_until=soon(),
        )
    )
    stage.others[ActionType.REPLACE] += 1
    assert isinstance(outcome, Refused), outcome


@scenario(replaces)
async def a_second_replace_waits_for_the_first(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.replace(intent, "12", "41.00")
    await stage.replace(intent, "14", "42.00")
    await _until_terms(stage, intent, "14", "42.00")


@scenario(replaces)
async def a_rejected_replace_changes_nothing(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.faults(replace_refuse=1)
    await stage.replace(intent, "12", "41.00")
    action = await stage.until_action("REFUSED")
    assert action["broker_code"]
    await _until_terms(stage, intent, "10", "40.00")


async def _is_seen(stage: Stage, **faults: float) -> None:
    """A replace that was done is acknowledged, whatever was said of it."""
    intent = await stage.resting()
    await stage.faults(**faults)
    await stage.replace(intent, "12", "41.00")
    await stage.until_taken()
    await _until_terms(stage, intent, "12", "41.00")
    await stage.until_standing(intent, "WORKING", filled="0")


@scenario(replaces, gate=True)
async def a_replace_done_before_the_connection_broke_is_detected(stage: Stage) -> None:
    await _is_seen(stage, replace_then_reset=1)


@scenario(replaces)
async def a_replace_that_was_done_with_an_error_as_reply_is_detected(stage: Stage) -> None:
    await _is_seen(stage, error_500_after_replace=1)


@scenario(replaces)
async def a_replace_that_was_done_with_an_unknown_rejection_as_reply_is_detected(stage: Stage) -> None:
    await _is_seen(stage, refused_but_replaced=1)


@scenario(replaces)
async def a_replace_that_is_done_late_is_detected(stage: Stage) -> None:
    await _is_seen(stage, replace_late=1, late_ms=1000)


@scenario(replaces)
async def a_replace_that_never_arrives_leaves_the_order_unchanged(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.faults(replace_hang=1)
    await stage.replace(intent, "12", "41.00")
    await stage.until_action("UNKNOWN", "FAILED")
    await stage.until_action("FAILED", seconds=50)
    await _until_terms(stage, intent, "10", "40.00")


@scenario(replaces)
async def a_replace_rejected_by_a_rate_limit_fails(stage: Stage) -> None:
    intent = await stage.resting()
    await stage.faults(too_many_replaces=1)
    await stage.replace(intent, "12", "41.00")
    assert (await stage.until_action("FAILED"))["reason_code"] == "NOT_SENT"
    await _until_terms(stage, intent, "10", "40.00")

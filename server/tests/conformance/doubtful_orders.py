"""New orders whose answer is lost, late or a lie, and orders that their broker hides for a while."""

from decimal import Decimal

from conformance.scenarios import (
    enforces_ids,
    has_client_ids,
    leaves_doubt,
    looks_up_every_order,
    scenario,
)
from conformance.stage import SETTLE_SECONDS, Stage


async def _is_found(stage: Stage, **faults: float) -> None:
    """An order that the broker took is acknowledged in the end, whatever was said of it, and is there once."""
    await stage.price("50.00")
    await stage.faults(**faults)
    intent = await stage.order(limit="40.00")
    await stage.until_taken()
    await stage.until_standing(intent, "WORKING", filled="0")
    assert len(await stage.engine_orders()) == len(stage.writes) == 1


@scenario(has_client_ids)
async def an_accepted_order_whose_reply_is_an_error_is_found(stage: Stage) -> None:
    await _is_found(stage, error_500_after_accept=1)


@scenario(has_client_ids)
async def an_accepted_order_without_a_reply_is_found(stage: Stage) -> None:
    await _is_found(stage, accept_then_hang=1)


@scenario(has_client_ids, gate=True)
async def an_order_accepted_before_the_connection_broke_is_found(stage: Stage) -> None:
    await _is_found(stage, accept_then_reset=1)


@scenario(has_client_ids, gate=True)
async def an_accepted_order_whose_reply_is_an_unknown_rejection_is_found(stage: Stage) -> None:
    await _is_found(stage, refused_but_placed=1)


@scenario(has_client_ids)
async def an_order_that_is_accepted_late_is_found(stage: Stage) -> None:
    # Later than the caller waits, and well before a look-up that finds nothing would prove anything.
    await _is_found(stage, accept_late=1, late_ms=1000)


@scenario(has_client_ids)
async def an_order_that_cannot_be_found_at_first_is_found(stage: Stage) -> None:
    await _is_found(stage, accept_then_reset=1, mute_ms=60_000, find_lag_ms=2_000)


@scenario(has_client_ids)
async def an_outdated_list_proves_nothing(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.faults(find_lag_ms=3_000)
    intent = await stage.order(limit="40.00")
    await stage.until_standing(intent, "WORKING")
    await stage.restart()
    await stage.cancel(intent)
    await stage.until_standing(intent, "CANCELED")


@scenario(has_client_ids)
async def an_order_that_filled_before_its_lost_reply_is_found_filled(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.faults(accept_then_reset=1)
    intent = await stage.order()
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert row["filled_value"] == Decimal(500)
    assert len(await stage.engine_orders()) == 1


@scenario(enforces_ids)
async def an_order_that_never_arrived_is_sent_again_and_exists_once(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.faults(hang=1)
    intent = await stage.order(limit="40.00")
    await stage.until_action("UNKNOWN")
    await stage.faults()
    await stage.until_standing(intent, "WORKING")
    assert len(await stage.engine_orders()) == 1
    assert len(stage.writes) == 2


@scenario(looks_up_every_order)
async def an_order_that_never_arrives_becomes_failed(stage: Stage) -> None:
    await stage.faults(hang=1)
    await stage.order()
    action = await stage.until_action("FAILED", seconds=55)
    assert action["reason_code"] == "NOT_AT_BROKER"
    assert await stage.engine_orders() == []


@scenario(leaves_doubt)
async def an_order_that_cannot_be_looked_up_stays_unknown_and_is_not_sent_again(stage: Stage) -> None:
    await stage.faults(hang=1)
    await stage.order()
    await stage.until_action("UNKNOWN")
    await stage.for_seconds(SETTLE_SECONDS)
    assert (await stage.actions())[-1]["state"] == "UNKNOWN"
    assert len(stage.writes) == 1


@scenario(gate=True)
async def an_order_rejected_by_a_rate_limit_fails_and_the_next_one_passes(stage: Stage) -> None:
    await _is_turned_away(stage, too_many_requests=1)


@scenario()
async def an_order_rejected_with_a_retry_time_fails_and_the_next_one_passes(stage: Stage) -> None:
    await _is_turned_away(stage, too_many_requests_until=1)


async def _is_turned_away(stage: Stage, **faults: float) -> None:
    await stage.price("50.00")
    await stage.faults(**faults)
    await stage.order()
    action = await stage.until_action("FAILED")
    assert action["reason_code"] == "NOT_SENT"
    assert await stage.engine_orders() == []
    await stage.faults()
    await stage.until_standing(await stage.order(), "FILLED", filled="10")


@scenario()
async def no_more_commands_are_in_flight_than_declared(stage: Stage) -> None:
    # One place of all is kept for a cancel.
    allowed = max(1, stage.able.in_flight_max - 1)
    asked = allowed * 2 + 1
    # Each answer takes a while.
    await stage.faults(fill_before_ack=1)
    for _ in range(asked):
        await stage.order(limit="1.00")
    in_flight: list[int] = []

    async def all_are_answered() -> bool:
        # What is written is counted first: an answer that comes meanwhile only makes it look like less.
        written = len(stage.writes)
        answered = [row for row in await stage.actions() if row["state"] not in {"QUEUED", "DISPATCHING"}]
        in_flight.append(written - len(answered))
        return len(answered) == asked

    await stage.until(all_are_answered)
    assert max(in_flight) <= allowed

"""Fills that are told twice, backwards, too early, too late, or are taken back."""

from decimal import Decimal

from conformance.scenarios import scenario, tells_corrections
from conformance.stage import Stage, value_of


async def _fill_in_parts(stage: Stage, **faults: float) -> None:
    await stage.faults(**faults)
    await stage.price("50.00", "3")
    intent = await stage.order(limit="50.00")
    await stage.until_action("ACKED")
    await stage.price("49.50", "3")
    await stage.price("49.00")
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert value_of(row) == Decimal("494.50")


@scenario(gate=True)
async def a_fill_that_is_told_twice_counts_once(stage: Stage) -> None:
    await _fill_in_parts(stage, duplicate_fills=1)


@scenario(gate=True)
async def fills_that_are_told_backwards_are_all_counted(stage: Stage) -> None:
    await _fill_in_parts(stage, reorder_fills=1)


@scenario()
async def fills_that_are_told_twice_and_backwards_are_counted_once(stage: Stage) -> None:
    await _fill_in_parts(stage, duplicate_fills=1, reorder_fills=1)


@scenario()
async def a_fill_may_be_told_before_the_answer(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.faults(fill_before_ack=1)
    intent = await stage.order()
    await stage.until_standing(intent, "FILLED", filled="10")
    action = await stage.until_action("ACKED")
    assert action["reason_code"] is None


@scenario()
async def a_fill_after_the_cancel_was_told_counts(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.faults(fill_after_cancel=1, late_ms=500)
    intent = await stage.order(limit="40.00")
    await stage.until_standing(intent, "WORKING")
    await stage.cancel(intent)
    await stage.until_standing(intent, "CANCELED", "FILLED", filled="10")


@scenario(tells_corrections)
async def a_fill_that_is_taken_back_counts_no_more(stage: Stage) -> None:
    await stage.faults(bust=1, late_ms=1_500)
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00")
    await stage.until_standing(intent, "WORKING", filled="4")
    row = await stage.until_standing(intent, "WORKING", filled="0")
    assert row["filled_value"] == 0


@scenario(tells_corrections)
async def a_fill_that_is_corrected_counts_as_corrected(stage: Stage) -> None:
    await stage.faults(correct=1, late_ms=1_500)
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00")

    async def is_corrected() -> bool:
        return bool((await stage.harness.order(intent))["filled_value"] == Decimal("200.04"))

    await stage.until(is_corrected)
    await stage.until_standing(intent, "WORKING", filled="4")

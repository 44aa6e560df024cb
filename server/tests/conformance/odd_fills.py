"""Fills that are told twice, backwards, too early, too late, or are taken back, and what they cost."""

from decimal import Decimal

from conformance.scenarios import scenario, tells_corrections
from conformance.sessions import LONG_AGO
from conformance.stage import Stage, value_of

_OUR_FEES = "select execution_id, fee from executions where account_id = $1"
_CHARGED_FEES = (
    "select e.fee from executions as e join orders as o on o.number = e.order_number where o.account_id = $1"
)


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
async def a_fill_that_is_reported_twice_counts_once(stage: Stage) -> None:
    await _fill_in_parts(stage, duplicate_fills=1)


@scenario(gate=True)
async def fills_that_are_reported_in_reverse_order_all_count(stage: Stage) -> None:
    await _fill_in_parts(stage, reorder_fills=1)


@scenario()
async def fills_that_are_reported_twice_and_in_reverse_order_count_once(stage: Stage) -> None:
    await _fill_in_parts(stage, duplicate_fills=1, reorder_fills=1)


@scenario()
async def a_fill_may_be_reported_before_the_reply(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.faults(fill_before_ack=1)
    intent = await stage.order()
    await stage.until_standing(intent, "FILLED", filled="10")
    action = await stage.until_action("ACKED")
    assert action["reason_code"] is None


@scenario()
async def a_fill_reported_after_the_cancel_counts(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.faults(fill_after_cancel=1, late_ms=500)
    intent = await stage.order(limit="40.00")
    await stage.until_standing(intent, "WORKING")
    await stage.cancel(intent)
    await stage.until_standing(intent, "CANCELED", "FILLED", filled="10")


@scenario(tells_corrections)
async def a_busted_fill_no_longer_counts(stage: Stage) -> None:
    await stage.faults(bust=1, late_ms=1_500)
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00")
    await stage.until_standing(intent, "WORKING", filled="4")
    row = await stage.until_standing(intent, "WORKING", filled="0")
    assert row["filled_value"] == 0


@scenario(tells_corrections)
async def a_corrected_fill_counts_with_its_new_values(stage: Stage) -> None:
    await stage.faults(correct=1, late_ms=1_500)
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00")

    async def is_corrected() -> bool:
        return bool((await stage.harness.order(intent))["filled_value"] == Decimal("200.04"))

    await stage.until(is_corrected)
    await stage.until_standing(intent, "WORKING", filled="4")


@scenario()
async def a_fill_has_the_fee_that_the_broker_reports_for_it(stage: Stage) -> None:
    await _fill_in_parts(stage)
    ours = {row["execution_id"]: row["fee"] for row in await stage.rows(_OUR_FEES)}
    (report,) = await stage.session.orders_since(stage.account_id, LONG_AGO)
    # A broker that reports totals names no executions.
    assert ours == ({fill.execution_id: fill.fee for fill in report.executions} or dict.fromkeys(ours))
    charged = {row["fee"] for row in await stage.ledger.fetch(_CHARGED_FEES, stage.account_id)}
    assert {*ours.values()} in ({None}, charged)

"""Orders to which nothing bad happens."""

from decimal import Decimal

from conformance.scenarios import scenario, takes, trades_fractions
from conformance.stage import Stage, value_of
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce


@scenario()
async def a_market_order_fills_at_once(stage: Stage) -> None:
    await stage.price("50.00")
    intent = await stage.order()
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert row["filled_value"] == Decimal(500)


@scenario(gate=True)
async def a_limit_order_rests_until_it_is_cancelled(stage: Stage) -> None:
    await stage.price("50.00")
    intent = await stage.order(limit="40.00")
    await stage.until_standing(intent, "WORKING", filled="0")
    await stage.cancel(intent)
    await stage.until_standing(intent, "CANCELED", filled="0")


@scenario(gate=True)
async def an_order_fills_in_parts(stage: Stage) -> None:
    await stage.price("50.00", "3")
    intent = await stage.order(limit="50.00")
    await stage.until_standing(intent, "WORKING", filled="3")
    await stage.price("49.50", "3")
    await stage.until_standing(intent, "WORKING", filled="6")
    await stage.price("49.00")
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert value_of(row) == Decimal("494.50")


@scenario()
async def a_sale_ends_a_position(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.until_standing(await stage.order(), "FILLED")
    await stage.until_standing(await stage.order(side=OrderSide.SELL), "FILLED")
    await stage.agree()
    assert [held for held in await stage.session.positions(stage.account_id) if held.quantity] == []


@scenario(takes(OrderType.STOP))
async def a_stop_order_waits_for_its_price(stage: Stage) -> None:
    await stage.price("50.00")
    intent = await stage.order(stop="55.00")
    await stage.until_standing(intent, "WORKING", filled="0")
    await stage.price("56.00")
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert row["filled_value"] == Decimal(560)


@scenario(takes(OrderType.STOP_LIMIT))
async def a_stop_limit_order_waits_for_both_its_prices(stage: Stage) -> None:
    await stage.price("50.00")
    intent = await stage.order(stop="55.00", limit="56.00")
    await stage.until_standing(intent, "WORKING", filled="0")
    await stage.price("58.00")
    await stage.price("56.00")
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert row["filled_value"] == Decimal(560)


@scenario()
async def every_declared_time_in_force_is_accepted(stage: Stage) -> None:
    await stage.price("50.00")
    kinds = sorted(stage.able.times_in_force)
    for kind in kinds:
        await stage.order(limit="40.00", time_in_force=kind)

    async def all_are_taken() -> bool:
        return [row["state"] for row in await stage.actions()] == ["ACKED"] * len(kinds)

    await stage.until(all_are_taken)


@scenario(takes(TimeInForce.IMMEDIATE_OR_CANCEL))
async def the_unfilled_rest_of_an_immediate_order_expires(stage: Stage) -> None:
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00", time_in_force=TimeInForce.IMMEDIATE_OR_CANCEL)
    await stage.until_standing(intent, "EXPIRED", "CANCELED", filled="4")


@scenario(takes(TimeInForce.DAY))
async def a_day_order_ends_at_the_close(stage: Stage) -> None:
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00", time_in_force=TimeInForce.DAY)
    await stage.until_standing(intent, "WORKING", filled="4")
    await stage.end_of_day()
    await stage.until_standing(intent, "EXPIRED", filled="4")


@scenario(trades_fractions)
async def a_quantity_is_exact_to_the_last_declared_digit(stage: Stage) -> None:
    await stage.price("50.00")
    quantity = f"1.{'3' * (min(stage.able.quantity_decimals, 18) - 1)}7"
    intent = await stage.order(quantity)
    row = await stage.until_standing(intent, "FILLED", filled=quantity)
    assert row["filled_value"] == Decimal(quantity) * 50


@scenario()
async def a_price_is_exact(stage: Stage) -> None:
    await stage.price("0.4321")
    intent = await stage.order(limit="0.4329")
    row = await stage.until_standing(intent, "FILLED", filled="10")
    assert (row["limit_price"], row["filled_value"]) == (Decimal("0.4329"), Decimal("4.321"))


@scenario(gate=True)
async def a_rejection_has_the_text_of_the_broker(stage: Stage) -> None:
    await stage.faults(refuse=1)
    await stage.order()
    action = await stage.until_action("REFUSED")
    assert action["reason_code"] == "BROKER_REFUSED"
    assert action["broker_code"]
    assert action["broker_text"]


@scenario()
async def an_order_beyond_the_buying_power_is_rejected(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.cash("100")
    await stage.order()
    action = await stage.until_action("REFUSED")
    assert action["broker_code"]
    small = await stage.order("1")
    await stage.until_standing(small, "FILLED", filled="1")

"""What happens while a feed is silent or away, and what others do at the broker."""

from conformance.scenarios import has_client_ids, scenario
from conformance.stage import FOREIGN_QUANTITY, Stage
from openbell_server.domain.orders.broker_reports import Accepted
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType
from support.brokers.paper_broker import new_order, soon


@scenario()
async def a_fill_that_a_silent_feed_does_not_report_is_found(stage: Stage) -> None:
    await stage.faults(mute_ms=600_000)
    await stage.price("50.00")
    intent = await stage.order(limit="40.00")
    await stage.until_standing(intent, "WORKING")
    await stage.price("40.00")
    await stage.until_standing(intent, "FILLED", filled="10")


@scenario(has_client_ids)
async def fills_while_the_feed_is_disconnected_are_found(stage: Stage) -> None:
    await stage.price("50.00")
    first = await stage.order(limit="40.00")
    await stage.until_standing(first, "WORKING")
    # Nothing of this is told, not even later.
    await stage.faults(session_reset=1, mute_ms=1_500)
    await stage.price("40.00")
    second = await stage.order(limit="30.00")
    await stage.until_standing(first, "FILLED", filled="10")
    await stage.until_standing(second, "WORKING")


@scenario(gate=True)
async def another_executor_reconciles_first_and_sends_nothing_twice(stage: Stage) -> None:
    await stage.price("50.00")
    first = await stage.order(limit="40.00")
    await stage.until_standing(first, "WORKING")
    await stage.stop()
    await stage.price("40.00")
    assert (await stage.harness.order(first))["standing"] == "WORKING"
    await stage.start()
    await stage.until_standing(first, "FILLED", filled="10")
    await stage.until_standing(await stage.order("1"), "FILLED", filled="1")
    assert len(await stage.engine_orders()) == len(stage.writes) == 2


@scenario(has_client_ids)
async def an_unknown_order_survives_its_executor_and_is_not_sent_twice(stage: Stage) -> None:
    await stage.price("50.00")
    await stage.faults(accept_then_reset=1, mute_ms=600_000, find_lag_ms=2_000)
    intent = await stage.order(limit="40.00")
    await stage.until_action("UNKNOWN")
    await stage.restart()
    await stage.until_standing(intent, "WORKING")
    assert len(await stage.engine_orders()) == len(stage.writes) == 1


@scenario()
async def an_external_order_is_recorded_as_external(stage: Stage) -> None:
    await stage.price("50.00")
    async with stage.beside() as session:
        order = new_order(OrderType.MARKET, account_id=stage.account_id, symbol=stage.symbol, quantity=FOREIGN_QUANTITY)
        outcome = await session.submit(order)
        stage.others[ActionType.CREATE] += 1
    assert isinstance(outcome, Accepted), outcome

    async def is_kept() -> bool:
        rows = await stage.rows("select symbol, filled_quantity from external_orders where account_id = $1")
        return [tuple(row) for row in rows] == [(stage.symbol, FOREIGN_QUANTITY)]

    await stage.until(is_kept)


@scenario()
async def an_external_cancel_is_recorded(stage: Stage) -> None:
    await stage.price("50.00")
    intent = await stage.order(limit="40.00")
    await stage.until_standing(intent, "WORKING")
    async with stage.beside() as session:
        outcome = await session.cancel(stage.account_id, await stage.name_of(intent), soon())
        stage.others[ActionType.CANCEL] += 1
    assert isinstance(outcome, Accepted), outcome
    await stage.until_standing(intent, "CANCELED", filled="0")

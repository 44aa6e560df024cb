"""A desk command cancels every order in its scope, or closes a position, and shows what became of each order."""

import asyncio
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.desk.ports import HeldPosition
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import Refused, ReportStatus, Unknown
from openbell_server.domain.orders.desk_commands import PLACE_WITHIN, DeskCommandType, DeskStatus
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.desk import Desk
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_key, a_limit_create, a_report, a_tenant, accept, an_execution
from support.tenancy.halts import Switchboard


@pytest.fixture
async def desk(pool: Pool, executor_pool: Pool) -> Desk:
    return Desk(Harness(pool, await a_tenant(pool)), executor_pool)


async def test_every_open_order_is_cancelled_whatever_its_state(desk: Desk) -> None:
    working, _ = await desk.harness.working()
    desk.harness.broker.script.append(Unknown("timeout"))
    unknown = await desk.harness.accept(a_limit_create())
    await desk.harness.work()
    queued = await desk.harness.accept(a_limit_create())
    command = await desk.cancel_all()
    later = await desk.harness.accept(a_limit_create())
    found, outcomes = await desk.shown(command)
    assert (found.status, found.orders) == (DeskStatus.IN_DOUBT, 3)
    assert outcomes == {working: "CANCELING", unknown: "UNKNOWN", queued: "CANCELING"}
    await desk.sweep()
    await desk.sweep()
    cancels = await desk.cancels()
    assert {cancel["intent_id"] for cancel in cancels} == {working, unknown, queued}
    assert {(cancel["principal_type"], cancel["principal_id"]) for cancel in cancels} == {
        ("SYSTEM", f"desk_command:{command.id}")
    }
    assert len(cancels) == 3
    await desk.harness.work()
    await desk.ended(working)
    found, outcomes = await desk.shown(command)
    assert outcomes == {working: "CANCELED", unknown: "UNKNOWN", queued: "SKIPPED"}
    assert found.status == DeskStatus.IN_DOUBT
    assert (await desk.harness.order(later))["pending"] == "NEW"


@pytest.mark.parametrize(("held", "side"), [("7.5", OrderSide.SELL), ("-7.5", OrderSide.BUY)])
async def test_a_position_is_closed_once_no_order_of_its_symbol_is_open(desk: Desk, held: str, side: OrderSide) -> None:
    working, _ = await desk.harness.working()
    await desk.holds(held)
    command = await desk.close()
    for _ in range(3):
        await desk.sweep()
    assert len(await desk.cancels()) == 1
    found, _ = await desk.shown(command)
    assert (found.status, found.reason, found.closing) == (DeskStatus.WORKING, "ORDERS_OPEN", None)
    await desk.harness.work()
    await desk.ended(working)
    for _ in range(3):
        await desk.sweep()
    found, outcomes = await desk.shown(command)
    assert outcomes == {working: "CANCELED"}
    assert found.closing is not None
    order = await desk.harness.order(found.closing.intent_id)
    terms = (order["order_side"], order["order_type"], order["quantity"], order["symbol"])
    assert terms == (side, "MARKET", Decimal("7.5"), "AAPL")
    (door,) = await desk.harness.work()
    name = client_order_id(door.action.order_action_id)
    fill = an_execution(1, Decimal("7.5"))
    await desk.harness.report(a_report(ReportStatus.FILLED, [fill], client_order_id=name))
    await desk.sweep()
    found, _ = await desk.shown(command)
    assert (found.status, found.reason) == (DeskStatus.DONE, None)


async def test_a_command_concerns_its_account_symbol_and_key_only(desk: Desk, pool: Pool) -> None:
    harness, tenant = desk.harness, desk.harness.tenant
    ours = await harness.accept()
    await harness.accept(replace(a_limit_create(), symbol=Symbol("MSFT")))
    other, _ = await a_key(pool, tenant.account.organization_id, Environment.PAPER)
    await accept(pool, replace(tenant, principal=other).submission())
    for elsewhere in (await a_tenant(pool), await a_tenant(pool)):
        await accept(pool, elsewhere.submission())
    command = await desk.cancel_all(symbol="aapl", api_key_id=UUID(tenant.principal.id))
    assert set((await desk.shown(command))[1]) == {ours}
    assert (await desk.cancel_all(symbol="AAPL")).orders == 2
    assert (await desk.cancel_all(api_key_id=UUID(other.id))).orders == 1
    assert (await desk.cancel_all()).orders == 3
    with pytest.raises(Problem, match="no such API key"):
        await desk.cancel_all(api_key_id=UUID(int=7))
    for _ in range(2):
        await desk.sweep()
    assert {cancel["account_id"] for cancel in await desk.cancels()} == {tenant.account.id}


async def test_a_key_for_its_own_orders_cancels_only_these_and_closes_no_position(desk: Desk, pool: Pool) -> None:
    tenant = desk.harness.tenant
    await desk.harness.accept()
    key, _ = await a_key(pool, tenant.account.organization_id, Environment.PAPER)
    own = replace(key, own_orders_only=True)
    (accepted,) = await accept(pool, replace(tenant, principal=own).submission())
    command = await desk.cancel_all(caller=own)
    assert set((await desk.shown(command))[1]) == {accepted.intent_id}
    for refused in (
        {"api_key_id": UUID(tenant.principal.id)},
        {"command_type": DeskCommandType.CLOSE_POSITION, "symbol": "AAPL"},
    ):
        with pytest.raises(Problem, match="own_orders_only"):
            await desk.submit(caller=own, **refused)


async def test_a_repeat_under_the_same_key_is_the_same_command(desk: Desk) -> None:
    await desk.harness.accept()
    (first, is_replay), (second, was_recorded) = [await desk.submit(key="k") for _ in range(2)]
    assert (is_replay, was_recorded, second.id) == (False, True, first.id)
    with pytest.raises(Problem, match="used for another command"):
        await desk.submit(key="k", symbol="AAPL")
    assert await desk.harness.pool.fetchval("select count(*) from desk_commands") == 1


async def test_an_order_that_fills_meanwhile_is_shown_as_filled(desk: Desk) -> None:
    working, name = await desk.harness.working()
    command = await desk.cancel_all()
    await desk.sweep()
    await desk.harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=name))
    await desk.sweep()
    found, outcomes = await desk.shown(command)
    assert (found.status, outcomes) == (DeskStatus.DONE, {working: "FILLED"})


async def test_a_refused_cancel_is_shown_and_repeated_with_back_off(desk: Desk) -> None:
    working, _ = await desk.harness.working()
    command = await desk.cancel_all()
    for number in range(1, 4):
        await desk.sweep()
        assert len(await desk.cancels()) == number
        desk.harness.broker.script.append(Refused("TOO_LATE", "no"))
        await desk.harness.work()
        await desk.sweep()
        assert len(await desk.cancels()) == number
        found, outcomes = await desk.shown(command)
        assert (found.status, outcomes) == (DeskStatus.WORKING, {working: "CANCEL_FAILED"})
        await desk.age_cancels(2 ** (number - 1) + 0.5)
    await desk.sweep()
    await desk.harness.work()
    await desk.ended(working)
    await desk.sweep()
    found, outcomes = await desk.shown(command)
    assert (found.status, outcomes) == (DeskStatus.DONE, {working: "CANCELED"})


async def test_sweeps_at_the_same_time_cancel_each_order_once(desk: Desk) -> None:
    for _ in range(3):
        await desk.harness.accept()
    await desk.cancel_all()
    await asyncio.gather(*(desk.sweep() for _ in range(4)))
    assert len(await desk.cancels()) == 3


async def test_without_orders_and_without_a_position_nothing_is_done(desk: Desk) -> None:
    await desk.holds("0")
    commands = await desk.cancel_all(), await desk.close()
    await desk.sweep()
    for command in commands:
        found, outcomes = await desk.shown(command)
        assert (found.status, found.closing, outcomes) == (DeskStatus.DONE, None, {})


async def test_sweeps_at_the_same_time_place_one_closing_order(desk: Desk) -> None:
    await desk.holds("10")
    await desk.close()
    await asyncio.gather(*(desk.sweep() for _ in range(4)))
    assert await desk.harness.pool.fetchval("select count(*) from intent_actions") == 1


async def test_an_unknown_position_is_not_closed_and_after_a_time_the_command_has_failed(desk: Desk) -> None:
    command = await desk.close()
    await desk.sweep()
    found, _ = await desk.shown(command)
    assert (found.status, found.reason) == (DeskStatus.WORKING, "POSITION_UNKNOWN")
    await desk.age_commands(PLACE_WITHIN.total_seconds() + 1)
    await desk.sweep()
    found, _ = await desk.shown(command)
    assert (found.status, found.reason) == (DeskStatus.FAILED, "POSITION_UNKNOWN")


async def test_an_order_in_doubt_stops_the_closing_for_good_after_a_time(desk: Desk) -> None:
    await desk.holds("10")
    desk.harness.broker.script.append(Unknown("timeout"))
    unknown = await desk.harness.accept(a_limit_create())
    await desk.harness.work()
    command = await desk.close()
    await desk.sweep()
    found, outcomes = await desk.shown(command)
    assert (found.status, found.reason) == (DeskStatus.IN_DOUBT, "ORDER_IN_DOUBT")
    assert outcomes == {unknown: "UNKNOWN"}
    await desk.age_commands(PLACE_WITHIN.total_seconds() + 1)
    await desk.sweep()
    await desk.ended(unknown)
    await desk.sweep()
    found, _ = await desk.shown(command)
    assert (found.status, found.reason, found.closing) == (DeskStatus.FAILED, "ORDER_IN_DOUBT", None)


async def test_an_order_of_the_symbol_that_came_later_is_left_alone_and_delays_the_closing(desk: Desk) -> None:
    await desk.holds("10")
    command = await desk.close()
    later = await desk.harness.accept(a_limit_create())
    await desk.sweep()
    found, outcomes = await desk.shown(command)
    assert (found.reason, outcomes) == ("OTHER_ORDERS_OPEN", {})
    assert (await desk.harness.order(later))["pending"] == "NEW"


@pytest.mark.parametrize(("state", "reason"), [("HALTED", "ORDER_REFUSED"), ("REDUCE_ONLY", None)])
async def test_a_halt_refuses_the_closing_order_and_reduce_only_allows_it(
    desk: Desk, state: str, reason: str | None
) -> None:
    await desk.holds("10")
    command = await desk.close()
    await Switchboard(desk.harness).halt(Scope.ACCOUNT, state)
    for _ in range(2):
        await desk.sweep()
    found, _ = await desk.shown(command)
    assert found.reason == reason
    assert (found.closing is None) == (reason is not None)
    receipts = await desk.harness.pool.fetch("select receipt_id, verdict from receipts")
    assert [row["verdict"] for row in receipts] == ["REFUSED" if reason else "PASSED"]
    if reason:
        assert (found.status, found.receipt_id) == (DeskStatus.FAILED, receipts[0]["receipt_id"])


async def test_a_halted_key_does_not_close_a_position(desk: Desk) -> None:
    await desk.holds("10")
    command = await desk.close()
    await Switchboard(desk.harness).halt(Scope.KEY)
    await desk.sweep()
    assert (await desk.shown(command))[0].reason == "ORDER_REFUSED"


async def test_a_position_that_changed_before_the_lock_is_closed_by_its_new_size(desk: Desk) -> None:
    await desk.holds("10")
    command = await desk.close()
    now = await desk.harness.pool.fetchval("select clock_timestamp()")
    await desk.sweep(seen=HeldPosition(quantity=Decimal(25), open_orders=0, now=now))
    assert (await desk.shown(command))[0].closing is None
    await desk.sweep()
    found, _ = await desk.shown(command)
    assert found.closing is not None
    order = await desk.harness.order(found.closing.intent_id)
    assert (order["order_side"], order["quantity"]) == (OrderSide.SELL, Decimal(10))


async def test_a_closing_order_that_ends_unfilled_has_not_closed_the_position(desk: Desk) -> None:
    await desk.holds("10")
    command = await desk.close()
    await desk.sweep()
    await desk.harness.work()
    found, _ = await desk.shown(command)
    assert found.closing is not None
    await desk.ended(found.closing.intent_id)
    await desk.sweep()
    found, _ = await desk.shown(command)
    assert (found.status, found.reason, found.detail) == (
        DeskStatus.FAILED,
        "ORDER_ENDED",
        "the closing order ended as CANCELED",
    )

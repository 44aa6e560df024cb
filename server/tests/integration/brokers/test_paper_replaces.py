"""Replacing orders at the paper broker: the total changes, the id stays, and every fault leaves an honest outcome."""

from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import asyncpg
import pytest

from openbell_server.application.ports.broker import BrokerOrder
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.orders.broker_reports import Accepted, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderType, TimeInForce
from support.brokers.paper_broker import (
    PRICE,
    ask,
    found,
    kind,
    named,
    new_order,
    next_report,
    replacement,
    resting,
    running,
    settings_of,
    soon,
    summary,
)


async def a_resting_order(session: PaperSession) -> BrokerOrder:
    order = resting()
    assert kind(await session.submit(order)) is Accepted
    return order


async def test_a_replaced_order_keeps_its_ids_and_shows_its_new_terms(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        order = await a_resting_order(session)
        before = await found(session, order)
        asked = replacement(order, PRICE - 2)
        assert await session.replace(asked) == Accepted(before.broker_order_id)
        assert await found(session, order) == replace(before, terms=asked.terms, terms_version=2)
        assert before.terms is not None
        assert (before.terms.quantity, before.terms.limit_price) == (order.quantity, order.limit_price)


async def test_a_replace_that_makes_an_order_marketable_fills_its_new_total(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        order = await a_resting_order(session)
        assert kind(await session.replace(replacement(order, PRICE))) is Accepted
        report = await found(session, order)
        assert (report.status, report.filled_quantity) == (ReportStatus.FILLED, Decimal(21))
        assert [fill.price for fill in report.executions] == [PRICE]


async def test_a_replaced_limit_counts_from_then_on(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        order = await a_resting_order(session)
        await session.replace(replacement(order, PRICE - 3))
        await ask(settings, "PUT", "/prices/AAPL", {"price": str(PRICE - 2)})
        assert (await found(session, order)).status is ReportStatus.WORKING
        await ask(settings, "PUT", "/prices/AAPL", {"price": str(PRICE - 3)})
        assert (await found(session, order)).filled_quantity == 21


async def test_a_replaced_stop_triggers_at_its_new_price_and_one_that_triggered_stays_so(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        stop = new_order(OrderType.STOP_LIMIT, stop_price=PRICE + 2, limit_price=PRICE - 1)
        await session.submit(stop)
        higher = replacement(stop, PRICE - 1)
        await session.replace(replace(higher, terms=replace(higher.terms, stop_price=PRICE + 5)))
        for price, status in ((PRICE + 3, "WORKING"), (PRICE - 2, "WORKING"), (PRICE + 5, "WORKING")):
            await ask(settings, "PUT", "/prices/AAPL", {"price": str(price)})
            assert (await found(session, stop)).status == status
        # By now it has triggered: a price within its limit fills it, wherever its stop is put.
        await session.replace(replacement(stop, PRICE + 5))
        assert (await found(session, stop)).status is ReportStatus.FILLED


async def test_a_replace_by_now_or_never_ends_an_order_that_does_not_fill(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        order = await a_resting_order(session)
        now_or_never = replacement(order, PRICE - 1)
        terms = replace(now_or_never.terms, time_in_force=TimeInForce.IMMEDIATE_OR_CANCEL)
        assert kind(await session.replace(replace(now_or_never, terms=terms))) is Accepted
        assert (await found(session, order)).status is ReportStatus.EXPIRED


async def test_what_cannot_be_replaced_is_refused_and_stays(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        order, filled = await a_resting_order(session), new_order()
        await session.submit(filled)
        good = replacement(order, PRICE - 2)
        late = datetime.now(UTC) - timedelta(milliseconds=1)
        for asked, code in (
            (replacement(filled, None), "order_closed"),
            (replace(good, order=named("nosuchorder")), "unknown_order"),
            (replace(good, valid_until=late), "expired"),
            (replacement(order, None), "invalid_order"),
            (replace(good, terms=replace(good.terms, stop_price=PRICE)), "invalid_order"),
        ):
            outcome = await session.replace(asked)
            assert isinstance(outcome, Refused), (code, outcome)
            assert outcome.broker_code == code
        report = await found(session, order)
        assert report.terms is not None
        assert (report.status, report.terms.limit_price) == (ReportStatus.WORKING, order.limit_price)
        assert (await summary(settings))["refused"] == 5


async def test_a_replace_with_a_used_id_proves_nothing_and_changes_nothing(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        order = await a_resting_order(session)
        first = replacement(order, PRICE - 2)
        await session.replace(first)
        again = replacement(order, PRICE - 3, client_order_id=first.client_order_id)
        assert kind(await session.replace(again)) is Unknown
        assert (await found(session, order)).terms == first.terms


@pytest.mark.parametrize("fault", ["replace_then_hang", "replace_then_reset", "error_500_after_replace"])
async def test_a_lost_reply_gives_unknown_and_a_look_up_shows_the_new_terms(ledger_url: str, fault: str) -> None:
    async with running(settings_of(ledger_url, f"{fault}=1")) as session:
        order = await a_resting_order(session)
        asked = replacement(order, PRICE - 2)
        assert kind(await session.replace(asked)) is Unknown
        assert (await found(session, order)).terms == asked.terms


async def test_a_replace_that_hangs_or_is_refused_by_plan_leaves_the_order(ledger_url: str) -> None:
    for fault, outcome in (("replace_hang", Unknown), ("replace_refuse", Refused)):
        async with running(settings_of(ledger_url, f"{fault}=1")) as session:
            order = await a_resting_order(session)
            before = await found(session, order)
            assert kind(await session.replace(replacement(order, PRICE - 2))) is outcome
            assert await found(session, order) == before


async def test_the_feed_tells_of_a_replace_before_the_fills_that_follow_it(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session, aclosing(session.reports()) as feed:
        assert await next_report(feed) is None
        order = await a_resting_order(session)
        await session.replace(replacement(order, PRICE))
        told = []
        for _ in range(3):
            item = await next_report(feed)
            assert item is not None
            told.append((item[1].status, item[1].filled_quantity))
        assert told == [
            (ReportStatus.WORKING, Decimal(0)),
            (ReportStatus.WORKING, Decimal(0)),
            (ReportStatus.FILLED, Decimal(21)),
        ]


async def test_a_ledger_from_before_replaces_learns_them_and_keeps_what_it_has(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        order = await a_resting_order(session)
    connection = await asyncpg.connect(ledger_url, timeout=60)
    try:
        await connection.execute(
            "drop table replacements; alter table requests add constraint requests_kind_check"
            " check (kind in ('SUBMIT', 'CANCEL'))"
        )
    finally:
        await connection.close()
    async with running(settings) as session:
        assert kind(await session.replace(replacement(order, PRICE - 2, valid_until=soon()))) is Accepted
        assert (await summary(settings))["orders"] == 1

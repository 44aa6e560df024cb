"""Commands to the paper broker on real PostgreSQL and real HTTP, and its misbehaviour."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from openbell_server.application.ports.broker import BrokerOrder
from openbell_server.brokers.http_client import QUERY_ERRORS, ListBrokenOff
from openbell_server.brokers.http_connections import NothingWritten
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.brokers.paper.wire import OrderPage
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderType
from support.brokers.paper_broker import (
    ACCOUNT,
    PRICE,
    ask,
    found,
    kind,
    named,
    new_order,
    resting,
    running,
    settings_of,
    soon,
    summary,
    until,
)


@pytest.mark.parametrize(
    "order",
    [
        new_order(OrderType.MARKET),
        new_order(OrderType.LIMIT, limit_price=PRICE + 1),
        new_order(OrderType.STOP, stop_price=PRICE),
        new_order(OrderType.STOP_LIMIT, stop_price=PRICE - 1, limit_price=PRICE),
    ],
    ids=lambda order: order.order_type,
)
async def test_an_order_of_each_kind_is_accepted_and_filled_exactly(ledger_url: str, order: BrokerOrder) -> None:
    async with running(settings_of(ledger_url)) as session:
        order = replace(order, valid_until=soon())
        outcome = await session.submit(order)
        assert isinstance(outcome, Accepted)
        report = await found(session, order)
        assert report.broker_order_id == outcome.broker_order_id
        assert (report.status, report.filled_quantity) == (ReportStatus.FILLED, Decimal("10.5"))
        (fill,) = report.executions
        assert (fill.quantity, fill.price, fill.fee) == (Decimal("10.5"), PRICE, Decimal("0.0105"))


async def test_a_new_price_triggers_and_fills_what_rests(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        limit = resting()
        stop = new_order(OrderType.STOP_LIMIT, stop_price=PRICE + 1, limit_price=PRICE - 1)
        for order in (limit, stop):
            assert kind(await session.submit(order)) is Accepted
            assert (await found(session, order)).status is ReportStatus.WORKING
        path = "/prices/aapl"
        assert (await ask(settings, "PUT", path, {"price": str(PRICE + 2)})).status_code == 200
        assert (await found(session, stop)).status is ReportStatus.WORKING
        await ask(settings, "PUT", path, {"price": str(PRICE - 2)})
        for order in (limit, stop):
            report = await found(session, order)
            assert report.status is ReportStatus.FILLED
            assert [fill.price for fill in report.executions] == [PRICE - 2]


async def test_a_symbol_with_a_slash_keeps_its_price(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        assert (await ask(settings, "PUT", "/prices/BRK%2FB", {"price": "410.123"})).json()["symbol"] == "BRK/B"
        order = new_order(symbol=Symbol("BRK/B"))
        await session.submit(order)
        assert [fill.price for fill in (await found(session, order)).executions] == [Decimal("410.123")]


async def test_a_cancel_ends_an_order_once_and_a_closed_order_refuses_it(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        works, filled = resting(), new_order()
        for order in (works, filled):
            await session.submit(order)
        for _ in range(2):
            assert kind(await session.cancel(ACCOUNT, named(works.client_order_id), soon())) is Accepted
        assert (await found(session, works)).status is ReportStatus.CANCELED
        closed = await session.cancel(ACCOUNT, named(filled.client_order_id), soon())
        assert isinstance(closed, Refused)
        assert closed.broker_code == "order_closed"
        missing = await session.cancel(ACCOUNT, named("nosuchorder"), soon())
        assert isinstance(missing, Refused)
        assert missing.broker_code == "unknown_order"
        # Accepted, filled, accepted, canceled: the second cancel told nothing new.
        assert (await summary(settings))["updates"] == 4


async def test_a_second_order_with_the_same_id_is_refused_and_the_ledger_has_one(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        order = new_order()
        outcomes = await asyncio.gather(*(session.submit(order) for _ in range(5)))
        assert sorted(kind(outcome).__name__ for outcome in outcomes) == ["Accepted"] + ["Unknown"] * 4
        counts = await summary(settings)
        assert counts == {
            "requests": 5,
            "refused": 4,
            "orders": 1,
            "executions": 1,
            "updates": 2,
            "repeated_submits": 4,
        }
        other = replace(order, account_id=AccountId(uuid4()))
        assert kind(await session.submit(other)) is Accepted


async def test_commands_that_arrive_late_are_refused(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        late = datetime.now(UTC) - timedelta(milliseconds=1)
        order = resting()
        submitted = await session.submit(replace(order, valid_until=late))
        assert isinstance(submitted, Refused)
        assert submitted.broker_code == "expired"
        assert await session.find(ACCOUNT, named(order.client_order_id)) is None
        await session.submit(order)
        canceled = await session.cancel(ACCOUNT, named(order.client_order_id), late)
        assert isinstance(canceled, Refused)
        assert canceled.broker_code == "expired"
        assert (await found(session, order)).status is ReportStatus.WORKING


@pytest.mark.parametrize("fault", ["accept_then_hang", "accept_then_reset", "error_500_after_accept"])
async def test_a_lost_reply_gives_unknown_and_a_look_up_finds_the_fill(ledger_url: str, fault: str) -> None:
    settings = settings_of(ledger_url, f"{fault}=1")
    async with running(settings) as session:
        order = new_order()
        assert kind(await session.submit(order)) is Unknown
        assert (await found(session, order)).status is ReportStatus.FILLED
        assert (await summary(settings))["requests"] == 1


async def test_a_lost_order_gives_unknown_and_a_look_up_finds_nothing(ledger_url: str) -> None:
    settings = settings_of(ledger_url, "hang=1")
    async with running(settings) as session:
        order = new_order()
        assert kind(await session.submit(order)) is Unknown
        assert await session.find(ACCOUNT, named(order.client_order_id)) is None
        assert (await summary(settings))["requests"] == 0


async def test_faults_of_cancels_leave_submits_alone(ledger_url: str) -> None:
    async with running(settings_of(ledger_url, "cancel_then_reset=1")) as session:
        order = resting()
        assert kind(await session.submit(order)) is Accepted
        assert kind(await session.cancel(ACCOUNT, named(order.client_order_id), soon())) is Unknown
        assert (await found(session, order)).status is ReportStatus.CANCELED


async def test_a_lagging_look_up_finds_the_order_later(ledger_url: str) -> None:
    async with running(settings_of(ledger_url, "find_lag_ms=1500")) as session:
        order = new_order()
        await session.submit(order)
        assert await session.find(ACCOUNT, named(order.client_order_id)) is None

        async def visible() -> bool:
            return await session.find(ACCOUNT, named(order.client_order_id)) is not None

        await until(visible)


async def test_every_order_since_a_time_is_listed_with_all_that_became_of_it(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        begun = datetime.now(UTC)
        orders = [new_order(), new_order(quantity=Decimal(2000)), resting(), resting()]
        for order in orders:
            await session.submit(order)
        await session.cancel(ACCOUNT, named(orders[-1].client_order_id), soon())
        await session.submit(replace(new_order(), valid_until=begun))
        elsewhere = replace(new_order(), account_id=AccountId(uuid4()))
        await session.submit(elsewhere)
        listed = await session.orders_since(ACCOUNT, begun)
        assert listed == [await found(session, order) for order in orders]
        assert [(report.status, len(report.executions)) for report in listed] == [
            (ReportStatus.FILLED, 1),
            (ReportStatus.FILLED, 2),
            (ReportStatus.WORKING, 0),
            (ReportStatus.CANCELED, 0),
        ]
        assert await session.orders_since(elsewhere.account_id, begun) == [await found(session, elsewhere)]
        assert await session.orders_since(AccountId(uuid4()), begun) == []


async def test_an_order_taken_at_exactly_that_time_is_listed_and_none_before_it(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        orders = [new_order() for _ in range(3)]
        for order in orders:
            await session.submit(order)
        page = (await ask(settings, "GET", f"/accounts/{ACCOUNT}/orders")).json()
        taken_at = [datetime.fromisoformat(order["accepted_at"]) for order in page["orders"]]
        for place, moment in enumerate(taken_at):
            listed = await session.orders_since(ACCOUNT, moment.astimezone(timezone(timedelta(hours=-5))))
            assert [report.client_order_id for report in listed] == [order.client_order_id for order in orders[place:]]
        assert await session.orders_since(ACCOUNT, taken_at[-1] + timedelta(microseconds=1)) == []


@pytest.mark.parametrize("count", [8, 9])
async def test_orders_are_listed_once_and_in_order_though_more_arrive_between_pages(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("openbell_server.brokers.paper.ledger.PAGE", 3)
    arriving = [new_order() for _ in range(2)]
    pages = 0
    read_page = Ledger.page

    async with running(settings_of(ledger_url)) as session:

        async def page_then_an_order(*asked: Any) -> OrderPage:
            nonlocal pages
            page = await read_page(*asked)
            await session.submit(replace(new_order(), account_id=AccountId(uuid4())))
            if pages < len(arriving):
                await session.submit(arriving[pages])
            pages += 1
            return page

        orders = [new_order() for _ in range(count)]
        for order in orders:
            await session.submit(order)
            await session.submit(replace(order, account_id=AccountId(uuid4())))
        monkeypatch.setattr(Ledger, "page", page_then_an_order)
        listed = await session.orders_since(ACCOUNT, orders[0].valid_until - timedelta(hours=1))
        assert [report.client_order_id for report in listed] == [
            order.client_order_id for order in [*orders, *arriving]
        ]
        assert pages == 4


async def test_a_list_longer_than_its_bound_raises_and_is_never_cut(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openbell_server.brokers.paper.ledger.PAGE", 2)
    monkeypatch.setattr("openbell_server.brokers.paper.session.PAGES_MAX", 2)
    async with running(settings_of(ledger_url)) as session:
        begun = datetime.now(UTC)
        for _ in range(3):
            await session.submit(new_order())
        assert len(await session.orders_since(ACCOUNT, begun)) == 3
        await session.submit(new_order())
        with pytest.raises(ListBrokenOff):
            await session.orders_since(ACCOUNT, begun)


async def test_a_lagging_list_tells_of_an_order_when_a_look_up_does(ledger_url: str) -> None:
    async with running(settings_of(ledger_url, "find_lag_ms=2000")) as session:
        begun = datetime.now(UTC)
        order = new_order()
        await session.submit(order)
        assert await session.orders_since(ACCOUNT, begun) == []

        async def visible() -> bool:
            return len(await session.orders_since(ACCOUNT, begun)) == 1

        await until(visible)
        assert await session.find(ACCOUNT, named(order.client_order_id)) is not None


async def test_a_list_that_cannot_be_meant_is_refused(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings):
        for query in (
            "since=",
            "since=yesterday",
            "since=2026-11-01",
            "since=2026-11-01T00:00:00",
            "since=2026-11-01T00:00:00+00:00",
            "since=0001-01-01T00:00:00%2B23:59",
            "since=2026-11-01T00:00:00Z&since=2026-11-02T00:00:00Z",
            "sinse=2026-11-01T00:00:00Z",
            "after=",
            "after=-1",
            "after=1&after=2",
        ):
            response = await ask(settings, "GET", f"/accounts/{ACCOUNT}/orders?{query}")
            assert (query, response.status_code, response.json()["code"]) == (query, 400, "malformed")


async def test_a_refused_connection_is_not_sent() -> None:
    session = await BROKERS["paper"].open_session({Environment.PAPER: f"http://127.0.0.1:{free_port()}"})
    try:
        assert kind(await session.submit(new_order())) is NotSent
        assert kind(await session.cancel(ACCOUNT, named("any"), soon())) is NotSent
        with pytest.raises(NothingWritten):
            await session.find(ACCOUNT, named("any"))
    finally:
        await session.close()


async def test_a_404_that_is_not_the_brokers_word_is_no_proof(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings):
        lost = PaperSession(f"{settings.paper_url}/elsewhere")
        assert kind(await lost.submit(new_order())) is Unknown
        with pytest.raises(QUERY_ERRORS):
            await lost.find(ACCOUNT, named("any"))
        await lost.close()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"quantity": "1e5"}, "malformed"),
        ({"quantity": 5}, "malformed"),
        ({"colour": "red"}, "malformed"),
        ({"valid_until": "2026-11-01T00:00:00"}, "malformed"),
        ({"quantity": "0"}, "invalid_order"),
        ({"limit_price": "5"}, "invalid_order"),
        ({"symbol": "not a symbol"}, "invalid_order"),
    ],
)
async def test_an_order_that_cannot_be_meant_is_refused_and_recorded(
    ledger_url: str, change: dict[str, object], code: str
) -> None:
    settings = settings_of(ledger_url)
    body = {
        "client_order_id": "abc",
        "symbol": "AAPL",
        "side": "BUY",
        "type": "MARKET",
        "quantity": "1",
        "time_in_force": "DAY",
        "valid_until": soon().isoformat(),
    }
    async with running(settings):
        response = await ask(settings, "POST", f"/accounts/{ACCOUNT}/orders", body | change)
        assert response.json()["code"] == code
        counts = await summary(settings)
        assert (counts["requests"], counts["refused"], counts["orders"]) == (1, 1, 0)

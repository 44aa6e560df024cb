"""The session of Tradier at its loopback: what it sends, what it concludes, and how its feed stands."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from loopbacks import Loopback, loopback
from openbell_server.application.ports.broker import BrokerOrder, BrokerSession, FeedItem
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, OrderReport, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderType
from support.brokers.paper_broker import ACCOUNT, ask, named, new_order, soon, until

SECONDS = 60


@pytest.fixture
async def tradier(ledger_url: str) -> AsyncIterator[Loopback]:
    """Its AAPL costs 100, and an order gets four at a time."""
    async with loopback("tradier", ledger_url) as running:
        await price(running, "100", "4")
        yield running


async def price(tradier: Loopback, to: str, size: str | None = None) -> None:
    body = {"price": to} if size is None else {"price": to, "size": size}
    assert (await ask(tradier.engine, "PUT", "/prices/AAPL", body)).is_success


async def faults(tradier: Loopback, **rates: float) -> None:
    answer = await ask(tradier.engine, "PUT", f"/accounts/{ACCOUNT}/faults", {"seed": 1, "faults": rates})
    assert answer.is_success


@asynccontextmanager
async def signed_in(tradier: Loopback) -> AsyncIterator[BrokerSession]:
    session = await tradier.definition.open_session(tradier.addresses)
    try:
        secrets = tradier.secrets(ACCOUNT)
        assert secrets is not None
        assert await session.sign_in(ACCOUNT, Environment.PAPER, secrets) == SignedIn(secrets["account"])
        yield session
    finally:
        await session.close()


@asynccontextmanager
async def listening(session: BrokerSession) -> AsyncIterator[list[FeedItem]]:
    """What the feed gives out, from when it stands."""
    heard: list[FeedItem] = []

    async def listen() -> None:
        feed = session.reports()
        while True:
            heard.append(await anext(feed))

    async def stands() -> bool:
        return not session.unheard and heard[:2] == [None, (ACCOUNT, None)]

    task = asyncio.ensure_future(listen())
    try:
        await until(stands, SECONDS)
        yield heard
    finally:
        task.cancel()
        await asyncio.wait({task})


def resting(quantity: int = 10, limit_price: str = "90") -> BrokerOrder:
    return new_order(OrderType.LIMIT, quantity=Decimal(quantity), limit_price=Decimal(limit_price))


async def found(session: BrokerSession, order: BrokerOrder, *broker_ids: str) -> OrderReport:
    report = await session.find(ACCOUNT, named(order.client_order_id, *broker_ids))
    assert report is not None
    return report


async def test_an_order_is_found_by_its_tag_and_by_its_id_with_what_filled_on_the_whole(tradier: Loopback) -> None:
    async with signed_in(tradier) as session:
        order = resting(limit_price="100")
        outcome = await session.submit(order)
        assert isinstance(outcome, Accepted)
        await price(tradier, "99.1", "5")
        by_tag, by_id = await found(session, order), await found(session, order, outcome.broker_order_id)
        assert by_tag == by_id
        assert (by_tag.status, by_tag.filled_quantity, by_tag.executions) == (ReportStatus.WORKING, Decimal(9), ())
        # Four at 100 and five at 99.1, to as many places as Tradier has.
        assert by_tag.average_price == Decimal("99.50000000")
        assert [write.body["quantity"] for write in tradier.writes] == ["10"]


async def test_the_feed_tells_every_change_of_an_order_and_none_twice(tradier: Loopback) -> None:
    async with signed_in(tradier) as session, listening(session) as heard:
        order = resting()
        outcome = await session.submit(order)
        assert isinstance(outcome, Accepted)

        async def told(status: ReportStatus, filled: int) -> None:
            async def is_told() -> bool:
                reports = [item[1] for item in heard if item is not None and item[1] is not None]
                return bool(reports) and (reports[-1].status, reports[-1].filled_quantity) == (status, Decimal(filled))

            await until(is_told, SECONDS)

        await told(ReportStatus.WORKING, 0)
        await price(tradier, "90", "4")
        await told(ReportStatus.WORKING, 4)
        await session.cancel(ACCOUNT, named(order.client_order_id, outcome.broker_order_id), soon())
        await told(ReportStatus.CANCELED, 4)
        # Asked for again, the list still has the first.
        await session.submit(resting(limit_price="80"))
        await told(ReportStatus.WORKING, 0)
        reports = [item[1] for item in heard if item is not None and item[1] is not None]
        assert [report.broker_order_id for report in reports].count(outcome.broker_order_id) == 3


async def test_a_feed_that_begins_anew_is_not_heard_until_it_stands(tradier: Loopback) -> None:
    async with signed_in(tradier) as session, listening(session) as heard:
        begun = heard.count((ACCOUNT, None))
        session.listen_again([ACCOUNT])
        assert ACCOUNT in session.unheard

        async def stands_again() -> bool:
            return not session.unheard and heard.count((ACCOUNT, None)) == begun + 1

        await until(stands_again, SECONDS)
        await session.sign_out(ACCOUNT)
        assert not session.unheard
        assert isinstance(await session.submit(resting()), NotSent)


async def test_an_order_that_was_placed_under_a_look_alike_of_a_refusal_is_in_doubt(tradier: Loopback) -> None:
    async with signed_in(tradier) as session:
        order = resting()
        await faults(tradier, refused_but_placed=1)
        assert isinstance(await session.submit(order), Unknown)
        assert (await found(session, order)).status is ReportStatus.WORKING


async def test_a_refusal_is_in_the_words_of_tradier(tradier: Loopback) -> None:
    async with signed_in(tradier) as session:
        await faults(tradier, refuse=1)
        assert await session.submit(resting()) == Refused(
            "TradingDeniedForAccount", "Backoffice rejected override of the order.; TradingDeniedForAccount"
        )
        await faults(tradier)
        fraction = new_order(OrderType.MARKET, quantity=Decimal("1.5"))
        assert await session.submit(fraction) == Refused("400", "Invalid parameter, quantity: is invalid.")


async def test_an_order_that_ended_cannot_be_cancelled_again(tradier: Loopback) -> None:
    async with signed_in(tradier) as session:
        order = resting()
        outcome = await session.submit(order)
        assert isinstance(outcome, Accepted)
        name = named(order.client_order_id, outcome.broker_order_id)
        assert await session.cancel(ACCOUNT, name, soon()) == outcome
        assert await session.cancel(ACCOUNT, name, soon()) == Refused(
            "400", "order already in finalized state: canceled"
        )
        not_there = named("ours", "999999")
        assert isinstance(await session.cancel(ACCOUNT, not_there, soon()), Unknown)


async def test_a_token_is_for_one_environment_and_for_its_own_accounts(tradier: Loopback) -> None:
    session = await tradier.definition.open_session(tradier.addresses)
    try:
        secrets = tradier.secrets(ACCOUNT)
        assert secrets is not None
        elsewhere = await session.sign_in(ACCOUNT, Environment.LIVE, secrets)
        assert isinstance(elsewhere, SignInRefused)
        assert elsewhere.broker_code == "keymanagement.service.invalid_access_token"
        others = await session.sign_in(ACCOUNT, Environment.PAPER, Secrets({**secrets, "account": "VA99999999"}))
        assert isinstance(others, SignInRefused)
        assert others.broker_code == "UNKNOWN_ACCOUNT"
        assert isinstance(await session.submit(resting()), NotSent)
        assert tradier.writes == []
    finally:
        await session.close()

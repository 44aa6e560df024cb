"""A feed that is made of lists: what left the list is asked for, and while nobody answers it does not stand."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx

from openbell_server.application.ports.broker import FeedItem
from openbell_server.brokers.tradier.account import TradierAccount
from openbell_server.brokers.tradier.feed import AccountFeed
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.orders.broker_reports import OrderReport, ReportStatus
from support.brokers.answered_http import AnsweredHttp
from support.brokers.paper_broker import ACCOUNT

SECONDS = 60
ORDER: dict[str, Any] = {
    "id": 7,
    "status": "open",
    "create_date": "2026-11-02T15:30:01.123Z",
    "exec_quantity": 0.0,
    "avg_fill_price": 0.0,
    "class": "equity",
}
FILLED = ORDER | {"status": "filled", "exec_quantity": 10.0, "avg_fill_price": 49.5}
NOTHING = httpx.Response(200, json={"orders": "null"})


async def _heard(answers: Iterator[httpx.Response], count: int) -> tuple[list[FeedItem], list[bool]]:
    """The first items of a feed that is answered so, and whether it stood at each answer."""
    heard: list[FeedItem] = []
    stood: list[bool] = []
    enough = asyncio.Event()

    async def tell(item: FeedItem) -> None:
        heard.append(item)
        if len(heard) == count:
            enough.set()

    def answer(_: httpx.Request) -> httpx.Response:
        stood.append(feed.is_connected)
        feed.poll_soon()
        return next(answers)

    host = AnsweredHttp(answer)
    secrets = Secrets({"account": "VA1", "token": "t"})
    feed = AccountFeed(TradierAccount(ACCOUNT, Environment.PAPER, host, secrets), tell)
    task = asyncio.ensure_future(feed.run())
    try:
        async with asyncio.timeout(SECONDS):
            await enough.wait()
    finally:
        task.cancel()
        await asyncio.wait({task})
    return heard, stood


def test_an_order_that_left_the_list_before_its_end_is_asked_for_and_told() -> None:
    listed = httpx.Response(200, json={"orders": {"order": ORDER}})
    answers = iter([listed, NOTHING, httpx.Response(200, json={"order": FILLED})])
    (begun, told), _ = asyncio.run(_heard(answers, 2))
    assert begun == (ACCOUNT, None)
    assert told is not None
    assert isinstance(told[1], OrderReport)
    assert (told[1].broker_order_id, told[1].status) == ("7", ReportStatus.FILLED)


def test_a_feed_that_is_not_answered_does_not_stand_until_it_begins_anew() -> None:
    answers = iter([NOTHING, NOTHING, httpx.Response(500), httpx.Response(502), NOTHING])
    heard, stood = asyncio.run(_heard(answers, 2))
    assert heard == [(ACCOUNT, None)] * 2
    assert stood == [False, True, True, False, False]

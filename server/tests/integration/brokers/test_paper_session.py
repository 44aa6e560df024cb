"""The paper session against a server that says anything: only a definite word is taken for one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec
import pytest

from openbell_server.brokers.http_client import QUERY_ERRORS, ListBrokenOff
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.brokers.paper.wire import LedgerOrderBody, OrderPage
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from support.brokers.paper_broker import named

ACCOUNT = AccountId(uuid4())


def reply(status: int, body: str, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{headers}\r\n{body}".encode()


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[tuple[PaperSession, list[bytes]]]:
    """A session with a server that gives these answers, the last for ever, and closes each time; and what it read."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answers[min(len(requests), len(answers)) - 1])
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        session = PaperSession(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            yield session, requests
        finally:
            await session.close()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (reply(200, '{"broker_order_id":"P1"}'), Accepted),
        (reply(200, '{"broker_order_id":1}'), Unknown),
        (reply(200, "<html>"), Unknown),
        (reply(201, '{"broker_order_id":"P1"}'), Unknown),
        (reply(422, '{"code":"expired","text":"late"}'), Refused),
        (reply(400, '{"code":"expired","text":"late"}'), Unknown),
        (reply(422, '{"code":"never_heard","text":""}'), Unknown),
        (reply(500, '{"code":"expired","text":"late"}'), Unknown),
        (reply(429, ""), Unknown),
        (reply(307, "", "location: /healthz\r\n"), Unknown),
        (reply(200, '{"broker_order_id":"P1"}')[:-5], Unknown),
        (b"SSH-2.0-OpenSSH\r\n", Unknown),
        (b"", Unknown),
    ],
)
async def test_each_answer_has_one_outcome_and_is_asked_for_once(answer: bytes, outcome: type[Outcome]) -> None:
    async with answering(answer) as (session, requests):
        assert type(await session.cancel(ACCOUNT, named("abc"), datetime.now(UTC) + timedelta(seconds=5))) is outcome
        assert len(requests) == 1


@pytest.mark.parametrize(
    "answer",
    [reply(404, ""), reply(404, '{"code":"expired","text":""}'), reply(200, "{}"), reply(503, ""), reply(302, ""), b""],
)
async def test_a_look_up_without_the_brokers_word_raises(answer: bytes) -> None:
    async with answering(answer) as (session, _):
        with pytest.raises((*QUERY_ERRORS, msgspec.DecodeError)):
            await session.find(ACCOUNT, named("abc"))


def an_order(number: int, account_id: AccountId = ACCOUNT) -> LedgerOrderBody:
    return LedgerOrderBody(
        number=number,
        account_id=account_id,
        client_order_id=f"order{number}",
        broker_order_id=f"P{number}",
        symbol="AAPL",
        side=OrderSide.BUY,
        type=OrderType.MARKET,
        quantity="1",
        limit_price=None,
        stop_price=None,
        time_in_force=TimeInForce.DAY,
        terms_version=1,
        accepted_at=datetime.now(UTC),
        status=ReportStatus.WORKING,
        triggered=False,
        filled_quantity="0",
    )


def page(following: int | None, *orders: LedgerOrderBody) -> bytes:
    return reply(200, msgspec.json.encode(OrderPage(orders, following)).decode())


FIRST_PAGE = page(2, an_order(1), an_order(2))


async def test_a_list_is_read_to_its_last_page() -> None:
    async with answering(FIRST_PAGE, page(None, an_order(5))) as (session, requests):
        listed = await session.orders_since(ACCOUNT, datetime(2026, 11, 1, tzinfo=UTC))
        assert [report.client_order_id for report in listed] == ["order1", "order2", "order5"]
    asked = [request.split()[1].decode().partition("?")[2] for request in requests]
    assert asked == [f"since=2026-11-01T00%3A00%3A00%2B00%3A00&after={after}" for after in (0, 2)]


@pytest.mark.parametrize(
    "answers",
    [
        *([*before, broken] for before in ([], [FIRST_PAGE]) for broken in (reply(404, ""), reply(503, ""), b"")),
        [reply(404, '{"code":"unknown_order","text":""}')],
        [reply(200, "{}")],
        [reply(302, "")],
        [page(None, an_order(1))[:-5]],
        [page(None, an_order(1), an_order(2, AccountId(uuid4())))],
        [page(None, an_order(2), an_order(1))],
        [page(None, an_order(1), an_order(1))],
        [FIRST_PAGE, FIRST_PAGE],
        [FIRST_PAGE, page(2)],
        [page(1, an_order(1), an_order(2)), page(None, an_order(2))],
        [page(9, an_order(1), an_order(2)), page(None, an_order(10))],
    ],
)
async def test_a_list_with_a_page_that_is_not_the_brokers_word_raises(answers: list[bytes]) -> None:
    async with answering(*answers) as (session, requests):
        with pytest.raises((*QUERY_ERRORS, msgspec.DecodeError, ListBrokenOff)):
            await session.orders_since(ACCOUNT, datetime.now(UTC))
        assert len(requests) <= len(answers)


async def test_a_page_that_comes_too_slowly_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbell_server.brokers.http_client.DEADLINE_SECONDS", 0.2)

    given_up, ended = asyncio.Event(), asyncio.Event()

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\nx-much: ")
        with contextlib.suppress(ConnectionError):
            while not given_up.is_set():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()
        ended.set()

    async with asyncio.timeout(60), await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        session = PaperSession(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(TimeoutError):
            await session.orders_since(ACCOUNT, datetime.now(UTC))
        await session.close()
        given_up.set()
        await ended.wait()


async def test_a_garbled_feed_is_connected_anew() -> None:
    async with answering(b'HTTP/1.1 200 X\r\n\r\n{"connected":1}\n{"number":\n') as (session, requests):
        async with asyncio.timeout(60):
            feed = session.reports()
            assert [await anext(feed) for _ in range(3)] == [None] * 3
            await feed.aclose()
        assert len(requests) == 3

"""The Alpaca session against a server that says anything: only a definite word is taken for one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest

from openbell_server.application.ports.broker import BrokerReplacement
from openbell_server.brokers.alpaca.session import AlpacaSession
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn
from openbell_server.domain.orders.broker_reports import NotSent, Unknown
from support.brokers.alpaca_orders import order_json
from support.brokers.paper_broker import ACCOUNT, named, new_order, replacement, soon, until


def ok(body: object) -> bytes:
    content = msgspec.json.encode(body)
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (len(content), content)


def changed() -> BrokerReplacement:
    """To twice ten and a half."""
    return replace(replacement(new_order(), Decimal(91)), order=named("x", "A"))


WELCOME = ok({"account_number": "PA1", "status": "ACTIVE"})


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[tuple[AlpacaSession, list[bytes]]]:
    """A session with a server that lets the account in, then gives these answers and closes; and what it read."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if not request.startswith(b"GET /v2/account "):
            requests.append(request)
        writer.write(WELCOME if not requests else answers[min(len(requests), len(answers)) - 1])
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        session = AlpacaSession({Environment.PAPER: address})
        secrets = Secrets({"key_id": "PK1", "secret": "s"})
        try:
            assert isinstance(await session.sign_in(ACCOUNT, Environment.PAPER, secrets), SignedIn)
            yield session, requests
        finally:
            await session.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 504 Gateway Time-out\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 X\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 307 X\r\nlocation: /v2/orders\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 429 X\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"not even http\r\n\r\n",
    ],
)
async def test_a_command_is_written_once_and_unknown_whatever_else_comes_back(answer: bytes) -> None:
    async with answering(answer) as (session, requests):
        assert isinstance(await session.submit(new_order()), Unknown)
        assert isinstance(await session.cancel(ACCOUNT, named("x", "A"), soon()), Unknown)
        assert [request.split()[0] for request in requests] == [b"POST", b"DELETE"]
    async with answering(ok(order_json("A")), answer) as (session, requests):
        assert isinstance(await session.replace(changed()), Unknown)
        assert [request.split()[0] for request in requests] == [b"GET", b"PATCH"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 504 X\r\ncontent-length: 0\r\n\r\n",
        ok({"code": 1}),
        # More than is asked for.
        ok(order_json("A", qty="30", filled_qty="21.5", status="partially_filled")),
    ],
)
async def test_a_replace_leaves_only_for_a_rest_that_the_broker_has_told(answer: bytes) -> None:
    async with answering(answer) as (session, requests):
        assert isinstance(await session.replace(changed()), NotSent)
        assert [request.split()[0] for request in requests] == [b"GET"]


async def test_a_replace_does_not_leave_once_its_time_is_over() -> None:
    async with answering(ok(order_json("A"))) as (session, requests):
        assert isinstance(await session.replace(replace(changed(), valid_until=datetime.now(UTC))), NotSent)
        assert len(requests) == 1


@pytest.mark.parametrize("status", [b"301", b"404", b"500"])
async def test_a_look_up_without_the_brokers_word_raises(status: bytes) -> None:
    body = b'{"message": "order not found"}'
    answer = b"HTTP/1.1 %s X\r\nlocation: /\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)
    async with answering(answer) as (session, requests):
        with pytest.raises(Exception, match=status.decode()):
            await session.find(ACCOUNT, named("x"))
        assert len(requests) == 1


async def test_a_stream_that_is_sent_elsewhere_does_not_go_there() -> None:
    async with answering(b"HTTP/1.1 302 X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n") as (session, requests):
        feed = session.reports()
        assert await anext(feed) is None
        pending = asyncio.ensure_future(anext(feed))

        async def asked_again() -> bool:
            return len(requests) > 2

        await until(asked_again, 60)
        pending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pending
        await feed.aclose()
        assert {request.split()[1] for request in requests} == {b"/stream"}
        assert set(session.unheard) == {ACCOUNT}

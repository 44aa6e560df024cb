"""The paper session against a server that says anything: only a definite word is taken for one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import msgspec
import pytest

from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.broker_orders import Accepted, Outcome, Refused, Unknown
from openbell_server.domain.identifiers import AccountId

ACCOUNT = AccountId(uuid4())


def reply(status: int, body: str, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{headers}\r\n{body}".encode()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[tuple[PaperSession, list[bytes]]]:
    """A session with a server that gives this answer to whatever it reads, then closes; and what it read."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
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
        assert type(await session.cancel(ACCOUNT, "abc", datetime.now(UTC) + timedelta(seconds=5))) is outcome
        assert len(requests) == 1


@pytest.mark.parametrize(
    "answer",
    [reply(404, ""), reply(404, '{"code":"expired","text":""}'), reply(200, "{}"), reply(503, ""), reply(302, ""), b""],
)
async def test_a_look_up_without_the_brokers_word_raises(answer: bytes) -> None:
    async with answering(answer) as (session, _):
        with pytest.raises((httpx.HTTPError, msgspec.DecodeError)):
            await session.find(ACCOUNT, "abc")


async def test_a_garbled_feed_is_connected_anew() -> None:
    async with answering(b'HTTP/1.1 200 X\r\n\r\n{"connected":1}\n{"number":\n') as (session, requests):
        async with asyncio.timeout(5):
            feed = session.reports()
            assert [await anext(feed) for _ in range(3)] == [None] * 3
            await feed.aclose()
        assert len(requests) == 3

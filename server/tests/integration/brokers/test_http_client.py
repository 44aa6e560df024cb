"""HTTP to a broker over raw sockets: written once, read within bounds, and honest about what left."""

import asyncio
import zlib
from contextlib import aclosing

import pytest

from openbell_server.brokers import http_client
from openbell_server.brokers.http_client import (
    QUERY_ERRORS,
    BrokerHttp,
    Reply,
    UnexpectedAnswer,
    UnreadableAnswer,
    decoded,
)
from openbell_server.brokers.http_connections import AnswerTooLong
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.orders.broker_reports import NotSent, Unknown
from support.brokers.talking_server import OK, answering, post, talking


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def stay_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize("status", [301, 302, 307, 308, 500, 502, 503, 504])
async def test_a_command_is_written_once_whatever_is_answered(status: int) -> None:
    head = f"HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"
    async with talking(answering(head.encode())) as (http, requests):
        reply = await http.command(post(http))
        assert isinstance(reply, Reply)
        assert (reply.status, reply.body) == (status, b"")
        assert len(requests) == 1


async def test_a_command_whose_connection_is_reset_is_in_doubt_and_written_once() -> None:
    async with talking(hang_up) as (http, requests):
        assert isinstance(await http.command(post(http)), Unknown)
        assert len(requests) == 1


async def test_a_command_without_an_answer_in_time_is_in_doubt_and_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "DEADLINE_SECONDS", 0.3)
    async with talking(stay_silent) as (http, requests):
        assert isinstance(await http.command(post(http)), Unknown)
        assert len(requests) == 1


async def test_a_command_that_nobody_listens_to_was_not_sent() -> None:
    http = BrokerHttp(f"http://127.0.0.1:{free_port()}")
    assert isinstance(await http.command(post(http)), NotSent)
    await http.close()


async def test_after_a_connection_broke_the_next_command_has_another_one() -> None:
    ports: list[int] = []

    async def break_off_first(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("peername")[1])
        writer.write(OK[:-1] if len(ports) == 1 else OK)
        if len(ports) == 1:
            await writer.drain()
            writer.close()

    async with talking(break_off_first) as (http, _):
        assert isinstance(await http.command(post(http)), Unknown)
        assert isinstance(await http.command(post(http)), Reply)
        assert isinstance(await http.command(post(http)), Reply)
    assert ports[0] != ports[1] == ports[2]


async def test_a_connection_that_closed_while_idle_is_not_written_to() -> None:
    async def answer_and_close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        writer.close()

    async with talking(answer_and_close) as (http, requests):
        for _ in range(5):
            reply = await http.command(post(http))
            # The end may come after the command left: then nobody knows, and it is not written again.
            assert isinstance(reply, Reply | Unknown)
        assert len(requests) <= 5


async def test_an_answer_that_came_before_its_request_answers_nothing() -> None:
    refusal = b"HTTP/1.1 422 X\r\ncontent-length: 2\r\n\r\nno"
    async with talking(answering(OK + refusal, OK)) as (http, _):
        assert isinstance(await http.command(post(http)), Reply)
        stale = await http.command(post(http))
        assert isinstance(stale, Unknown) or (isinstance(stale, Reply) and stale.status == 200)
        after = await http.command(post(http))
        assert isinstance(after, Reply)
        assert (after.status, after.body) == (200, b"ok")


async def test_what_is_told_to_one_account_is_not_sent_with_the_next_request() -> None:
    cookie = b"HTTP/1.1 200 X\r\nset-cookie: session=1; path=/\r\ncontent-length: 2\r\n\r\nok"
    async with talking(answering(cookie)) as (http, requests):
        await http.query(post(http))
        await http.query(post(http))
    assert len(requests) == 2
    assert not any(b"cookie" in request.lower() for request in requests)


@pytest.mark.parametrize(
    "again",
    [b"HTTP/1.1 100 X\r\n\r\n" * 1_000, b"x" * 50_000, b"10000\r\n" + b" " * 65_536 + b"\r\n", b"1;" + b"x" * 9_000],
)
async def test_an_answer_without_an_end_is_left_soon(again: bytes) -> None:
    pushed = 0

    async def push(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pushed
        writer.write(b"" if again.startswith(b"HTTP") else b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(again)
            await writer.drain()
            pushed += len(again)

    async with talking(push) as (http, _):
        with pytest.raises(QUERY_ERRORS):
            await http.query(post(http))
    # Much of it lies in the buffers of the two sockets.
    assert pushed < 12_000_000


async def test_a_long_answer_is_refused_and_a_long_line_too() -> None:
    head = b"HTTP/1.1 200 X\r\ncontent-length: 1500000\r\n\r\n"
    async with talking(answering(head + b"x" * 1_500_000)) as (http, _):
        with pytest.raises(AnswerTooLong):
            await http.query(post(http))
        async with aclosing(http.lines(post(http), 5)) as lines:
            with pytest.raises(AnswerTooLong):
                await anext(lines)


async def test_a_compressed_answer_is_not_unpacked() -> None:
    body = zlib.compress(bytes(100_000))
    head = f"HTTP/1.1 200 X\r\ncontent-encoding: deflate\r\ncontent-length: {len(body)}\r\n\r\n"
    async with talking(answering(head.encode() + body)) as (http, requests):
        with pytest.raises(UnreadableAnswer):
            await http.query(post(http))
    assert b"accept-encoding: identity\r\n" in requests[0].lower()


async def test_lines_are_told_whole_however_they_are_cut() -> None:
    async def cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\n\r\n")
        for part in (b"a", b"b\n", b"\nc", b"d\ne\nf"):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        writer.close()

    async with talking(cut) as (http, _):
        assert [line async for line in http.lines(post(http), 5)] == [b"ab", b"", b"cd", b"e"]


async def test_lines_of_a_refusal_are_none() -> None:
    async with talking(answering(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n")) as (http, _):
        lines = http.lines(post(http), 5)
        with pytest.raises(UnexpectedAnswer):
            await anext(lines)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0", 0.0), ("-1", 0.0), ("1.5", 0.0), ("1e3", 0.0), ("999999", 0.0), ("Wed, 21 Oct 2026", 0.0)],
)
def test_calm_is_kept_for_whole_seconds_that_make_sense(header: str, seconds: float) -> None:
    assert Reply(429, {"retry-after": header}, b"").retry_after == seconds
    assert Reply(429, {}, b"").retry_after == 0.0


@pytest.mark.parametrize("body", [b'{"a":"\xff"}', b"[" * 100_000, b"", b"NaN", b"\xef\xbb\xbf{}"])
def test_what_cannot_be_read_is_one_error(body: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        decoded(body, dict[str, object] if body[:1] == b"{" else list[object])

"""A broker whose HTTP is wrong, late or too much: no answer is taken for another, and nothing is written twice."""

import asyncio
import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest

from openbell_server.brokers import http_client, http_connections
from openbell_server.brokers.http_client import BrokerHttp, Reply
from openbell_server.domain.orders.broker_reports import NotSent, Unknown
from support.brokers.talking_server import OK, Talk, answering, post, talking
from support.environment.certificates import a_certificate

REFUSAL = b"HTTP/1.1 422 X\r\ncontent-length: 2\r\n\r\nno"
CHUNKED = b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n"


def closing(answer: bytes) -> Talk:
    """Answers so, and closes the connection."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    return talk


def noting_ports(ports: list[int], *answers: bytes) -> Talk:
    """One answer after the other, with the port that each was asked from."""
    left = answering(*answers)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("peername")[1])
        await left(reader, writer)

    return talk


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x01\x02\x00",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2.0 200 X\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/0.9 200 X\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 99 X\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 X\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 X\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 X\r\ncontent-length: -2\r\n\r\nok",
        b"HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nok",
        CHUNKED + b"zz\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 X\r\n" + b"x: " + b"y" * 200_000 + b"\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 X\r\n" + b"x: y\r\n" * 40_000 + b"content-length: 2\r\n\r\nok",
        CHUNKED + b"2\r\nok\r\n0\r\n" + b"x: y\r\n" * 40_000 + b"\r\n",
    ],
)
async def test_what_is_not_an_answer_of_ours_leaves_the_command_in_doubt(answer: bytes) -> None:
    async with talking(answering(answer)) as (http, requests):
        assert isinstance(await http.command(post(http)), Unknown)
        assert len(requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 X\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 100 X\r\n\r\n",
        CHUNKED + b"2\r\nok\r\n",
        CHUNKED + b"3\r\nok",
        b"HTTP/1.1 200 X\r\ntransfer-encoding: gzip\r\n\r\nok",
    ],
)
async def test_a_part_of_an_answer_and_then_the_end_leaves_the_command_in_doubt(answer: bytes) -> None:
    async with talking(closing(answer)) as (http, requests):
        assert isinstance(await http.command(post(http)), Unknown)
        assert len(requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 X\r\n\r\nok",
        b"HTTP/1.1 200 X\r\n\r\nok",
        b"HTTP/1.0 200 X\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 X\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
    ],
)
async def test_an_answer_that_ends_its_connection_is_read_and_the_next_has_another(answer: bytes) -> None:
    async with talking(closing(answer)) as (http, requests):
        for _ in range(3):
            reply = await http.query(post(http))
            assert (reply.status, reply.body) == (200, b"ok")
        assert len(requests) == 3


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 X\r\nx: y\r\n\r\nHTTP/1.1 103 X\r\n\r\n" + OK,
        CHUNKED + b"1\r\no\r\n1;x=y\r\nk\r\n0\r\nx: y\r\n\r\n",
    ],
)
async def test_an_answer_after_interim_ones_or_in_chunks_is_read_and_its_connection_kept(answer: bytes) -> None:
    ports: list[int] = []
    async with talking(noting_ports(ports, answer)) as (http, _):
        for _ in range(3):
            reply = await http.query(post(http))
            assert (reply.status, reply.body, "x" in reply.headers) == (200, b"ok", False)
    assert len(set(ports)) == 1


@pytest.mark.parametrize("extra", [REFUSAL, b"k", b"garbage"])
async def test_more_than_one_answer_is_one_answer_and_the_next_request_has_another_connection(extra: bytes) -> None:
    ports: list[int] = []
    async with talking(noting_ports(ports, OK + extra, OK)) as (http, _):
        for _ in range(2):
            reply = await http.query(post(http))
            assert (reply.status, reply.body) == (200, b"ok")
    assert ports[0] != ports[1]


async def test_what_arrives_on_an_idle_connection_ends_it() -> None:
    ports: list[int] = []
    told = noting_ports(ports, OK)

    async def tell_more(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await told(reader, writer)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(REFUSAL)

    async with talking(tell_more) as (http, _):
        for _ in range(2):
            assert (await http.query(post(http))).status == 200
            await asyncio.sleep(0.2)
    assert ports[0] != ports[1]


async def test_what_arrived_unasked_and_was_not_read_yet_answers_nothing() -> None:
    refused = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            first, _ = listener.accept()
            with first:
                first.recv(65_536)
                first.sendall(OK)
                refused.wait(60)
                first.sendall(REFUSAL)
                second, _ = listener.accept()
                with second:
                    second.recv(65_536)
                    second.sendall(OK)

        thread = threading.Thread(target=serve)
        thread.start()
        http = BrokerHttp(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert (await http.query(post(http))).status == 200
        refused.set()
        # The loop reads nothing meanwhile.
        time.sleep(0.3)  # noqa: ASYNC251
        assert (await http.query(post(http))).status == 200
        await asyncio.to_thread(thread.join)
        await http.close()


async def test_an_answer_that_drips_past_the_deadline_is_left_and_its_connection_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "DEADLINE_SECONDS", 0.4)
    left = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        with contextlib.suppress(OSError):
            while not reader.at_eof():
                writer.write(b"1\r\nx\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        left.set()
        raise ConnectionResetError

    async with talking(drip) as (http, requests):
        assert isinstance(await http.command(post(http)), Unknown)
        async with asyncio.timeout(60):
            await left.wait()
        assert len(requests) == 1


async def test_a_request_that_is_cancelled_ends_its_connection() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def stay(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        asked.set()
        with contextlib.suppress(OSError):
            await reader.read()
        left.set()

    async with talking(stay) as (http, _):
        command = asyncio.ensure_future(http.command(post(http)))
        async with asyncio.timeout(60):
            await asked.wait()
            command.cancel()
            await left.wait()
        assert command.cancelled()


async def test_a_connection_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "_IDLE_SECONDS", 0.2)
    ports: list[int] = []
    async with talking(noting_ports(ports, OK)) as (http, _):
        await http.query(post(http))
        await http.query(post(http))
        await asyncio.sleep(0.5)
        assert http._connections._open == set()
        await http.query(post(http))
    assert ports[0] == ports[1] != ports[2]


async def test_a_command_without_a_free_connection_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(http_connections, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(http_client, "DEADLINE_SECONDS", 1)

    async def stay(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with talking(stay) as (http, requests):
        outcomes = await asyncio.gather(*(http.command(post(http)) for _ in range(3)))
        assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown, NotSent]
        assert len(requests) == 2
        # Their places are free again.
        assert isinstance(await http.command(post(http)), Unknown)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/orders", {"key": "a\r\nx: y"}),
        ("/orders", {"key": "a\n"}),
        ("/orders", {"key": "\u20ac"}),
        ("/orders", {"key\r\nx": "y"}),
        ("/a b", {}),
        ("/a\r\n", {}),
        ("/\u20ac", {}),
    ],
)
async def test_a_request_that_could_be_read_as_another_is_not_sent(path: str, headers: dict[str, str]) -> None:
    async with talking(answering(OK)) as (http, requests):
        assert isinstance(await http.command(http.request("POST", path, headers=headers)), NotSent)
        assert requests == []


async def test_a_client_that_was_closed_sends_nothing_and_leaves_what_is_under_way_in_doubt() -> None:
    asked = asyncio.Event()

    async def stay(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()

    async with talking(stay) as (http, requests):
        command = asyncio.ensure_future(http.command(post(http)))
        async with asyncio.timeout(60):
            await asked.wait()
            await http.close()
            assert isinstance(await command, Unknown)
        assert isinstance(await http.command(post(http)), NotSent)
        assert len(requests) == 1


async def test_only_a_host_with_a_trusted_certificate_of_its_name_is_sent_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shows, trusts = a_certificate(tmp_path, "localhost")
    async with talking(answering(OK), shows) as (http, requests):
        port = http.address.rpartition(":")[2]
        for name in ("localhost", "127.0.0.1"):
            for is_trusted in (True, False):
                with monkeypatch.context() as patch:
                    if is_trusted:
                        patch.setattr(http_client, "trusted_tls", lambda: trusts)
                    secure = BrokerHttp(f"https://{name}:{port}")
                outcomes = {type(await secure.command(post(secure))) for _ in range(2)}
                assert outcomes == {Reply if is_trusted and name == "localhost" else NotSent}
                await secure.close()
        assert len(requests) == 2

"""What strangers may send: heads, headers, URLs and bodies have limits and deadlines, and addresses a share."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import pytest

from openbell_server import http_protocol
from openbell_server.devtools.child_processes import free_port
from openbell_server.http_protocol import BoundedProtocol, Connections, delay_response, keep_connection
from openbell_server.processes import http_server
from openbell_server.processes.http_server import serve_http
from support.brokers.paper_broker import until

HEAD = b"GET / HTTP/1.1\r\nhost: here\r\n"
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the address of the client; a request for /known is authenticated, with the query as its owner."""
    if scope["path"] in ("/known", "/delayed"):
        keep_connection(scope, scope["query_string"])
    if scope["path"] == "/delayed":
        delay_response(scope, float(scope["query_string"]))
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    body = b"x" * 50_000_000 if scope["path"] == "/large" else scope["client"][0].encode()
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def served(connections: Connections) -> AsyncIterator[int]:
    stopping, ready, port = asyncio.Event(), asyncio.Event(), free_port()
    serving = asyncio.ensure_future(
        serve_http(application, "127.0.0.1", port, stopping, connections=connections, ready=ready.set)
    )
    await asyncio.wait_for(ready.wait(), 60)
    try:
        yield port
    finally:
        stopping.set()
        await asyncio.wait_for(serving, 60)


@contextlib.asynccontextmanager
async def connected(port: int, source: str = "127.0.0.2") -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer_to(peer: Peer, *sent: bytes) -> bytes:
    """The first line of the answer; empty if the connection ended without one."""
    reader, writer = peer
    with contextlib.suppress(ConnectionError):
        for piece in sent:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.readline(), 60)
    return b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([HEAD + b"x: " + b"a" * 40_000 + b"\r\n\r\n"], b"431"),
        ([HEAD + b"x: ", *[b"a" * 1000] * 40], b"431"),
        ([HEAD + b"x: a\r\n" * 200 + b"\r\n"], b"431"),
        ([b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nhost: here\r\n\r\n"], b"414"),
        ([b"GET /", *[b"a" * 1000] * 9], b"414"),
        ([b"\r\n" * 20_000], b"431"),
        ([HEAD + b"x: " + b"a" * 30_000 + b"\r\n\r\n"], b"200"),
        ([HEAD + b"x: a\r\n" * 99 + b"\r\n"], b"200"),
        ([b"GET /" + b"a" * 8_000 + b" HTTP/1.1\r\nhost: here\r\n\r\n"], b"200"),
    ],
)
async def test_a_head_has_limits_that_count_while_it_arrives(sent: list[bytes], status: bytes) -> None:
    async with served(Connections(10, 10)) as port, connected(port) as peer:
        answer = await answer_to(peer, *sent)
        # A client that is still sending may see its connection cut before it reads the answer.
        assert answer.split()[1] == status if answer else status != b"200"


async def test_the_limits_of_a_head_count_anew_for_each_request_of_a_connection() -> None:
    request = HEAD + b"x: " + b"a" * 20_000 + b"\r\n\r\n"
    async with served(Connections(10, 10)) as port, connected(port) as (reader, writer):
        for _ in range(5):
            writer.write(request)
            assert b" 200 " in await asyncio.wait_for(reader.readline(), 60)
            await reader.readuntil(b"0\r\n\r\n")


async def test_a_head_that_does_not_end_in_time_is_answered_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(http_server, "TICK_SECONDS", 0.05)
    async with served(Connections(10, 10)) as port, connected(port) as silent, connected(port) as slow:
        assert b" 408 " in await answer_to(slow, HEAD)
        assert b" 408 " in await answer_to(silent)


async def test_a_body_that_does_not_end_in_time_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(http_server, "TICK_SECONDS", 0.05)
    async with served(Connections(10, 10)) as port, connected(port) as peer:
        assert await answer_to(peer, b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 10\r\n\r\n123") == b""


async def test_a_server_wakes_once_in_a_tick_and_ends_without_waiting_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "TICK_SECONDS", 3600)
    ticks: list[float] = []
    connections = Connections(10, 10)
    monkeypatch.setattr(connections, "end_late", ticks.append)
    async with served(connections) as port, connected(port) as peer:
        assert b" 200 " in await answer_to(peer, HEAD + b"\r\n")
    assert len(ticks) == 1


async def test_a_response_that_nobody_reads_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "READ_SECONDS", 0.2)
    monkeypatch.setattr(http_server, "TICK_SECONDS", 0.05)
    ended: list[BoundedProtocol] = []

    def abort(connection: BoundedProtocol) -> None:
        ended.append(connection)
        connection.transport.abort()

    monkeypatch.setattr(BoundedProtocol, "abort", abort)
    async with served(Connections(10, 10)) as port, connected(port) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /large HTTP/1.1\r\nhost: here\r\n\r\n")

        async def has_ended() -> bool:
            return bool(ended)

        await until(has_ended, 60)


async def test_an_address_has_no_more_than_its_share_and_others_are_served() -> None:
    async with served(Connections(10, 3)) as port, contextlib.AsyncExitStack() as held:
        for _ in range(3):
            assert b" 200 " in await answer_to(await held.enter_async_context(connected(port)), HEAD + b"\r\n")
        async with connected(port) as refused:
            assert b" 503 " in await answer_to(refused, HEAD + b"\r\n")
        async with connected(port, "127.0.0.3") as other:
            assert b" 200 " in await answer_to(other, HEAD + b"\r\n")


async def test_a_trusted_proxy_has_more_connections_and_names_its_clients() -> None:
    forwarded = HEAD + b"x-forwarded-for: 203.0.113.9\r\n\r\n"
    connections = Connections(10, 1, (ip_network("127.0.0.2/32"),))
    async with (
        served(connections) as port,
        connected(port),
        connected(port) as proxy,
        connected(port, "127.0.0.3") as (
            reader,
            writer,
        ),
    ):
        proxy[1].write(forwarded)
        writer.write(forwarded)
        assert b"203.0.113.9" in await asyncio.wait_for(proxy[0].readuntil(b"0\r\n\r\n"), 60)
        assert b"127.0.0.3" in await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 60)


async def test_when_all_connections_are_taken_the_oldest_unknown_one_ends_for_a_new_one() -> None:
    async with served(Connections(3, 10)) as port, contextlib.AsyncExitStack() as held:
        known = await held.enter_async_context(connected(port))
        assert b" 200 " in await answer_to(known, b"GET /known HTTP/1.1\r\nhost: here\r\n\r\n")
        oldest, newer = [await held.enter_async_context(connected(port)) for _ in range(2)]
        for peer in (oldest, newer):
            peer[1].write(HEAD)
        async with connected(port, "127.0.0.3") as new:
            assert b" 200 " in await answer_to(new, HEAD + b"\r\n")
            assert await asyncio.wait_for(_until_closed(oldest[0]), 60)
            assert b" 200 " in await answer_to(newer, b"\r\n")


async def test_a_new_connection_is_refused_while_each_other_has_an_owner_of_its_own() -> None:
    async with served(Connections(2, 10)) as port, contextlib.AsyncExitStack() as held:
        for owner in (b"a", b"b"):
            await known_by(owner, await held.enter_async_context(connected(port)))
        async with connected(port) as new:
            assert b" 503 " in await answer_to(new, HEAD + b"\r\n")


async def test_when_all_connections_are_authenticated_the_owner_of_the_most_loses_its_oldest_idle_one() -> None:
    async with served(Connections(4, 10)) as port, contextlib.AsyncExitStack() as held:
        busy, other, idle, newest = [await held.enter_async_context(connected(port)) for _ in range(4)]
        for owner, peer in ((b"many", busy), (b"few", other), (b"many", idle), (b"many", newest)):
            await known_by(owner, peer)
        # A response is due on it: the body has not arrived.
        busy[1].write(b"POST /known?many HTTP/1.1\r\nhost: here\r\ncontent-length: 1\r\n\r\n")
        await known_by(b"many", newest)
        async with connected(port) as new:
            assert b" 200 " in await answer_to(new, HEAD + b"\r\n")
            assert await asyncio.wait_for(_until_closed(idle[0]), 60)
            busy[1].write(b"x")
            assert b" 200 " in await asyncio.wait_for(busy[0].readuntil(b"\r\n"), 60)
            await known_by(b"few", other)


async def test_a_delayed_response_is_sent_later_and_nothing_of_its_connection_is_read_meanwhile() -> None:
    async with served(Connections(2, 10)) as port, connected(port) as peer:
        assert b" 200 " in await answer_to(peer, b"GET /delayed?0.2 HTTP/1.1\r\nhost: here\r\n\r\n" + HEAD + b"\r\n")
        assert b" 200 " not in await asyncio.wait_for(peer[0].read(), 60)


async def test_a_connection_whose_response_is_delayed_ends_for_a_new_one() -> None:
    async with served(Connections(2, 10)) as port, contextlib.AsyncExitStack() as held:
        busy, delayed = [await held.enter_async_context(connected(port)) for _ in range(2)]
        await known_by(b"3600", busy)
        busy[1].write(b"POST /known?3600 HTTP/1.1\r\nhost: here\r\ncontent-length: 1\r\n\r\n")
        delayed[1].write(b"GET /delayed?3600 HTTP/1.1\r\nhost: here\r\n\r\n")

        async def is_served() -> bool:
            async with connected(port) as new:
                return b" 200 " in await answer_to(new, HEAD + b"\r\n")

        await until(is_served, 60)
        assert await asyncio.wait_for(_until_closed(delayed[0]), 60)
        busy[1].write(b"x")
        assert b" 200 " in await asyncio.wait_for(busy[0].readuntil(b"\r\n"), 60)


async def known_by(owner: bytes, peer: Peer) -> None:
    """A whole request of an owner on a connection, and its answer."""
    peer[1].write(b"GET /known?%s HTTP/1.1\r\nhost: here\r\n\r\n" % owner)
    assert b" 200 " in await asyncio.wait_for(peer[0].readuntil(b"0\r\n\r\n"), 60)


async def test_a_connection_that_ended_gives_its_place_back() -> None:
    async with served(Connections(1, 1)) as port:
        for _ in range(3):

            async def is_served() -> bool:
                async with connected(port) as peer:
                    return b" 200 " in await answer_to(peer, HEAD + b"\r\n")

            await until(is_served, 60)


async def _until_closed(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionError):
        await reader.read()
    return True

"""Posts to targets: what is connected to, what is sent, and which answers count."""

import asyncio
import contextlib
import gzip
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openbell_server.adapters.webhooks.posting import WHOLE_SECONDS, Resolve, WebhookPoster
from openbell_server.application.webhooks.ports.posting import Answer, NotDelivered
from support.builders.webhook_targets import OK, Behave, a_target, answering
from support.environment.certificates import a_certificate

HERE = ["127.0.0.1"]
ANY = frozenset({"*"})
PUBLIC = ["203.0.112.1"]


@contextlib.asynccontextmanager
async def posting(
    *,
    private_targets: Collection[str] = (),
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
    whole_seconds: float = WHOLE_SECONDS,
    now: Callable[[], float] = time.time,
) -> AsyncIterator[WebhookPoster]:
    poster = WebhookPoster(
        private_targets=private_targets, resolve=resolve, tls=tls, whole_seconds=whole_seconds, now=now
    )
    try:
        yield poster
    finally:
        await poster.close()


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", *headers, f"content-length: {len(body)}", "", ""])
    return head.encode() + body


async def test_a_post_goes_to_the_checked_address_and_names_the_host() -> None:
    async with a_target() as target, posting(private_targets=ANY, resolve=answering(HERE)) as poster:
        for _ in range(2):
            said = await poster.post(f"http://hooks.example.com:{target.port}/a?b=c", {"webhook-id": "1"}, b"{}")
            assert said == Answer(200)
    assert target.connections == 1
    request = target.requests[0]
    assert request.head.splitlines()[0] == "POST /a?b=c HTTP/1.1"
    assert request.headers == {
        "host": f"hooks.example.com:{target.port}",
        "content-length": "2",
        "webhook-id": "1",
    }


async def test_under_tls_the_target_must_be_the_named_host_whatever_its_address(tmp_path: Path) -> None:
    shows, trusts = a_certificate(tmp_path, "hooks.example.com")
    asked: list[str | None] = []
    shows.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with (
        a_target(tls=shows) as target,
        posting(private_targets=ANY, resolve=answering(HERE), tls=trusts) as poster,
    ):
        assert (await poster.post(f"https://hooks.example.com:{target.port}/", {}, b"{}")).is_taken
        with pytest.raises(NotDelivered, match="certificate"):
            await poster.post(f"https://other.example.com:{target.port}/", {}, b"{}")
    assert asked == ["hooks.example.com", "other.example.com"]
    assert len(target.requests) == 1


@pytest.mark.parametrize("answers", [HERE, [*PUBLIC, *HERE], ["::1"], ["::ffff:127.0.0.1"], ["fe80::1%lo"]])
async def test_a_name_that_leads_inside_by_any_of_its_addresses_is_connected_to_by_none(answers: list[str]) -> None:
    async with a_target() as target, posting(resolve=answering(answers)) as poster:
        with pytest.raises(NotDelivered, match="the url leads"):
            await poster.post(f"https://hooks.example.com:{target.port}/", {}, b"{}")
    assert target.connections == 0


async def test_a_name_that_leads_elsewhere_the_second_time_is_checked_again() -> None:
    resolve = answering(["127.0.0.1"], ["169.254.169.254"])
    async with (
        a_target(OK.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n")) as target,
        posting(private_targets=ANY, resolve=resolve) as poster,
    ):
        url = f"http://hooks.example.com:{target.port}/"
        assert (await poster.post(url, {}, b"{}")).is_taken
        with pytest.raises(NotDelivered, match="the url leads"):
            await poster.post(url, {}, b"{}")
    assert target.connections == 1


async def test_a_redirect_is_an_answer_and_nobody_follows_it() -> None:
    async with a_target() as inside:
        location = f"location: http://127.0.0.1:{inside.port}/"
        async with a_target(answer("302 Found", location)) as target, posting(private_targets=ANY) as poster:
            said = await poster.post(f"http://localhost:{target.port}/", {}, b"{}")
    assert (said.status, said.is_taken, inside.connections) == (302, False, 0)


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_target() as proxy, a_target() as target, posting(private_targets=ANY) as poster:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await poster.post(f"http://127.0.0.1:{target.port}/", {}, b"{}")).is_taken
    assert (proxy.connections, target.connections) == (0, 1)


async def test_no_cookie_is_kept() -> None:
    async with a_target(answer("200 OK", "set-cookie: a=b")) as target, posting(private_targets=ANY) as poster:
        for _ in range(2):
            await poster.post(f"http://127.0.0.1:{target.port}/", {}, b"{}")
    assert all("cookie" not in request.headers for request in target.requests)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        *(("7", 7.0), ("-1", 0.0), ("soon", 0.0), ("9999999", 9999999.0)),
        *(("Mon, 05 Jan 2026 12:00:30 GMT", 30.0), ("Mon, 05 Jan 2026 11:59:00 GMT", 0.0)),
        *(("Mon, 05 Jan 26 12:00", 0.0), ("Mon, 99 Jan 2026 12:00:30 GMT", 0.0), ("M\xf6n", 0.0)),
    ],
)
async def test_how_long_a_target_wants_calm_is_told_in_seconds_or_as_a_date(told: str, seconds: float) -> None:
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()
    async with (
        a_target(answer("503 Busy", f"Retry-After: {told}")) as target,
        posting(private_targets=ANY, now=lambda: noon) as poster,
    ):
        assert await poster.post(f"http://127.0.0.1:{target.port}/", {}, b"{}") == Answer(503, seconds)


async def test_of_a_long_answer_only_so_much_is_read() -> None:
    written = 0

    async def pour(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        while written < 1_000_000_000:
            writer.write(b"x" * 65536)
            await writer.drain()
            written += 65536

    async with a_target(pour) as target, posting(private_targets=ANY) as poster:
        assert (await poster.post(f"http://127.0.0.1:{target.port}/", {}, b"{}")).is_taken
    assert written < 50_000_000


async def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(b"0" * 30_000_000)
    async with (
        a_target(answer("200 OK", "content-encoding: gzip", body=bomb)) as target,
        posting(private_targets=ANY) as poster,
    ):
        assert (await poster.post(f"http://127.0.0.1:{target.port}/", {}, b"{}")).is_taken


async def reset(writer: asyncio.StreamWriter) -> None:
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.close()


async def stall(_: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(600):
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.1)


async def interim(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * 1000)
        await writer.drain()


@pytest.mark.parametrize(
    "behave",
    [
        reset,
        stall,
        drip,
        interim,
        b"HTTP/1.1 200 OK\r\n",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ncontent-length: 7\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 500_000,
    ],
    ids=["reset", "stall", "drip", "interim", "half a head", "no HTTP", "two lengths", "a long head"],
)
async def test_what_is_no_whole_answer_does_not_count(behave: bytes | Behave) -> None:
    async with a_target(behave) as target, posting(private_targets=ANY, whole_seconds=0.5) as poster:
        with pytest.raises(NotDelivered):
            await poster.post(f"http://127.0.0.1:{target.port}/", {}, b"{}")


async def test_what_follows_an_answer_is_not_taken_for_that_to_the_next_request() -> None:
    async def two_at_once(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n" + OK)
        await asyncio.Event().wait()

    async with a_target(two_at_once) as target, posting(private_targets=ANY) as poster:
        for _ in range(2):
            assert await poster.post(f"http://127.0.0.1:{target.port}/", {}, b"{}") == Answer(204)
        assert (target.connections, len(target.requests)) == (2, 2)


async def test_an_answer_that_breaks_off_does_not_count() -> None:
    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this")
        await writer.drain()

    async with a_target(half) as target, posting(private_targets=ANY) as poster:
        with pytest.raises(NotDelivered, match="RemoteProtocolError"):
            await poster.post(f"http://127.0.0.1:{target.port}/", {}, b"{}")


async def test_nobody_listening_and_a_name_without_an_address_are_not_delivered_to() -> None:
    async with a_target() as target:
        gone = target.port
    async with posting(private_targets=ANY) as poster:
        with pytest.raises(NotDelivered, match="ConnectError"):
            await poster.post(f"http://127.0.0.1:{gone}/", {}, b"{}")
    async with posting(resolve=answering([])) as poster:
        with pytest.raises(NotDelivered, match="no address"):
            await poster.post("https://hooks.example.com/", {}, b"{}")


async def test_of_private_targets_only_the_named_host_and_port_is_posted_to() -> None:
    async with a_target() as named, a_target() as other:
        targets = {f"127.0.0.1:{named.port}", f"hooks.test:{named.port}"}
        async with posting(private_targets=targets, resolve=answering(HERE)) as poster:
            for host in ("127.0.0.1", "hooks.test"):
                assert (await poster.post(f"http://{host}:{named.port}/", {}, b"{}")).is_taken
            for url in (
                f"http://127.0.0.1:{other.port}/",
                f"https://127.0.0.1:{other.port}/",
                f"https://hooks.test:{other.port}/",
                f"https://other.test:{named.port}/",
            ):
                with pytest.raises(NotDelivered, match="the url "):
                    await poster.post(url, {}, b"{}")
    assert (named.connections, other.connections) == (2, 0)

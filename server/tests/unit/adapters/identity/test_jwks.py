"""Keys of an issuer, over real sockets: what may be sent, how often we ask, and how long the last answer holds."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest
from structlog.testing import capture_logs

from openbell_server.adapters.identity import jwks
from openbell_server.adapters.identity.jwks import BYTES_MAX, IssuerKeys, read_keys
from openbell_server.domain.errors import Problem
from support.identity.identity_provider import PEOPLE, Clock, jwk, private_key, published_keys

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes, status: str = "200 OK", headers: str = "") -> Answer:
    async def write(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{headers}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return write


# Of kinds that are quick to make, for they are made as the file is read.
KEYS = json.dumps({"keys": [jwk(private_key(kind), kind) for kind in ("ES256", "EdDSA")]}).encode()
GOOD = answer(KEYS)


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def dripping(writer: asyncio.StreamWriter) -> None:
    """One byte after the other, each in time, and never the last."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.001)


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def hanging_up(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
    await writer.drain()


class Provider:
    """A provider on loopback that answers as told and writes down what it was asked."""

    def __init__(self) -> None:
        self.answer = GOOD
        self.clock = Clock()
        self.asked: list[str] = []
        self.keys: IssuerKeys

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self.answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Provider"]:
        serving: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.add(asyncio.create_task(self._serve(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        issuer = replace(PEOPLE, jwks_address=f"http://127.0.0.1:{port}/keys")
        async with httpx.AsyncClient(verify=False, follow_redirects=True) as client:
            self.keys = IssuerKeys(issuer, client, self.clock.monotonic)
            yield self
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        server.close()
        await server.wait_closed()


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    # A machine that stands still for a while must not fail a test of something else.
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 60.0)
    async with Provider().running() as running:
        yield running


async def test_a_key_is_found_and_the_provider_asked_once(provider: Provider) -> None:
    for kid in ("ES256", "EdDSA", "ES256"):
        key = await provider.keys.find(kid)
        assert key is not None
        assert key.algorithm_name == kid
    assert len(provider.asked) == 1
    assert "accept-encoding: identity" in provider.asked[0].lower()


UNENDING: dict[str, Answer] = {"silent": silence, "dripping": dripping}
WRONG: dict[str, Answer] = {
    "endless": endless,
    "hanging up": hanging_up,
    "redirecting": answer(b"", "302 Found", "location: /other\r\n"),
    "moved": answer(KEYS, "301 Moved", "location: https://evil.test/keys\r\n"),
    "failing": answer(KEYS, "500 Oops"),
    "transformed": answer(KEYS, "203 Transformed"),
    "huge": answer(KEYS + b" " * BYTES_MAX),
    "packed": answer(gzip.compress(KEYS), headers="content-encoding: gzip\r\n"),
    "not JSON": answer(b"not JSON"),
    "a list": answer(b"[]"),
    "without keys": answer(b"{}"),
    "keys as an object": answer(b'{"keys": {}}'),
    "a key as a number": answer(b'{"keys": [7]}'),
    "keys twice": answer(b'{"keys": [], "keys": []}'),
    "deep": answer(b"[" * 100_000),
    "not UTF-8": answer(b"\xff\xfe"),
}


@pytest.mark.parametrize("name", [*UNENDING, *WRONG])
async def test_a_bad_answer_leaves_the_last_keys(
    provider: Provider, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await provider.keys.find("ES256") is not None
    provider.answer = (UNENDING | WRONG)[name]
    provider.clock.seconds += 600
    if name in UNENDING:
        monkeypatch.setattr(jwks, "FETCH_SECONDS", 0.1)
    with capture_logs() as logs:
        assert await provider.keys.find("ES256") is not None
    assert [line["event"] for line in logs] == ["keys_not_fetched"]
    assert (logs[0]["error"] == "TimeoutError()") == (name in UNENDING)
    assert len(provider.asked) <= 2, "no redirect was followed"


async def is_unavailable(keys: IssuerKeys, key_id: str) -> bool:
    """Whether the caller is told to try again, and not that its token is wrong."""
    with pytest.raises(Problem) as raised:
        await keys.find(key_id)
    return raised.value.code == "unavailable"


async def test_a_provider_that_was_never_reached_is_unavailable(provider: Provider) -> None:
    provider.answer = hanging_up
    assert await is_unavailable(provider.keys, "ES256")
    provider.answer = GOOD
    assert await is_unavailable(provider.keys, "ES256"), "it was asked within thirty seconds"
    provider.clock.seconds += 30
    assert await provider.keys.find("ES256") is not None
    assert len(provider.asked) == 2


async def test_a_port_where_nobody_listens_is_a_provider_that_is_away() -> None:
    async with Provider().running() as provider:
        pass
    async with httpx.AsyncClient(verify=False) as client:
        keys = IssuerKeys(provider.keys._issuer, client, provider.clock.monotonic)
        assert await is_unavailable(keys, "ES256")


async def test_a_key_that_may_be_new_is_not_refused_while_the_provider_is_away(provider: Provider) -> None:
    assert await provider.keys.find("ES256") is not None
    provider.answer = hanging_up
    provider.clock.seconds += 30
    assert await is_unavailable(provider.keys, "next")
    assert await provider.keys.find("ES256") is not None


async def test_an_unknown_key_asks_the_provider_once_in_thirty_seconds(provider: Provider) -> None:
    assert await provider.keys.find("ES256") is not None
    for kid in ("a", "b", "c"):
        assert await provider.keys.find(kid) is None
    assert len(provider.asked) == 1
    provider.clock.seconds += 29.9
    assert await provider.keys.find("a") is None
    assert len(provider.asked) == 1
    provider.clock.seconds += 0.1
    for kid in ("a", "b", "c"):
        assert await provider.keys.find(kid) is None
    assert len(provider.asked) == 2


async def test_a_new_key_is_found_after_thirty_seconds(provider: Provider) -> None:
    assert await provider.keys.find("next") is None
    provider.answer = answer(json.dumps({"keys": [jwk(private_key("EdDSA"), "next")]}).encode())
    provider.clock.seconds += 30
    assert await provider.keys.find("next") is not None
    assert await provider.keys.find("ES256") is None, "what is no longer published is no longer believed"


async def test_many_callers_share_one_request(provider: Provider) -> None:
    found = await asyncio.gather(*(provider.keys.find("ES256") for _ in range(100)))
    assert all(key is not None for key in found)
    assert len(provider.asked) == 1


async def test_a_caller_that_leaves_does_not_take_the_request_with_it(provider: Provider) -> None:
    go, reached = asyncio.Event(), asyncio.Event()

    async def later(writer: asyncio.StreamWriter) -> None:
        reached.set()
        await go.wait()
        await GOOD(writer)

    provider.answer = later
    first = asyncio.create_task(provider.keys.find("ES256"))
    await asyncio.wait_for(reached.wait(), 60)
    second = asyncio.create_task(provider.keys.find("ES256"))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    assert await second is not None
    assert len(provider.asked) == 1


async def test_keys_are_fresh_for_ten_minutes(provider: Provider) -> None:
    await provider.keys.find("ES256")
    provider.clock.seconds += 599.9
    await provider.keys.find("ES256")
    assert len(provider.asked) == 1
    provider.clock.seconds += 0.1
    await provider.keys.find("ES256")
    assert len(provider.asked) == 2


async def test_the_last_keys_serve_for_an_hour_while_the_provider_is_away(provider: Provider) -> None:
    start = provider.clock.seconds
    await provider.keys.find("ES256")
    provider.answer = hanging_up
    for age in range(600, 3600, 15):
        provider.clock.seconds = start + age
        assert await provider.keys.find("ES256") is not None
    assert len(provider.asked) == 1 + 100, "once in thirty seconds"
    provider.clock.seconds = start + 3600
    assert await is_unavailable(provider.keys, "ES256")
    provider.clock.seconds += 30
    provider.answer = GOOD
    assert await provider.keys.find("ES256") is not None


def test_only_keys_that_can_be_used_are_read() -> None:
    assert sorted(read_keys(published_keys("people"))) == ["ES256", "EdDSA", "RS256"]


def test_a_kid_that_occurs_twice_is_nobodys_even_if_one_of_both_is_unusable() -> None:
    key = private_key("ES256")
    body = json.dumps({"keys": [jwk(key, "a"), jwk(key, "a", use="enc"), jwk(key, "b")]}).encode()
    assert list(read_keys(body)) == ["b"]


@pytest.mark.parametrize("kind", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("value", [7, None, [], {}, "", "AA", "AQ", "A" * 5000, "é"], ids=lambda value: repr(value)[:9])
def test_a_key_with_a_strange_member_is_left_out(kind: str, value: object) -> None:
    good = jwk(private_key(kind), "strange")
    others = jwk(private_key("ES256"), "other")
    for member in {*good, "crv", "alg", "use", "key_ops"} - {"kid"}:
        body = json.dumps({"keys": [good | {member: value}, others]}).encode()
        # An RSA key has no curve, and saying so changes nothing.
        left = ["strange", "other"] if (kind, member, value) == ("RS256", "crv", None) else ["other"]
        assert list(read_keys(body)) == left, member


@pytest.mark.parametrize("kid", [7, None, [], {}], ids=repr)
def test_a_key_without_a_name_is_left_out(kid: object) -> None:
    assert read_keys(json.dumps({"keys": [jwk(private_key("ES256"), "") | {"kid": kid}]}).encode()) == {}

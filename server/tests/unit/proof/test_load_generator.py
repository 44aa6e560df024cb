"""The load generator: cancels among orders, answers that are no acceptance, connections that the server closes."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from proof import cost_load
from proof.cost_load import Plan, _Load, _submit
from support.brokers.scripted_broker import until_so

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}"
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
OVERLOADED = b'HTTP/1.1 503 Service Unavailable\r\ncontent-length: 21\r\n\r\n{"code":"overloaded"}'


class Server:
    """Accepts every command but those whose account is `full`, and those of `busy` only the second time."""

    def __init__(self, answers_per_connection: int = 1_000_000, last_words: bytes = b"") -> None:
        self.answers_per_connection = answers_per_connection
        self.last_words = last_words
        self.commands: list[str] = []
        self.keys: Counter[str] = Counter()
        self.open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open[writer] = asyncio.current_task()
        for _ in range(self.answers_per_connection):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                break
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            body = json.loads(await reader.readexactly(length))
            self.commands.append(body["command"]["type"])
            key = head.partition("idempotency-key: ")[2].partition("\r\n")[0]
            self.keys[key] += 1
            is_busy = "/busy/" in head and self.keys[key] == 1
            writer.write(OVERLOADED if is_busy else REFUSED if "/full/" in head else ACCEPTED)
        writer.write(self.last_words)
        writer.close()


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[int]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listener:
        yield listener.sockets[0].getsockname()[1]
    # A connection that is collected later warns in the midst of another test.
    for writer in server.open:
        writer.close()
    await asyncio.gather(*(task for task in server.open.values() if task), return_exceptions=True)
    await asyncio.gather(*(writer.wait_closed() for writer in server.open), return_exceptions=True)


async def test_cancels_are_spread_among_the_orders_and_counted_apart() -> None:
    server = Server()
    async with serving(server) as port:
        plan = Plan(port, "key", "m", ["a", "full"], 10, cancels=[("a", "i"), ("full", "i")], connections=1)
        sent = await _submit(plan)
    assert server.commands == ["CREATE", "CANCEL", *["CREATE"] * 5, "CANCEL", *["CREATE"] * 4]
    assert (sent.accepted, sent.cancels_accepted, len(sent.refusals)) == (5, 1, 3)
    assert set(server.keys.values()) == {1}


@pytest.mark.parametrize(("tries_again", "accepted"), [(True, 6), (False, 3)])
async def test_a_command_that_is_refused_because_too_many_wait_is_sent_again_if_wanted(
    monkeypatch: pytest.MonkeyPatch, tries_again: bool, accepted: int
) -> None:
    monkeypatch.setattr(cost_load, "_TRY_AGAIN_SECONDS", 0.01)
    server = Server()
    async with serving(server) as port:
        sent = await _submit(Plan(port, "key", "m", ["a", "busy"], 6, connections=2, tries_again=tries_again))
    assert (sent.accepted, len(sent.refusals)) == (accepted, 6 - accepted)
    assert len(server.keys) == 6


def _is_quiet(load: _Load, left: int) -> bool:
    """So many are left, and the server has closed the connection of the last one."""
    return load.left == left and (load.missing == 2 or not left)


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
async def test_a_connection_that_the_server_closes_between_two_requests_is_replaced(
    monkeypatch: pytest.MonkeyPatch, last_words: bytes
) -> None:
    monkeypatch.setattr(cost_load, "STALE_SECONDS", 0.0)
    server = Server(answers_per_connection=1, last_words=last_words)
    async with serving(server) as port:
        load = _Load(Plan(port, "key", "m", ["a"], 8))
        for _ in range(2):
            await load.open()
        for left in reversed(range(8)):
            load.send()
            await until_so(partial(_is_quiet, load, left))
        await load.done
    assert (load.accepted[False], len(server.keys)) == (8, 8)

"""Attacks on a running platform, in a process of their own: python -m proof.siege_attacks.

Each line of input is a plan. The program prints a line when the attack has begun, and after a line `stop` what the
platform answered.
"""

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import grpc
import httpx

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from support.rest.rest_api import create_body

# Addresses of attackers; the victim has another.
ADDRESSES: Final = tuple(f"127.0.0.{last}" for last in range(2, 12))
CHUNK: Final = b"a" * 65536
DRIP: Final = b"a" * 17
DRIP_SECONDS: Final = 0.1
CALL_SECONDS: Final = 120
# How soon a connection or a stream that was refused or cut is tried again.
AGAIN_SECONDS: Final = 1.0
CONNECTING_MAX: Final = 50
STREAMS_PER_CONNECTION: Final = 50
WORKERS: Final = 16
OWN_CONNECTION: Final = (("grpc.use_local_subchannel_pool", 1),)


@dataclass
class Attack:
    """One attack: what to do, what was answered, and when all of it has been tried once."""

    plan: dict[str, Any]
    answers: Counter[str] = field(default_factory=Counter)
    tried: Counter[int] = field(default_factory=Counter)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    # There were as many answers as the plan asks for.
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    connecting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONNECTING_MAX))
    # An answer without which it has not begun.
    required: str | None = None

    @property
    def count(self) -> int:
        return int(self.plan["count"])

    def note(self, answer: object, number: int = 0, needed: int | None = None) -> None:
        """Count an answer of one of the attackers; the attack has begun when each has had one."""
        self.answers[str(answer)] += 1
        self.tried[number] += 1
        if self.required is not None and not self.answers[self.required]:
            return
        if len(self.tried) >= (self.count if needed is None else needed):
            self.begun.set()
        if self.answers.total() >= self.count:
            self.complete.set()

    @contextlib.asynccontextmanager
    async def connection(self, number: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        async with self.connecting:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.plan["port"], local_addr=(ADDRESSES[number % len(ADDRESSES)], 0)
            )
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def repeat(self, one: Callable[[int], Awaitable[None]], attackers: int, pause: float = 0.0) -> None:
        """All attackers do it again and again, until the task is cancelled."""

        async def work(number: int) -> None:
            while True:
                try:
                    await one(number)
                except (OSError, asyncio.IncompleteReadError, httpx.HTTPError) as error:
                    self.note(type(error).__name__, number, attackers)
                await asyncio.sleep(pause)

        await asyncio.gather(*(work(number) for number in range(attackers)))

    async def call(self, request: Callable[[httpx.AsyncClient, int], Awaitable[httpx.Response]], pause: float) -> None:
        """Concurrent requests, `workers` at a time."""
        workers = int(self.plan.get("workers", WORKERS))
        limits = httpx.Limits(max_connections=workers)
        transport = httpx.AsyncHTTPTransport(local_address=ADDRESSES[0], limits=limits)
        base = f"http://127.0.0.1:{self.plan['port']}"
        numbers = itertools.count()
        async with httpx.AsyncClient(transport=transport, base_url=base, timeout=CALL_SECONDS) as client:

            async def one(worker: int) -> None:
                answer = await request(client, next(numbers))
                code = "" if answer.is_success else f" {answer.json().get('code')}"
                self.note(f"{answer.status_code}{code}", worker, workers)

            await self.repeat(one, workers, pause)


async def drip_headers(attack: Attack) -> None:
    """One header of many megabytes, then a few bytes at a time, so that the head never ends."""

    async def one(number: int) -> None:
        async with attack.connection(number) as (reader, writer):
            writer.write(b"GET /v1/brokers HTTP/1.1\r\nhost: here\r\nx: ")
            for _ in range(attack.plan["bytes"] // len(CHUNK)):
                writer.write(CHUNK)
                await writer.drain()
            attack.note("whole", number)
            while not reader.at_eof():
                writer.write(DRIP)
                await writer.drain()
                await asyncio.sleep(DRIP_SECONDS)

    await attack.repeat(one, attack.count, AGAIN_SECONDS)


async def leave_heads_unfinished(attack: Attack) -> None:
    async def one(number: int) -> None:
        async with attack.connection(number) as (reader, writer):
            writer.write(b"GET /v1/brokers HTTP/1.1\r\nhost: here\r\n")
            await writer.drain()
            attack.note("connected", number)
            # Until the server ends it.
            while await reader.read(65536):
                pass
            attack.note("cut", number)

    await attack.repeat(one, attack.count, AGAIN_SECONDS)


async def follow_by_http(attack: Attack) -> None:
    keys = attack.plan["keys"]

    async def one(number: int) -> None:
        head = (
            f"GET /v1/events?account_id={attack.plan['account']} HTTP/1.1\r\nhost: here\r\n"
            f"accept: text/event-stream\r\nx-api-key: {keys[number % len(keys)]}\r\n\r\n"
        )
        async with attack.connection(number) as (reader, writer):
            writer.write(head.encode())
            line = await reader.readuntil(b"\r\n")
            attack.note(line.split()[1].decode(), number)
            if b" 200 " in line:
                while await reader.read(65536):
                    pass
                attack.note("ended", number)

    await attack.repeat(one, attack.count, AGAIN_SECONDS)


async def follow_by_grpc(attack: Attack) -> None:
    keys = attack.plan["keys"]
    async with contextlib.AsyncExitStack() as opened:
        stubs: list[trading_pb2_grpc.TradingServiceAsyncStub] = []
        for _ in range(-(-attack.count // STREAMS_PER_CONNECTION)):
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{attack.plan['stream_port']}", options=OWN_CONNECTION)
            stubs.append(trading_pb2_grpc.TradingServiceStub(await opened.enter_async_context(channel)))
        request = pb.Subscribe(trading_account_id=attack.plan["account"], subscriptions=attack.plan["kinds"])

        async def one(number: int) -> None:
            key = keys[number % len(keys)]
            call: Any = stubs[number // STREAMS_PER_CONNECTION].SubscribeEvents(request, metadata=(("x-api-key", key),))
            try:
                async with attack.connecting:
                    first = await call.read()
                if isinstance(first, pb.TradingEvent):
                    attack.note("open", number)
                while isinstance(await call.read(), pb.TradingEvent):
                    pass
                attack.note("ended", number)
            except grpc.aio.AioRpcError as error:
                attack.note(error.code().name, number)

        await attack.repeat(one, attack.count, AGAIN_SECONDS)


async def make_up_accounts(attack: Attack) -> None:
    """Commands for accounts that do not exist."""
    body, headers = create_body(), {"x-api-key": attack.plan["keys"][0]}
    await attack.call(lambda client, _: client.post(f"/v1/accounts/{uuid4()}/intents", json=body, headers=headers), 0.0)


async def create_keys(attack: Attack) -> None:
    body = {"name": "one more", "environment": "paper", "permissions": ["intent:read"]}
    headers = {"authorization": attack.plan["admin"]}
    await attack.call(lambda client, _: client.post("/v1/api-keys", json=body, headers=headers), 0.0)


async def backtest(attack: Attack) -> None:
    rules = [{"scope": "ACCOUNT", "code": "QTY_MAX", "parameters": {"quantity": "5"}}]
    body = {"account_id": attack.plan["account"], "rules": rules, "since": attack.plan["since"]}
    headers = {"x-api-key": attack.plan["keys"][0]}
    await attack.call(lambda client, _: client.post("/v1/controls/backtest", json=body, headers=headers), 0.0)


async def scan_lists(attack: Attack) -> None:
    """Filters that match few of an account's actions, each with another key."""
    queries = (
        {"symbol": "RARE"},
        {"client_reference_id": "nobody"},
        {"since": "2001-01-01T00:00:00Z", "symbol": "NONE"},
        {"limit": "100"},
    )
    url, keys = f"/v1/accounts/{attack.plan['account']}/intents", attack.plan["keys"]
    await attack.call(
        lambda client, number: client.get(
            url, params=queries[number % len(queries)], headers={"x-api-key": keys[number % len(keys)]}
        ),
        0.0,
    )


async def stall_webhooks(attack: Attack) -> None:
    """Receivers that read a delivery and do not answer, and orders that make events for them."""
    stalled: list[asyncio.StreamWriter] = []
    attack.required = "delivery received"

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stalled.append(writer)
        attack.note(attack.required)
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                pass
        writer.close()

    headers = {"x-api-key": attack.plan["keys"][0]}
    body = create_body("Limit", price="0.01")
    async with await asyncio.start_server(receive, "127.0.0.1", attack.plan.get("receiver_port", 0)) as server:
        port = server.sockets[0].getsockname()[1]
        base = f"http://127.0.0.1:{attack.plan['port']}"
        async with httpx.AsyncClient(base_url=base, timeout=CALL_SECONDS) as client:
            for number in range(attack.count):
                hook = {"url": f"http://127.0.0.1:{port}/{number}", "types": attack.plan["types"]}
                answer = await client.post("/v1/webhooks", json=hook, headers=headers)
                attack.note(f"webhook {answer.status_code}", number)
        await attack.call(
            lambda client, _: client.post(f"/v1/accounts/{attack.plan['account']}/intents", json=body, headers=headers),
            AGAIN_SECONDS,
        )


async def use_a_key_that_may_only_read(attack: Attack) -> None:
    """Commands and reads of the victim's account, with a key of the victim's organization without that right."""
    body, headers = create_body("Limit", price="0.01"), {"x-api-key": attack.plan["reader"]}
    url = f"/v1/accounts/{attack.plan['victim']}/intents"

    async def request(client: httpx.AsyncClient, number: int) -> httpx.Response:
        if number % 2:
            return await client.get(url, headers=headers)
        return await client.post(url, json=body, headers=headers)

    await attack.call(request, 0.0)


ATTACKS: Final = {
    attack.__name__: attack
    for attack in (
        drip_headers,
        leave_heads_unfinished,
        follow_by_http,
        follow_by_grpc,
        make_up_accounts,
        create_keys,
        backtest,
        scan_lists,
        stall_webhooks,
        use_a_key_that_may_only_read,
    )
}


async def _lines() -> AsyncIterator[str]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode().strip()


async def main() -> None:
    # Who attacks has machines of their own: here they must not take the processors from the platform.
    os.nice(19)
    running: tuple[Attack, asyncio.Task[None]] | None = None
    async for line in _lines():
        if line == "stop":
            assert running is not None
            attack, task = running
            # As many as the plan says, however fast the platform refuses them.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(attack.complete.wait(), CALL_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            print(json.dumps(attack.answers), flush=True)
            continue
        plan = json.loads(line)
        attack = Attack(plan)
        task = asyncio.ensure_future(ATTACKS[plan["attack"]](attack))
        begun = asyncio.ensure_future(attack.begun.wait())
        await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED, timeout=CALL_SECONDS)
        begun.cancel()
        if task.done():
            await task
        running = attack, task
        print(json.dumps({"begun": attack.begun.is_set()}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

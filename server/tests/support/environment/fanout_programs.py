"""Two programs for measuring a stream server: one that subscribes many times, and a bare server to compare with.

Each takes lines of JSON and answers each with one: python -m support.environment.fanout_programs subscribe|serve.
"""

import asyncio
import base64
import contextlib
import json
import signal
import sys
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Self

import grpc
import uvloop

from openbell_server.devtools.child_processes import bound_to_us, free_port
from openbell_server.transport.stream.server import OPTIONS

METHOD: Final = "/trading.TradingService/SubscribeEvents"
STREAMS_PER_CONNECTION: Final = 50
RUN_SECONDS: Final = 240
# Each connection is one of its own.
_CHANNEL: Final = (("grpc.use_local_subchannel_pool", 1),)


class Program:
    """One of the two, as a child that is asked and answers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, name: str) -> AsyncIterator[Self]:
        command = [
            *bound_to_us(None, signal.SIGKILL),
            sys.executable,
            "-m",
            "support.environment.fanout_programs",
            name,
        ]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            yield cls(process)
        finally:
            process.kill()
            await process.wait()

    async def ask(self, **plan: Any) -> Any:
        """Its next answer, after a plan if one is given."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if plan:
            self._process.stdin.write(json.dumps(plan).encode() + b"\n")
            await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), RUN_SECONDS)
        assert line, "the program ended"
        return json.loads(line)


async def _plans() -> AsyncIterator[dict[str, Any]]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


def _answer(**told: Any) -> None:
    print(json.dumps(told), flush=True)


async def subscribe() -> None:
    """For each plan: open so many streams, say that all stand, take so many messages on each, say what came."""
    async for plan in _plans():
        async with contextlib.AsyncExitStack() as channels:
            connections = -(-plan["streams"] // STREAMS_PER_CONNECTION)
            methods: list[Any] = []
            for _ in range(connections):
                channel = grpc.aio.insecure_channel(plan["address"], options=_CHANNEL)
                methods.append((await channels.enter_async_context(channel)).unary_stream(METHOD))
            request, keys = base64.b64decode(plan["request"]), plan["keys"]
            calls = [
                methods[number % connections](request, metadata=(("x-api-key", keys[number % len(keys)]),))
                for number in range(plan["streams"])
            ]
            first = await asyncio.gather(*(call.read() for call in calls))
            _answer(subscribed=sum(isinstance(frame, bytes) for frame in first))
            taken = await asyncio.gather(
                *(_take(call, plan["messages"], plan["record"] if call is calls[0] else None) for call in calls)
            )
            # Streams that were given the same have the same sum.
            _answer(missing=sum(plan["messages"] - count for count, _ in taken), different=len(Counter(taken)) - 1)
            for call in calls:
                call.cancel()


async def _take(call: Any, messages: int, record: str | None) -> tuple[int, int]:
    """How many came, and a sum of all their bytes; they are recorded where a path is given."""
    count, checked, kept = 0, 0, []
    while count < messages and isinstance(frame := await call.read(), bytes):
        count, checked = count + 1, zlib.crc32(frame, checked)
        if record is not None:
            kept.append(base64.b64encode(frame).decode())
    if record is not None:
        _write(record, kept)
    return count, checked


def _write(path: str, messages: list[str]) -> None:
    Path(path).write_text(json.dumps(messages))


def _read(path: str) -> list[bytes]:
    return [base64.b64decode(message) for message in json.loads(Path(path).read_text())]


async def serve() -> None:
    """A server that yields the recorded messages to everybody, when it is told to."""
    frames: list[bytes] = []
    go = asyncio.Event()

    async def answer(_: bytes, __: object) -> AsyncIterator[bytes]:
        yield b"subscribed"
        await go.wait()
        for frame in frames:
            yield frame
        # Until the subscriber has all and leaves, as it is with events.
        await asyncio.Event().wait()

    server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=2000)
    handlers: dict[str, Any] = {"SubscribeEvents": grpc.unary_stream_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("trading.TradingService", handlers),))
    address = f"127.0.0.1:{free_port()}"
    server.add_insecure_port(address)
    await server.start()
    async for plan in _plans():
        if plan["what"] == "load":
            go.clear()
            frames = _read(plan["path"])
        else:
            go.set()
        _answer(address=address)


if __name__ == "__main__":
    # As the processes of the platform do.
    uvloop.run({"subscribe": subscribe, "serve": serve}[sys.argv[1]]())

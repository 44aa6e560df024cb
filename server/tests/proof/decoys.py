"""A decoy in every place that is searched for secrets, so that a search which is blind somewhere is noticed."""

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from urllib.parse import quote

import asyncpg
import grpc
import httpx
import nats

from openbell import Market
from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.jetstream import subjects
from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.processes.operations_port import Operations
from openbell_server.settings import Settings
from openbell_server.telemetry.tracing import open_tracing
from proof import sinks as at
from proof.canaries import Canaries, Search
from proof.load import clients
from proof.sinks import RecordingTransport, Sinks, redis_connection

SECONDS = 60


class Decoys:
    """One planted in every sink on purpose, so that a search which is blind there is noticed."""

    def __init__(self, platform: LocalPlatform, sinks: Sinks) -> None:
        self._platform, self._sinks = platform, sinks
        self.canaries = Canaries(Random(6))
        self.words = {sink: self.canaries.word(sink) for sink in (*at.SINKS, *at.DUMPS, at.FILES)}

    async def plant(self) -> None:
        """The way by which a real one would get there."""
        platform, sinks, words = self._platform, self._sinks, self.words
        record, close = open_tracing("decoy", platform.stack.environment["OPENBELL_OTLP_URL"])
        record(words[at.TRACES], 0.1, {})
        await asyncio.to_thread(close)
        await self._plant_in_pages()
        await self._plant_in_services()
        environment = platform.client_environment()
        async with httpx.AsyncClient(
            base_url=environment["OPENBELL_URL"], transport=RecordingTransport(sinks), timeout=60
        ) as client:
            for sink in (at.LOGS, at.REPLIES):
                named = {"x-api-key": environment["OPENBELL_API_KEY"], "x-request-id": words[sink]}
                await client.get("/v1/accounts", headers=named)
        async with clients(platform, 1) as (buyer,):
            account = environment["OPENBELL_ACCOUNT"]
            await buyer.buy("AAPL", Market(1), account_id=account, client_reference_id=words[at.EVENTS])
        async with _talkative_stream(words[at.GRPC]) as address:
            await sinks.call_stream(address, environment["OPENBELL_ACCOUNT"], {})
        waiting = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "input()", words[at.PROCESS_LIST], stdin=subprocess.PIPE
        )
        sinks.list_processes()
        await asyncio.wait_for(waiting.communicate(b"\n"), SECONDS)

    async def _plant_in_pages(self) -> None:
        """An operations port as each process has one."""
        for sink in (at.METRICS, at.READINESS):
            port = free_port()
            operations = Operations(self.words[sink])
            serving = asyncio.ensure_future(operations.run(Settings(operations_port=port)))
            async with asyncio.timeout(60):
                while not (self._sinks.folder / sink / sink).exists():
                    await self._sinks.scrape(f"http://127.0.0.1:{port}", sink)
            serving.cancel()

    async def _plant_in_services(self) -> None:
        client = await nats.connect(self._platform.services.nats.url, connect_timeout=60)
        await client.publish("wake.decoy", self.words[at.NATS].encode())
        await client.jetstream().publish(subjects.user_event("decoy"), self.words[at.STREAMS].encode())
        await client.close()
        reader, writer = await redis_connection(self._platform)
        writer.write(f"SET decoy {self.words[at.REDIS]}\r\nSET file {self.words[at.FILES]}\r\nSAVE\r\n".encode())
        assert await reader.readexactly(15) == b"+OK\r\n" * 3
        writer.close()
        for sink, database in at.DUMPS.items():
            connection = await asyncpg.connect(self._platform.services.postgres.url(database), timeout=60)
            await connection.execute("create table public.decoy (hidden bytea)")
            await connection.execute("insert into public.decoy values ($1)", self.words[sink].encode())
            await connection.close()


@contextlib.asynccontextmanager
async def _talkative_stream(word: str) -> AsyncIterator[str]:
    server = grpc.aio.server()
    trading_pb2_grpc.add_TradingServiceServicer_to_server(_Talkative(word), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


class _Talkative(trading_pb2_grpc.TradingServiceServicer):
    StreamEvents = trading_pb2_grpc.TradingServiceServicer.StreamEvents

    def __init__(self, word: str) -> None:
        self._word = word

    async def SubscribeEvents(  # noqa: N802 - the proto's name
        self, _: pb.Subscribe, context: "grpc.aio.ServicerContext[pb.Subscribe, pb.TradingEvent]"
    ) -> AsyncIterator[pb.TradingEvent]:
        await context.abort(grpc.StatusCode.INTERNAL, self._word)
        yield pb.TradingEvent()


def missed_spellings(search: Search, canaries: Canaries, folder: Path) -> list[str]:
    """Every canary as others would write it, each in a file of its own; those that the search does not see."""
    folder.mkdir()
    expected = []
    for number, (name, parts) in enumerate(canaries.parts.items()):
        for place, text in enumerate(_written(parts[0])):
            path = folder / f"{number}-{place}"
            path.write_bytes(text)
            expected.append((name, str(path)))
    found = search.hits([folder])
    return [f"{name} in {path}" for name, path in expected if not found[name, path]]


def _written(secret: bytes) -> list[bytes]:
    around = [before + secret + b" and more" for before in (b"", b"u", b"us", b"user")]
    return [
        b"\0 " + secret + b"\n",
        secret.upper(),
        secret.lower(),
        secret.hex().encode(),
        b"\\x" + secret.hex(" ").replace(" ", "").upper().encode(),
        json.dumps({"x": secret.decode("latin-1")}).encode() if secret.isascii() else secret,
        quote(secret).encode() if secret.isascii() else secret,
        *(base64.b64encode(text) for text in around),
        *(base64.urlsafe_b64encode(text) for text in around),
    ]

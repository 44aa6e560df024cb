"""Every place into which a running platform writes, gathered as files that can be searched."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import asyncpg
import grpc
import httpx
import nats
from nats.aio.msg import Msg

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.devtools.child_processes import ProcessStamp
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.transport.stream.event_messages import KINDS
from proof.load import Follower

PAGES = ("/metrics", "/readyz", "/healthz")
PAGE_SECONDS = 60.0
COMMAND_SECONDS = 60
# What a reply carries that must show a secret: a new API key, once.
SHOWS_KEY = "shows_key"
LOGS = "logs of processes"
REPLIES = "HTTP replies"
GRPC = "gRPC replies"
EVENTS = "stream events"
TRACES = "traces"
METRICS = "metrics"
READINESS = "readiness"
NATS = "NATS messages"
STREAMS = "JetStream streams"
REDIS = "Redis commands and values"
COMMANDS = "output of commands"
PROCESS_LIST = "process list"
DATABASE = "platform database"
PAPER_DATABASE = "paper database"
SINKS = (LOGS, REPLIES, GRPC, EVENTS, TRACES, METRICS, READINESS, NATS, STREAMS, REDIS, COMMANDS, PROCESS_LIST)
DUMPS = {DATABASE: "openbell", PAPER_DATABASE: "openbell_paper"}
FILES = "files of PostgreSQL, NATS and Redis"


@dataclass(frozen=True, slots=True)
class Sinks:
    """A folder for each place."""

    folder: Path

    def __post_init__(self) -> None:
        for sink in (*SINKS, *DUMPS):
            (self.folder / sink).mkdir(parents=True)

    def add(self, sink: str, name: str, content: bytes | str) -> None:
        with (self.folder / sink / re.sub(r"[^\w.-]", "_", name)).open("ab") as file:
            file.write((content.encode() if isinstance(content, str) else content) + b"\n")

    async def look(self, platform: LocalPlatform, names: Sequence[str]) -> None:
        """What operators can see now: the pages of running processes, and the list of processes."""
        for name in names:
            if platform.stack.is_running(name):
                await self.scrape(platform.stack.operations_url(name), name)
        self.list_processes()

    def list_processes(self) -> None:
        """The command lines of all that we started."""
        ours = ProcessStamp.of(os.getpid())
        for stamp in ours.descendants() if ours else ():
            with contextlib.suppress(OSError):
                self.add(PROCESS_LIST, "list", Path(f"/proc/{stamp.pid}/cmdline").read_bytes())

    async def scrape(self, url: str, name: str) -> None:
        """The pages of one operations port."""
        async with httpx.AsyncClient(timeout=PAGE_SECONDS) as client:
            for page in PAGES:
                with contextlib.suppress(httpx.HTTPError):
                    reply = await client.get(url + page)
                    sink = METRICS if page == "/metrics" else READINESS
                    self.add(sink, name, f"{page} {reply.status_code} {reply.headers}\n{reply.text}")

    async def call_stream(self, address: str, account_id: str, metadata: Mapping[str, str]) -> str:
        """One subscription that ought to be refused: all that comes back, and its code."""
        async with grpc.aio.insecure_channel(address) as channel:
            request = pb.Subscribe(trading_account_id=account_id, subscriptions=list(KINDS))
            call = trading_pb2_grpc.TradingServiceStub(channel).SubscribeEvents(
                request, metadata=tuple(metadata.items()), timeout=PAGE_SECONDS
            )
            try:
                self.add(GRPC, "calls", str(await call.read()))
                return "OK"
            except grpc.aio.AioRpcError as error:
                self.add(GRPC, "calls", f"{error!r} {error.initial_metadata()} {error.trailing_metadata()}")
                return str(error.code().name)
            finally:
                call.cancel()

    async def command(self, environment: Mapping[str, str], *words: str) -> int:
        """A command of the operator's: all that it prints; its exit status."""
        process = await asyncio.create_subprocess_exec(
            *words, env=dict(environment), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), COMMAND_SECONDS)
        except TimeoutError:
            process.kill()
            raise
        self.add(COMMANDS, "-".join(words[3:5]), said)
        return process.returncode or 0

    def keep_events(self, following: Iterable[Follower]) -> int:
        """All events that came; how many."""
        frames = [frame for follower in following for frame in follower.frames]
        for frame in frames:
            self.add(EVENTS, "frames", frame.SerializeToString() + str(frame).encode())
        return len(frames)

    async def dump(self, platform: LocalPlatform) -> int:
        """Every table of both databases as text, bytes in hex, and what the server shows of its sessions; how many."""
        count = 0
        for sink, database in DUMPS.items():
            connection = await asyncpg.connect(platform.services.postgres.url(database), timeout=60)
            try:
                tables = await connection.fetch(
                    "select nspname, relname from pg_class c join pg_namespace n on n.oid = relnamespace"
                    " where relkind in ('r', 'p', 'm', 'S') and nspname not in ('pg_catalog', 'information_schema')"
                )
                named = [f'{row["nspname"]}."{row["relname"]}"' for row in tables]
                for table in (*named, "pg_stat_activity", "pg_authid"):
                    target = self.folder / sink / table
                    await connection.copy_from_query(f"select * from {table}", output=target)
                    count += 1
                await connection.execute("checkpoint")
            finally:
                await connection.close()
        return count


class RecordingTransport(httpx.AsyncHTTPTransport):
    """Keeps every reply but one that shows a new key."""

    def __init__(self, sinks: Sinks) -> None:
        super().__init__()
        self._sinks = sinks
        self.count = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        reply = await super().handle_async_request(request)
        body = await reply.aread()
        self.count += 1
        if SHOWS_KEY not in request.extensions:
            self._sinks.add(REPLIES, "replies", f"{reply.status_code} {reply.headers.raw!r}\n".encode() + body)
        return reply


@contextlib.contextmanager
def collector(sinks: Sinks) -> Iterator[int]:
    """An OpenTelemetry collector on loopback that keeps the bodies it is sent; its port."""

    class Collect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sinks.add(TRACES, "spans", self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collect)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.asynccontextmanager
async def taps(sinks: Sinks, platform: LocalPlatform) -> AsyncIterator[None]:
    """Keep what goes through NATS, and every command that Redis runs."""

    async def notify(message: Msg) -> None:
        sinks.add(NATS, "all", f"{message.subject} {message.headers}\n".encode() + message.data)

    async def say_nothing(_: Exception) -> None:
        """It goes away on purpose."""

    client = await nats.connect(
        platform.services.nats.url, max_reconnect_attempts=-1, reconnect_time_wait=0.2, error_cb=say_nothing
    )
    await client.subscribe(">", cb=notify)
    reader, writer = await redis_connection(platform)
    writer.write(b"MONITOR\r\n")

    async def keep() -> None:
        while line := await reader.read(65_536):
            sinks.add(REDIS, "monitor", line)

    task = asyncio.ensure_future(keep())
    try:
        yield
    finally:
        task.cancel()
        writer.close()
        await client.close()


async def redis_connection(platform: LocalPlatform) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """One that is let in."""
    assert platform.services.redis is not None
    address = urlsplit(platform.services.redis.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"AUTH {address.password}\r\n".encode())
    assert await reader.readline() == b"+OK\r\n"
    return reader, writer


async def read_streams(sinks: Sinks, platform: LocalPlatform) -> int:
    """Every message that JetStream holds; how many."""
    client = await nats.connect(platform.services.nats.url, connect_timeout=60)
    count = 0
    try:
        jetstream = client.jetstream()
        for info in await jetstream.streams_info():
            name = str(info.config.name)
            sinks.add(STREAMS, name, str(info))
            # An empty stream begins with 0, which no message has.
            for number in range(max(1, info.state.first_seq), info.state.last_seq + 1):
                with contextlib.suppress(nats.js.errors.NotFoundError):
                    message = await jetstream.get_msg(name, number)
                    sinks.add(STREAMS, name, f"{message.subject} {message.headers}\n".encode() + (message.data or b""))
                    count += 1
    finally:
        await client.close()
    return count

"""What one event costs for each who follows it, beside a bare gRPC server that yields the same bytes."""

import asyncio
import base64
import os
import shutil
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import grpc

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import Stack
from openbell_server.transport.stream.event_messages import KINDS
from proof.figures import Figures
from support.builders.tenant import Tenant, a_key, a_tenant, accept
from support.environment.fanout_programs import Program
from support.environment.logins import TEST_LOGIN, allow_every_login

LOGS = Path("build/proof/fanout-logs")
RATIO_MIN = 0.85
# As many as a caller may have.
STREAMS_PER_KEY = 20
COMMITTED_AT_ONCE = 100
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
READ_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """By how many are subscribed: how many events each is sent in a run."""

    events: dict[int, int]
    pairs: int
    # One at a time, with a pause after each.
    quiet_events: int
    quiet_pause: float


SIZES = {
    "full": Size(events={100: 500, 1000: 50}, pairs=9, quiet_events=300, quiet_pause=0.05),
    "gate": Size(events={20: 100}, pairs=1, quiet_events=20, quiet_pause=0.02),
}


def prove(figures: Figures) -> None:
    shutil.rmtree(LOGS, ignore_errors=True)
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        lifted = ("OPENBELL_LIMIT_READS_PER_SECOND", "OPENBELL_CAP_STREAMS", "OPENBELL_CAP_EVENTS_PER_SECOND")
        with Stack(services, dict.fromkeys(lifted, "1000000"), LOGS) as stack:
            for name in ("stream", "relay"):
                stack.start(name)
            for name in ("stream", "relay"):
                stack.wait_ready(name)
            asyncio.run(_prove(figures, stack, services.postgres.url("openbell", TEST_LOGIN)))


async def _prove(figures: Figures, stack: Stack, url: str) -> None:
    size = SIZES[figures.size]
    async with (
        await open_pool(url) as pool,
        Program.started("subscribe") as subscribers,
        Program.started("serve") as bare,
    ):
        tenant = await a_tenant(pool)
        count = -(-max(size.events) // STREAMS_PER_KEY)
        keys = [(await a_key(pool, tenant.account.organization_id))[1] for _ in range(count)]
        both = Both(pool, tenant, keys, subscribers, bare, stack)
        for streams, events in size.events.items():
            await _compare(figures, both, streams, events, size.pairs)
        lags = await _quiet(pool, tenant, both.address, size)
    figures.shown("event to subscriber at a quiet rate, p50, ms", round(statistics.median(lags), 1))
    figures.shown("event to subscriber at a quiet rate, p99, ms", round(statistics.quantiles(lags, n=100)[-1], 1))


async def _compare(figures: Figures, both: "Both", streams: int, events: int, pairs: int) -> None:
    both.missing = both.different = 0
    rates = [(await both.run_stream(streams, events), await both.run_bare(streams, events)) for _ in range(pairs)]
    ours, bare = (statistics.median(each) for each in zip(*rates, strict=True))
    ratio = round(statistics.median(our / its for our, its in rates), 3)
    figures.exactly(f"{streams} subscribers: messages missing", both.missing, 0)
    figures.exactly(f"{streams} subscribers: runs that sent not the same to all", both.different, 0)
    figures.shown(f"{streams} subscribers: messages in each run", streams * events)
    figures.shown(f"{streams} subscribers: messages for a second of the server's CPU", round(ours))
    figures.shown(f"{streams} subscribers: those of a bare gRPC server", round(bare))
    if figures.size == "full":
        figures.at_least(f"{streams} subscribers: of a bare server's, median of {pairs} pairs", ratio, RATIO_MIN)
    else:
        figures.shown(f"{streams} subscribers: of a bare server's", ratio)


@dataclass
class Both:
    """The stream process and the bare server, with the same subscribers at either, in turn."""

    pool: Pool
    tenant: Tenant
    keys: list[str]
    subscribers: Program
    bare: Program
    stack: Stack
    missing: int = 0
    different: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.stack.environment['OPENBELL_STREAM_PORT']}"

    @property
    def _recorded(self) -> str:
        return str(LOGS / "messages.json")

    async def run_stream(self, streams: int, events: int) -> float:
        """Messages for a CPU second; what one subscriber was sent is recorded."""

        async def commit() -> None:
            for first in range(0, events, COMMITTED_AT_ONCE):
                count = min(COMMITTED_AT_ONCE, events - first)
                await accept(self.pool, *(self.tenant.submission() for _ in range(count)))

        return await self._run(self.address, self.stack.pid("stream"), commit, streams, events, self._recorded)

    async def run_bare(self, streams: int, events: int) -> float:
        """The same bytes."""
        told = await self.bare.ask(what="load", path=self._recorded)

        async def go() -> None:
            await self.bare.ask(what="go")

        return await self._run(told["address"], self.bare.pid, go, streams, events, None)

    async def _run(
        self,
        address: str,
        pid: int,
        begin: Callable[[], Awaitable[None]],
        streams: int,
        events: int,
        record: str | None,
    ) -> float:
        request = pb.Subscribe(trading_account_id=str(self.tenant.account.id), subscriptions=list(KINDS))
        stand = await self.subscribers.ask(
            address=address,
            request=base64.b64encode(request.SerializeToString()).decode(),
            keys=self.keys[: -(-streams // STREAMS_PER_KEY)],
            streams=streams,
            messages=events,
            record=record,
        )
        assert stand["subscribed"] == streams, stand
        before = cpu_seconds(pid)
        await begin()
        taken = await self.subscribers.ask()
        spent = cpu_seconds(pid) - before
        self.missing += taken["missing"]
        self.different += taken["different"]
        return streams * events / spent


def cpu_seconds(pid: int) -> float:
    """What a process has used, in its own code and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


async def _quiet(pool: Pool, tenant: Tenant, address: str, size: Size) -> list[float]:
    """Milliseconds from the time of an event, which is before its commit, to its receipt, both on this machine."""
    lags: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel:
        stub: trading_pb2_grpc.TradingServiceAsyncStub = trading_pb2_grpc.TradingServiceStub(channel)
        request = pb.Subscribe(trading_account_id=str(tenant.account.id), subscriptions=list(KINDS))
        call = stub.SubscribeEvents(request, metadata=(("x-api-key", tenant.key),))
        await call.read()

        async def take() -> None:
            while len(lags) < size.quiet_events:
                frame = await asyncio.wait_for(call.read(), READ_SECONDS)
                assert isinstance(frame, pb.TradingEvent)
                if frame.event_id:
                    lags.append(1000 * (time.time() - frame.occurred_at.ToDatetime(UTC).timestamp()))

        taking = asyncio.ensure_future(take())
        for _ in range(size.quiet_events):
            await accept(pool, tenant.submission())
            await asyncio.sleep(size.quiet_pause)
        await taking
        call.cancel()
    return lags

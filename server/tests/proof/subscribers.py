"""Many subscribers of few accounts: some that read nothing, some that lose their access, and servers that go away."""

import asyncio
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import Stack
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.stream.event_messages import KINDS
from proof.figures import Figures
from proof.lost_access import prove_lost_access
from proof.rolling_restart import prove_rolling_restart
from proof.waiting import until_or_late
from support.builders.tenant import Tenant, a_key, a_tenant
from support.environment.logins import allow_every_login
from support.identity.loopback_issuers import LoopbackIssuers

LOGS = Path("build/proof/subscribers-logs")
# Fewer than a caller may have.
STREAMS_PER_KEY = 16
GROWTH_MB_MAX = 50.0
EVENT_BYTES = 8000
# Both rings of an account are full then, and what is measured is not that.
WARMING_EVENTS = 300
WRITE_SECONDS = 0.5
EVENTS_AT_ONCE = 6
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
# The client asks for more only after it was read, so that little lies between it and the server.
STALLING = (("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0))
WRITE = """
with counted as (
    update account_counters set event_no = event_no + $3 where account_id = $2 returning event_no
)
insert into account_events (organization_id, account_id, event_no, kind, body, occurred_at)
select $1, $2, event_no - $3 + number, 5, $4, clock_timestamp() from counted, generate_series(1, $3) as number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many subscribe, and how many of them read nothing for so long."""

    accounts: int
    streams: int
    stalled: int
    stall_seconds: float
    # Whether that is long enough to be cut.
    cuts: bool


SIZES = {
    "full": Size(accounts=5, streams=200, stalled=20, stall_seconds=60, cuts=True),
    "gate": Size(accounts=2, streams=24, stalled=4, stall_seconds=3, cuts=False),
}


def prove(figures: Figures) -> None:
    shutil.rmtree(LOGS, ignore_errors=True)
    with LocalServices() as services, LoopbackIssuers() as issuers:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        lifted = ("OPENBELL_LIMIT_READS_PER_SECOND", "OPENBELL_CAP_STREAMS", "OPENBELL_CAP_EVENTS_PER_SECOND")
        settings = {"OPENBELL_ISSUERS": issuers.setting, **dict.fromkeys(lifted, "1000000")}
        with Stack(services, settings, LOGS) as stack:
            stack.start("stream")
            stack.start("stream-2", {"OPENBELL_STREAM_PORT": str(free_port())})
            stack.start("relay")
            for name in ("stream", "stream-2", "relay"):
                stack.wait_ready(name)
            asyncio.run(_prove(figures, stack, owner_url))


async def _prove(figures: Figures, stack: Stack, owner_url: str) -> None:
    async with await open_pool(owner_url) as pool:
        await _prove_stalls(figures, stack, pool, SIZES[figures.size])
        await prove_lost_access(figures, stack, pool, owner_url)
        await prove_rolling_restart(figures, stack, pool)
    figures.exactly("processes that ended by themselves", len(stack.watch()), 0)


@dataclass
class Reader:
    """One stream of one account, and the numbers that came on it."""

    tenant: Tenant
    channel: grpc.aio.Channel
    began_at: int = -1
    numbers: list[int] = field(default_factory=list)
    # By number, a hash of everything in an event but the token with which this stream would resume.
    contents: dict[int, int] = field(default_factory=dict)
    # Events that named another before them than the one that came before them.
    unlinked: int = 0
    cut: dict[str, str] | None = None
    reads: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, resume_token: str = "") -> None:
        """Until cancelled or cut; while it may not read it does not."""
        stub: trading_pb2_grpc.TradingServiceAsyncStub = trading_pb2_grpc.TradingServiceStub(self.channel)
        request = pb.Subscribe(
            trading_account_id=str(self.tenant.account.id), subscriptions=list(KINDS), resume_token=resume_token
        )
        call: Any = stub.SubscribeEvents(request, metadata=(("x-api-key", self.tenant.key),))
        last = -1
        try:
            while isinstance(frame := await call.read(), pb.TradingEvent):
                if frame.event_id:
                    self.unlinked += frame.prev_seq != last
                    self.numbers.append(frame.account_seq)
                    self.contents[frame.account_seq] = _content(frame)
                last = frame.account_seq
                if self.began_at < 0:
                    self.began_at = last
                await self.reads.wait()
        except grpc.aio.AioRpcError as error:
            self.cut = {str(name): str(value) for name, value in error.trailing_metadata() or ()}

    def missing(self, head: int) -> int:
        """How many events never came."""
        return len(set(range(self.began_at + 1, head + 1)) - set(self.numbers))

    @property
    def last(self) -> int:
        return self.numbers[-1] if self.numbers else self.began_at

    @property
    def doubled(self) -> int:
        return len(self.numbers) - len(set(self.numbers))


def _content(frame: pb.TradingEvent) -> int:
    same = pb.TradingEvent()
    same.CopyFrom(frame)
    same.ClearField("resume_token")
    return hash(same.SerializeToString(deterministic=True))


def _differing(readers: list[Reader]) -> int:
    """How many events are not the same on all streams of their account."""
    seen: dict[tuple[AccountId, int], set[int]] = defaultdict(set)
    for reader in readers:
        for number, content in reader.contents.items():
            seen[reader.tenant.account.id, number].add(content)
    return sum(len(contents) > 1 for contents in seen.values())


def memory_mb(pid: int) -> tuple[float, float]:
    """What a process has in memory, and its share of it where it is shared."""
    facts = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        facts[name] = int(value.split()[0]) / 1024
    return facts["Rss"], facts["Pss"]


@asynccontextmanager
async def _readers(pool: Pool, address: str, size: Size) -> AsyncIterator[list[Reader]]:
    """All open; the first are those that will stall, over all accounts."""
    tenants = [await a_tenant(pool) for _ in range(size.accounts)]
    keys = [await _keys(pool, tenant, size.streams) for tenant in tenants]
    made = []
    for number in range(size.streams):
        place, turn = number % len(tenants), number // len(tenants)
        options = (*OWN_CONNECTION, *(STALLING if number < size.stalled else ()))
        channel = grpc.aio.insecure_channel(address, options=options)
        tenant = replace(tenants[place], key=keys[place][turn // STREAMS_PER_KEY])
        made.append(Reader(tenant, channel))
    for reader in made:
        reader.reads.set()
    try:
        yield made
    finally:
        for reader in made:
            await reader.channel.close()


async def _keys(pool: Pool, tenant: Tenant, streams: int) -> list[str]:
    count = -(-streams // STREAMS_PER_KEY)
    return [(await a_key(pool, tenant.account.organization_id))[1] for _ in range(count)]


async def _prove_stalls(figures: Figures, stack: Stack, pool: Pool, size: Size) -> None:
    address = f"127.0.0.1:{stack.environment['OPENBELL_STREAM_PORT']}"
    async with _readers(pool, address, size) as readers:
        stalled, others = readers[: size.stalled], readers[size.stalled :]
        following = [asyncio.ensure_future(reader.follow()) for reader in readers]
        await until_or_late(lambda: all(reader.began_at >= 0 for reader in readers))
        opened = sum(reader.began_at >= 0 and not task.done() for reader, task in zip(readers, following, strict=True))
        tenants = [reader.tenant for reader in readers[: size.accounts]]
        for tenant in tenants:
            await write(pool, tenant, WARMING_EVENTS)
        await _until_read(pool, readers)
        for reader in stalled:
            reader.reads.clear()
        written, growth = await _write_while_stalled(pool, tenants, stack.pid("stream"), size.stall_seconds)
        open_before = sum(not task.done() for task in following[size.stalled :])
        for reader in stalled:
            reader.reads.set()
        if size.cuts:
            await until_or_late(lambda: all(reader.cut for reader in stalled))
            cut = [reader.cut or {} for reader in stalled]
            following += [
                asyncio.ensure_future(reader.follow(told.get("openbell-resume-token", "")))
                for reader, told in zip(stalled, cut, strict=True)
            ]
            told = [each for each in cut if each.get("openbell-code") == "slow_consumer"]
            figures.exactly("streams cut because nobody read them", len(told), size.stalled)
            with_token = sum("openbell-resume-token" in each for each in told)
            figures.exactly("streams cut with a token to resume with", with_token, size.stalled)
        heads = await _until_read(pool, readers)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    figures.exactly("streams open at the same time", opened, size.streams)
    figures.exactly("streams that read on and stayed open", open_before, len(others))
    figures.shown("seconds that nothing was read on some", size.stall_seconds)
    figures.shown("MB of events that came up for these meanwhile", round(written * EVENT_BYTES * len(stalled) / 2**20))
    for name, mb in zip(("memory", "share of memory"), growth, strict=True):
        figures.at_most(f"MB by which the server's {name} grew", round(mb, 1), GROWTH_MB_MAX)
    for which, some in (("that stalled", stalled), ("that read on", others)):
        figures.shown(f"streams {which}: events", sum(len(reader.numbers) for reader in some))
        lost = sum(reader.missing(heads[reader.tenant.account.id]) for reader in some)
        figures.exactly(f"streams {which}: events missing", lost, 0)
    figures.exactly("streams that read on: events doubled", sum(reader.doubled for reader in others), 0)
    figures.exactly("events that were not the same on all streams of an account", _differing(readers), 0)
    figures.exactly("events that named a wrong one before them", sum(reader.unlinked for reader in readers), 0)


async def write(pool: Pool, tenant: Tenant, count: int) -> None:
    """Long events at the end of the account's log."""
    body = f'{{"symbol": "AAPL", "cause": "{"x" * EVENT_BYTES}"}}'
    await pool.execute(WRITE, tenant.account.organization_id, tenant.account.id, count, body)


async def _write_while_stalled(
    pool: Pool, tenants: list[Tenant], pid: int, seconds: float
) -> tuple[int, tuple[float, float]]:
    """How many events each account got, and the most by which the server grew meanwhile."""
    loop = asyncio.get_running_loop()
    before, most = memory_mb(pid), [0.0, 0.0]
    written, deadline = 0, loop.time() + seconds
    while loop.time() < deadline:
        for tenant in tenants:
            await write(pool, tenant, EVENTS_AT_ONCE)
        written += EVENTS_AT_ONCE
        most = [max(old, now - was) for old, now, was in zip(most, memory_mb(pid), before, strict=True)]
        await asyncio.sleep(WRITE_SECONDS)
    return written, (most[0], most[1])


async def _until_read(pool: Pool, readers: list[Reader]) -> dict[Any, int]:
    """Wait until all have read all there is, or time is up; the heads."""
    rows = await pool.fetch("select account_id, event_no from account_counters")
    heads: dict[Any, int] = {row["account_id"]: row["event_no"] for row in rows}
    await until_or_late(lambda: all(reader.last >= heads[reader.tenant.account.id] for reader in readers))
    return heads

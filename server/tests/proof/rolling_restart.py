"""Stream servers behind a balancer, replaced one after the other while accounts are written to and followed."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from openbell import AsyncClient
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.devtools.stack import Stack
from proof.figures import Figures
from proof.waiting import until_or_late
from support.builders.tenant import Tenant, a_key, a_tenant, accept
from support.environment.tcp_balancer import TcpBalancer

SIZES = {"full": {"accounts": 5, "followers": 40, "rounds": 3}, "gate": {"accounts": 2, "followers": 8, "rounds": 1}}
SERVERS = ("stream", "stream-2")
# Fewer than a caller may have at a server, where all may meet.
FOLLOWERS_PER_KEY = 10
EVENTS_AT_ONCE = 4
PAUSE_SECONDS = 0.05
# Between one server and the next, for followers to come back.
REST_SECONDS = 1.0


@dataclass
class Follower:
    """What the SDK gave of one account, from its first event on."""

    tenant: Tenant
    key: str
    numbers: list[int] = field(default_factory=list)

    async def follow(self, address: str) -> None:
        account_id = str(self.tenant.account.id)
        async with AsyncClient(api_key=self.key, url="http://127.0.0.1:1", stream_address=address) as client:
            async for event in client.events(account_id=account_id, start="BEGINNING"):
                self.numbers.append(event.account_seq)


async def prove_rolling_restart(figures: Figures, stack: Stack, pool: Pool) -> None:
    size = SIZES[figures.size]
    tenants = [await a_tenant(pool) for _ in range(size["accounts"])]
    followers = await _followers(pool, tenants, size["followers"])
    ports = [stack.environment_of(name)["OPENBELL_STREAM_PORT"] for name in SERVERS]
    async with AsyncExitStack() as opened:
        balancer = await opened.enter_async_context(TcpBalancer([f"127.0.0.1:{port}" for port in ports]))
        tasks = [asyncio.ensure_future(follower.follow(balancer.address)) for follower in followers]
        enough, replaced = asyncio.Event(), 0
        writing = asyncio.ensure_future(_write(pool, tenants, enough))
        await until_or_late(lambda: all(follower.numbers for follower in followers))
        for _ in range(size["rounds"]):
            for name in SERVERS:
                replaced += await _replace(stack, name)
                await asyncio.sleep(REST_SECONDS)
        enough.set()
        written = await writing
        await until_or_late(lambda: all(len(follower.numbers) >= written for follower in followers))
        ended = sum(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    lost = sum(len(set(range(1, written + 1)) - set(follower.numbers)) for follower in followers)
    doubled = sum(len(follower.numbers) - len(set(follower.numbers)) for follower in followers)
    unordered = sum(follower.numbers != sorted(follower.numbers) for follower in followers)
    figures.exactly("stream servers replaced under load", replaced, size["rounds"] * len(SERVERS))
    figures.shown("events given to followers through it", sum(len(follower.numbers) for follower in followers))
    figures.exactly("followers that gave up", ended, 0)
    figures.exactly("events lost by a rolling restart", lost, 0)
    figures.exactly("events doubled by a rolling restart", doubled, 0)
    figures.exactly("followers that were given events out of order", unordered, 0)


async def _followers(pool: Pool, tenants: list[Tenant], count: int) -> list[Follower]:
    made: list[Follower] = []
    for number in range(count):
        tenant, turn = tenants[number % len(tenants)], number // len(tenants)
        if turn % FOLLOWERS_PER_KEY == 0:
            key = (await a_key(pool, tenant.account.organization_id))[1]
        else:
            key = made[number - len(tenants)].key
        made.append(Follower(tenant, key))
    return made


async def _write(pool: Pool, tenants: list[Tenant], enough: asyncio.Event) -> int:
    """Commit to all accounts until it is enough; how many events each has."""
    written = 0
    while not enough.is_set():
        await accept(pool, *(tenant.submission() for tenant in tenants for _ in range(EVENTS_AT_ONCE)))
        written += EVENTS_AT_ONCE
        await asyncio.sleep(PAUSE_SECONDS)
    return written


async def _replace(stack: Stack, name: str) -> bool:
    """Whether another process serves now."""
    before = stack.pid(name)
    # A thread must not start processes, but it may wait for one.
    status = await asyncio.to_thread(stack.stop, name)
    assert status == 0, f"{name} ended with {status}"
    stack.start(name)
    await asyncio.to_thread(stack.wait_ready, name)
    return stack.pid(name) != before

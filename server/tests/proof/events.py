"""Nobody misses an event: streams cut at each one, books primed, many writers, JetStream wiped, events that go."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from openbell import AsyncClient, Market
from openbell.events.subscriptions import Transport
from openbell_server.devtools.local_platform import LocalPlatform
from proof.books import event_heads, until_settled
from proof.event_log import prove_log
from proof.figures import Figures
from proof.load import accounts_of, clients, submit_all
from proof.primed import prove_primed
from proof.waiting import until_none_left
from support.environment.stream_cutter import ReadMessage, StreamCutter, read_chunks, read_http2

SIZES = {
    "full": {"cut_at": 1000, "primed": 300, "intents": 600, "accounts": 10, "clients": 16},
    "gate": {"cut_at": 24, "primed": 6, "intents": 40, "accounts": 4, "clients": 8},
}
FOLLOW_SECONDS = 300
# The word that the subscription stands, and one event.
MESSAGES_PER_CONNECTION = 2
TRANSPORTS: Final[dict[Transport, ReadMessage]] = {"grpc": read_http2, "sse": read_chunks}
POLL_SECONDS = 0.05


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    with tempfile.TemporaryDirectory() as folder, LocalPlatform(Path(folder), accounts=size["accounts"]) as platform:
        asyncio.run(_prove(figures, platform, size))
    prove_log(figures)


@dataclass
class Following:
    """What one follower through the SDK was given, of one account."""

    account_id: str
    began_at: int = 0
    transport: Transport = "grpc"
    numbers: list[int] = field(default_factory=list)

    def is_whole(self, head: int) -> bool:
        """Every event once, in order."""
        return self.numbers == list(range(self.began_at + 1, head + 1))


@asynccontextmanager
async def following(client: AsyncClient, made: list[Following]) -> AsyncIterator[None]:
    """Follow from now on; what ends a follower is raised."""

    async def follow(each: Following) -> None:
        async for event in client.events(account_id=each.account_id, transport=each.transport):
            each.numbers.append(event.account_seq)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow(each)) for each in made]
        yield
        for task in tasks:
            task.cancel()


async def until_whole(platform: LocalPlatform, made: list[Following]) -> int:
    """Wait for events; how many followers have not every event once and in order when no more of them come."""

    async def missing() -> int:
        heads = await event_heads(platform)
        return sum(max(0, heads[UUID(each.account_id)] - each.began_at - len(each.numbers)) for each in made)

    await until_none_left(missing)
    heads = await event_heads(platform)
    return sum(not each.is_whole(heads[UUID(each.account_id)]) for each in made)


async def _prove(figures: Figures, platform: LocalPlatform, size: dict[str, int]) -> None:
    await _cut_everywhere(figures, platform, size["cut_at"])
    await _wiped(figures, platform, size)
    # Last, for it leaves orders open.
    await prove_primed(figures, platform, size["primed"])


async def _cut_everywhere(figures: Figures, platform: LocalPlatform, count: int) -> None:
    """A connection for each event, over each transport: it is cut in the middle of the next."""
    account_id = accounts_of(platform)[0]
    made = [Following(account_id, transport=transport) for transport in TRANSPORTS]
    async with (
        _through_cutter(platform, made[0]) as grpc_cutter,
        _through_cutter(platform, made[1]) as sse_cutter,
        clients(platform, 1) as (direct,),
    ):
        await asyncio.gather(*(_until_subscribed(direct, each) for each in made))
        first, at_once = max(each.began_at for each in made), min(10, count // 8)
        while (await event_heads(platform))[UUID(account_id)] - first < count:
            await asyncio.gather(*(direct.buy("AAPL", Market(1), account_id=account_id) for _ in range(at_once)))
            await until_settled(platform)
        await until_whole(platform, made)
    head = (await event_heads(platform))[UUID(account_id)]
    for each, cutter in zip(made, (grpc_cutter, sse_cutter), strict=True):
        given = each.numbers
        figures.at_least(f"{each.transport}: events followed with a cut inside the next", cutter.cuts, count - 1)
        figures.exactly(f"{each.transport}: events doubled by the SDK", len(given) - len(set(given)), 0)
        broken = int(not each.is_whole(head))
        figures.exactly(f"{each.transport}: logs with an event missing, doubled or out of order", broken, 0)


@asynccontextmanager
async def _through_cutter(platform: LocalPlatform, follower: Following) -> AsyncIterator[StreamCutter]:
    """Follow through a proxy that cuts."""
    environment = platform.client_environment()
    url, stream = environment["OPENBELL_URL"], environment["OPENBELL_STREAM"]
    address = stream if follower.transport == "grpc" else urlsplit(url).netloc
    async with (
        StreamCutter(address, MESSAGES_PER_CONNECTION, TRANSPORTS[follower.transport]) as cutter,
        AsyncClient(
            api_key=environment["OPENBELL_API_KEY"],
            url=f"http://{cutter.address}",
            stream_address=cutter.address,
        ) as through,
        following(through, [follower]),
    ):
        yield cutter


async def _until_subscribed(client: AsyncClient, follower: Following) -> None:
    """A live subscription begins when it stands: the first event it gives says so, and where it began."""
    deadline = asyncio.get_running_loop().time() + FOLLOW_SECONDS
    while not follower.numbers and asyncio.get_running_loop().time() < deadline:
        await client.buy("AAPL", Market(1), account_id=follower.account_id)
        for _ in range(20):
            if not follower.numbers:
                await asyncio.sleep(POLL_SECONDS)
    follower.began_at = follower.numbers[0] - 1


async def _wiped(figures: Figures, platform: LocalPlatform, size: dict[str, int]) -> None:
    """All of JetStream is gone in the middle of the load."""
    made = [Following(account_id) for account_id in accounts_of(platform)]
    nats, half = platform.services.nats, size["intents"] // 2
    async with clients(platform, 2) as (client, other), following(client, made):
        await asyncio.gather(*(_until_subscribed(other, each) for each in made))
        reached = asyncio.Event()
        load = asyncio.ensure_future(submit_all(platform, size["intents"], size["clients"], {half: reached}))
        await reached.wait()
        nats.stop()
        nats.wipe()
        nats.start()
        accepted = await load
        left = await until_settled(platform)
        broken = await until_whole(platform, made)
    figures.shown("events followed while JetStream was wiped", sum(len(each.numbers) for each in made))
    figures.exactly("intents accepted although JetStream was wiped", len(accepted), size["intents"])
    figures.exactly("intents unsettled after JetStream was wiped", left, 0)
    figures.exactly("logs with an event missing, doubled or out of order after it", broken, 0)

"""The whole path on real processes: nothing missing, nothing doubled, no gap, also without NATS."""

import asyncio
import math
import tempfile
from pathlib import Path
from uuid import UUID

from openbell import Market
from openbell_server.devtools.demo.ledgers import FAULTS, Finding, compare
from openbell_server.devtools.local_platform import LocalPlatform
from proof.books import accept_to_fill_millis, event_heads, read_books, until_settled
from proof.figures import Figures
from proof.load import Follower, clients, followers, submit_all, until_followed

SIZES = {
    "full": {"intents": 2000, "accounts": 50, "clients": 64, "without_nats": 500, "seconds_at_rate": 10},
    "gate": {"intents": 150, "accounts": 8, "clients": 16, "without_nats": 60, "seconds_at_rate": 2},
}
RATE = 50
CUT_EVERY = 29


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    with tempfile.TemporaryDirectory() as folder, LocalPlatform(Path(folder), accounts=size["accounts"]) as platform:
        asyncio.run(_prove(figures, platform, size))


async def _prove(figures: Figures, platform: LocalPlatform, size: dict[str, int]) -> None:
    async with followers(platform, CUT_EVERY) as following, clients(platform, 1) as (client,):
        await _latency(figures, platform, size["seconds_at_rate"])
        accepted = await submit_all(platform, size["intents"], size["clients"])
        left = await until_settled(platform)
        figures.exactly("intents terminal", len(accepted) - left, size["intents"])
        comparison = compare(await read_books(platform, client, accepted))
        for fault in FAULTS:
            figures.exactly(f"orders {fault}", len(comparison.findings[fault]), 0)
        figures.exactly("orders unknown", len(comparison.findings[Finding.UNKNOWN]), 0)

        stopped = asyncio.Event()
        without = size["without_nats"]
        load = asyncio.ensure_future(submit_all(platform, without, size["clients"], {without // 2: stopped}))
        await stopped.wait()
        platform.services.nats.stop()
        accepted += await load
        left = await until_settled(platform)
        figures.exactly("intents missing with NATS stopped half-way", left, 0)
        platform.services.nats.start()

        accepted_all = await read_books(platform, client, accepted)
        comparison = compare(accepted_all)
        figures.exactly("orders doubled or lost after all", sum(len(comparison.findings[f]) for f in FAULTS), 0)
        await _events(figures, platform, following)


async def _events(figures: Figures, platform: LocalPlatform, following: list[Follower]) -> None:
    heads: dict[UUID, int] = {}
    # Balances are reported some seconds after the last fill.
    while heads != (heads := await event_heads(platform)):  # ends: nothing is submitted any more
        await until_followed(following, heads)
    expected = {follower.account_id: list(range(1, heads[UUID(follower.account_id)] + 1)) for follower in following}
    wrong = [
        follower
        for follower in following
        if follower.seen != expected[follower.account_id] or follower.faults or follower.breaks
    ]
    figures.shown("events delivered", sum(len(follower.frames) for follower in following))
    figures.shown("streams cut and resumed", sum(follower.cuts for follower in following))
    figures.exactly("accounts with an event missing, doubled or out of order", len(wrong), 0)


async def _latency(figures: Figures, platform: LocalPlatform, seconds: int) -> None:
    accounts = [str(account_id) for account_id in platform.seeded.account_ids]
    loop = asyncio.get_running_loop()
    async with clients(platform, 8) as opened:
        # A database that never saw a statement plans it first; that is a start, not a pace.
        await asyncio.gather(*(opened[0].buy("AAPL", Market(1), account_id=account) for account in accounts))
        await until_settled(platform)
        begun = loop.time()
        posts = []
        for number in range(RATE * seconds):
            # The pace is kept by the clock, not by the answers: a slow answer does not make the load lighter.
            await asyncio.sleep(max(0, begun + number / RATE - loop.time()))
            client, account = opened[number % len(opened)], accounts[number % len(accounts)]
            posts.append(asyncio.ensure_future(client.buy("AAPL", Market(1), account_id=account)))
        intents = [action.intent_id for action in await asyncio.gather(*posts)]
    await until_settled(platform)
    millis = await accept_to_fill_millis(platform, intents)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        figures.shown(f"accept to fill {name} ms at {RATE}/s", round(millis[math.ceil(share * len(millis)) - 1], 1))

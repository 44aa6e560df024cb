"""How fast the accept step and the whole path are here; no bar, since the machine decides as much as the code."""

import asyncio
import tempfile
import time
from pathlib import Path

from openbell import Market
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.devtools.local_platform import LocalPlatform
from proof.books import until_settled
from proof.figures import Figures
from proof.load import clients
from support.builders.tenant import a_tenant, accept

SECONDS = 3.0
WRITERS = 8
CONNECTIONS = 16


def prove(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder, LocalPlatform(Path(folder), accounts=20) as platform:
        asyncio.run(_whole_path(figures, platform))
        # The accept step alone: nobody takes away what it writes.
        platform.stack.stop_all()
        asyncio.run(_accept_step(figures, platform.owner_url))


async def _accept_step(figures: Figures, url: str) -> None:
    async with await open_pool(url, connections_max=WRITERS) as pool:
        for size in (1, 16, 64):
            figures.shown(f"accept step, sets of {size}, commands/s", round(await _accept_rate(pool, size)))


async def _whole_path(figures: Figures, platform: LocalPlatform) -> None:
    accounts = [str(account_id) for account_id in platform.seeded.account_ids]
    deadline = time.monotonic() + SECONDS
    async with clients(platform, CONNECTIONS) as opened:

        async def post(number: int) -> int:
            done = 0
            while time.monotonic() < deadline:
                account = accounts[(number + done) % len(accounts)]
                await opened[number].buy("AAPL", Market(1), account_id=account)
                done += 1
            return done

        posted = sum(await asyncio.gather(*(post(number) for number in range(CONNECTIONS))))
    figures.shown(f"POST, {CONNECTIONS} connections, with the whole stack working, requests/s", round(posted / SECONDS))
    begun = time.monotonic()
    left = await until_settled(platform)
    figures.shown("intents left unfilled", left)
    figures.shown("whole path, fills/s", round(posted / (SECONDS + time.monotonic() - begun)))


async def _accept_rate(pool: Pool, size: int) -> float:
    tenants = [await a_tenant(pool) for _ in range(WRITERS)]
    deadline = time.monotonic() + SECONDS

    async def write(number: int) -> int:
        done = 0
        while time.monotonic() < deadline:
            await accept(pool, *(tenants[number].submission() for _ in range(size)))
            done += size
        return done

    return sum(await asyncio.gather(*(write(number) for number in range(WRITERS)))) / SECONDS

"""Two executors fill bursts of orders of many accounts while one after the other is killed and started again.

Both ledgers must then have each accepted order once, without a deadlock and without a gap in any account's events.
"""

import asyncio
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Final

from openbell_server.devtools.local_platform import LocalPlatform
from proof.books import rows, until_settled
from proof.bursts import offer, plan_of
from proof.cost_platform import started
from proof.figures import Figures
from proof.filled_once import accounts_with_event_gaps, compare_ledgers
from proof.nemesis import Kill, Nemesis
from support.brokers.paper_broker import until

EXECUTORS: Final = ("executor", "executor-2")
SLOTS_SECONDS: Final = 60.0
FILLS_SECONDS: Final = 300.0
# A session adds what it counted to the statistics a second after its last transaction, or when it ends.
STATISTICS_SECONDS: Final = 1.2
_HOLDERS: Final = "select count(*) from openbell.slot_leases where held_until > clock_timestamp() group by holder"
_FILLS: Final = "select count(*) from openbell.executions where organization_id = $1 and recorded_at > $2"
_DEADLOCKS: Final = "select sum(deadlocks)::bigint from pg_stat_database, pg_sleep($1)"
_RESENT: Final = "select count(*), coalesce(sum(resends), 0) from openbell.action_states where resends > 0"


@dataclass(frozen=True, slots=True)
class Size:
    """One executor is killed in each burst, after this share of it is filled."""

    accounts: int
    bursts: int
    intents: int
    killed_after: float = 0.3


SIZES: Final = {
    "full": Size(accounts=400, bursts=10, intents=10_000),
    "gate": Size(accounts=40, bursts=2, intents=300),
}


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder), size.accounts, counts_statements=False) as platform,
    ):
        platform.stack.start(EXECUTORS[1])
        platform.stack.wait_ready(EXECUTORS[1])
        asyncio.run(_prove(figures, platform, size))


async def _prove(figures: Figures, platform: LocalPlatform, size: Size) -> None:
    nemesis = Nemesis(platform, lone_executor=False)
    shares, accepted, left, begun = [], 0, 0, monotonic()
    for number in range(size.bursts):
        shares.append(await _until_both_hold_slots(platform))
        sent, _ = await asyncio.gather(
            offer(plan_of(platform, f"burst-{number}", size.intents)),
            _kill_after(nemesis, EXECUTORS[number % len(EXECUTORS)], round(size.killed_after * size.intents)),
        )
        accepted += sent.accepted
        left = await until_settled(platform)
        print(f"burst {number + 1} of {size.bursts}: {monotonic() - begun:.0f} s, unsettled {left}", flush=True)
    intents = size.bursts * size.intents
    figures.shown("accounts", size.accounts)
    figures.shown("bursts", size.bursts)
    figures.shown("slots of the executor with fewer, before each burst", ", ".join(map(str, shares)))
    for name in EXECUTORS:
        figures.shown(f"{name} killed", nemesis.kills[name])
    figures.exactly("processes that ended by themselves", len(platform.stack.watch()), 0)
    figures.exactly("intents accepted", accepted, intents)
    await _show_ledgers(figures, platform, accepted, left)


async def _until_both_hold_slots(platform: LocalPlatform) -> int:
    """Return how many slots the executor has that holds fewer; raises TimeoutError if one holds none."""
    held: list[int] = []

    async def both_hold() -> bool:
        held[:] = [row["count"] for row in await rows(platform.owner_url, _HOLDERS)]
        return len(held) == len(EXECUTORS)

    await until(both_hold, SLOTS_SECONDS)
    return min(held)


async def _kill_after(nemesis: Nemesis, executor: str, fills: int) -> None:
    """Kill an executor after so many more fills, and start it again."""
    platform = nemesis.platform
    begun = datetime.now(UTC)

    async def are_filled() -> bool:
        ((count,),) = await rows(platform.owner_url, _FILLS, platform.seeded.organization_id, begun)
        return bool(count >= fills)

    await until(are_filled, FILLS_SECONDS)
    await nemesis.kill_all([Kill(executor)], 0)


async def _show_ledgers(figures: Figures, platform: LocalPlatform, accepted: int, left: int) -> None:
    ((deadlocks,),) = await rows(platform.owner_url, _DEADLOCKS, STATISTICS_SECONDS)
    figures.exactly("deadlocks", int(deadlocks), 0)
    ((orders, resends),) = await rows(platform.owner_url, _RESENT)
    figures.shown("orders sent again after proof that they never arrived", f"{orders}, {resends} times")
    figures.exactly("orders and actions unsettled in the end", left, 0)
    comparison = await compare_ledgers(platform)
    figures.exactly("orders doubled", comparison.doubled, 0)
    figures.exactly("accepted intents not filled exactly once in both ledgers", accepted - comparison.filled_once, 0)
    figures.exactly("accounts with a gap in their events", await accounts_with_event_gaps(platform), 0)

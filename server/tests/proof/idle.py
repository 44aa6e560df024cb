"""What a platform without work uses after 100 orders, and after 100,000 in as many accounts.

Two platforms run at the same time and are measured by the CPU clocks of their own processes in the same minutes, so
that whatever else the machine does meets both.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Final

import asyncpg

from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.stack import PROCESSES
from proof.books import rows, until_settled
from proof.bursts import offer, plan_of
from proof.cost_platform import CostPlatform, Idle, metered, started
from proof.figures import Figures
from proof.filled_once import paper_ledger
from proof.past_orders import write_past_orders

ACCOUNTS: Final = 20
YOUNG_ORDERS: Final = 100
BURST: Final = 5000
RATIO_MAX: Final = 1.1
MILLIS_MAX: Final = 40
# What follows the last fill, such as its reconciliation.
SETTLE_SECONDS: Final = 15
# A reconciliation lists the orders of the last minutes, one after a connect those of the last day. Only the age of the
# history shall matter.
_MAKE_OLD: Final = (
    "update orders set accepted_at = accepted_at - interval '2 days' where accepted_at > now() - interval '1 day'"
)


@dataclass(frozen=True, slots=True)
class Size:
    """The orders of the old platform."""

    # As rows: what an executor that was started later has never seen.
    written: int
    # Through the platform: as many as an executor keeps in memory.
    filled: int
    windows: int
    # Every account is reconciled once a minute.
    seconds: float


SIZES: Final = {
    "full": Size(written=50_000, filled=50_000, windows=5, seconds=60),
    "gate": Size(written=2_000, filled=1_000, windows=1, seconds=10),
}


def prove(figures: Figures) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder) / "young", ACCOUNTS) as young,
        started(Path(folder) / "old", ACCOUNTS) as old,
    ):
        asyncio.run(_prove(figures, young, old, SIZES[figures.size]))


async def _prove(figures: Figures, young: LocalPlatform, old: LocalPlatform, size: Size) -> None:
    begun = monotonic()
    await _write_history(old, size.written)
    await _fill(young, YOUNG_ORDERS, "young")
    for filled in range(0, size.filled, BURST):
        await _fill(old, min(BURST, size.filled - filled), f"old-{filled}")
        print(f"burst of old orders from {filled}: {monotonic() - begun:.0f} s", flush=True)
    for platform in (young, old):
        await _make_old(platform)
    await asyncio.sleep(SETTLE_SECONDS)
    async with metered(young) as first, metered(old) as second:
        windows = [await _windows((first, second), size.seconds) for _ in range(size.windows)]
    for name, platform in (("young", young), ("old", old)):
        ((orders,),) = await rows(platform.owner_url, "select count(*) from openbell.orders where standing = 'CLOSED'")
        figures.shown(f"{name}: past orders", orders)
    _show(figures, windows)


async def _write_history(platform: LocalPlatform, orders: int) -> None:
    """Orders of a month in both ledgers, written while nothing runs that has them in memory."""
    stack = platform.stack
    for process in reversed(PROCESSES):
        stack.stop(process)
    await write_past_orders(platform, orders // ACCOUNTS)
    for process in PROCESSES:
        stack.start(process)
    for process in PROCESSES:
        stack.wait_ready(process)


async def _fill(platform: LocalPlatform, orders: int, mark: str) -> None:
    """A burst of orders, until all are filled."""
    sent = await offer(plan_of(platform, mark, orders))
    left = await until_settled(platform)
    assert (sent.accepted, left) == (orders, 0), f"{left} of {sent.accepted} orders are left: {sent.refusals}"


async def _make_old(platform: LocalPlatform) -> None:
    """All orders are of the day before yesterday at the broker, and the tables as autovacuum leaves them."""
    broker = await asyncpg.connect(paper_ledger(platform), timeout=60)
    try:
        await broker.execute(_MAKE_OLD, timeout=300)
    finally:
        await broker.close(timeout=60)
    for url in (platform.owner_url, paper_ledger(platform)):
        await rows(url, "vacuum analyze")


async def _windows(costs: Sequence[CostPlatform], seconds: float) -> tuple[Idle, Idle]:
    """Both platforms in the same time."""
    young, old = await asyncio.gather(*(cost.idle(seconds) for cost in costs))
    print(f"idle: {young.total_millis:.1f} ms/s young, {old.total_millis:.1f} ms/s old", flush=True)
    return young, old


def _show(figures: Figures, windows: list[tuple[Idle, Idle]]) -> None:
    for label in sorted({label for pair in windows for idle in pair for label in idle.cpu_millis}):
        young, old = (median(pair[place].cpu_millis.get(label, 0.0) for pair in windows) for place in (0, 1))
        if max(young, old) >= 0.1:
            figures.shown(f"CPU of {label}, ms/s: young, old", f"{young:.2f}, {old:.2f}")
    young, old = (median(pair[place].total_millis for pair in windows) for place in (0, 1))
    figures.shown("young: CPU, ms/s", round(young, 1))
    figures.at_most("old: CPU, ms/s", round(old, 1), MILLIS_MAX)
    ratio = round(median(after.total_millis / before.total_millis for before, after in windows), 3)
    figures.at_most(f"CPU, old / young, median of {len(windows)} windows", ratio, RATIO_MAX)

"""Cancel all orders, and close a position, while executors are killed and the broker misbehaves; its ledger decides."""

import asyncio
import shutil
from pathlib import Path

from openbell_server.devtools.local_platform import LocalPlatform
from proof.desk_commands import SIZES, at_stage, cancel_all_under_faults, close_under_faults
from proof.figures import Figures

LOGS = Path("build/proof/desk-logs")


def prove(figures: Figures) -> None:
    # Kept after the run, so that a finding can be traced.
    shutil.rmtree(LOGS, ignore_errors=True)
    with LocalPlatform(LOGS, accounts=2) as platform:
        asyncio.run(_prove(figures, platform))


async def _prove(figures: Figures, platform: LocalPlatform) -> None:
    size = SIZES[figures.size]
    async with at_stage(platform) as stage:
        await cancel_all_under_faults(figures, stage, size)
        await close_under_faults(figures, stage, size)
    figures.exactly("processes that ended by themselves", len(platform.stack.watch()), 0)

"""Offers intents to a started platform from a process of its own."""

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Final

from openbell_server.devtools.local_platform import LocalPlatform
from proof import cost_load
from proof.cost_load import Plan, Sent

LOAD_SECONDS_MAX: Final = 600


def plan_of(platform: LocalPlatform, mark: str, intents: int) -> Plan:
    """Market orders for all accounts in turn; the mark begins their idempotency keys."""
    environment = platform.client_environment()
    return Plan(
        port=int(environment["OPENBELL_URL"].rpartition(":")[2]),
        api_key=environment["OPENBELL_API_KEY"],
        mark=mark,
        accounts=[str(account) for account in platform.seeded.account_ids],
        intents=intents,
    )


async def offer(plan: Plan) -> Sent:
    """Return when each request is answered."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", cost_load.__name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(LOAD_SECONDS_MAX):
        reported, _ = await process.communicate(json.dumps(asdict(plan)).encode())
    assert process.returncode == 0, "the load generator failed"
    return Sent(**json.loads(reported))

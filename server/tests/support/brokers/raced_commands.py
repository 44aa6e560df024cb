"""Commands that race a switch: callers submit and executors work while something is switched off and on."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool, open_pool
from support.brokers.scripted_broker import Harness, until_so
from support.builders.tenant import Tenant
from support.rest.rest_api import RestApi, create_body, rest_api

CALLERS = 4
WAITING = "select count(*) from action_states where account_id = $1 and state = 'QUEUED'"
SLIPPED = """
with changes as (
    select occurred_at, (after::jsonb ->> $2)::boolean as disabled,
        lead(occurred_at, 1, 'infinity') over (order by occurred_at) as next_at
    from audit_log where operation = $1
)
select count(*) filter (where s.queued_at > c.occurred_at and s.queued_at < c.next_at) as accepted,
    count(*) filter (where s.send_started_at > c.occurred_at and s.send_started_at < c.next_at) as opened
from action_states s join changes c on c.disabled
"""


@dataclass(frozen=True, slots=True)
class Raced:
    """What callers were answered, what became of their commands, and how many were written to the broker."""

    answers: Counter[int]
    states: Counter[tuple[str, str | None]]
    writes: int


def _has_total(answers: Counter[int], enough: int) -> bool:
    return answers.total() >= enough


async def race(
    pool: Pool, database: str, tenant: Tenant, switch: Callable[[RestApi, bool], Awaitable[None]], times: int
) -> Raced:
    """Switch off and on, each time until some more commands were answered, then work off what waits."""
    answers, is_over = Counter[int](), asyncio.Event()
    wide = await open_pool(database, connections_max=10)
    harnesses = [Harness(wide, tenant), Harness(wide, tenant)]

    async def toggle() -> None:
        for turn in range(times):
            await switch(api, turn % 2 == 0)
            await until_so(partial(_has_total, answers, answers.total() + 5))
        is_over.set()

    async def submit() -> None:
        while not is_over.is_set():
            answers[(await api.submit(tenant, create_body())).status_code] += 1

    async def work(harness: Harness) -> None:
        while not is_over.is_set() or await pool.fetchval(WAITING, tenant.account.id):
            # An executor that got no lock or no answer in time looks again.
            with contextlib.suppress(*UNAVAILABLE):
                if not await harness.work(free=4):
                    await asyncio.sleep(0.005)

    async with rest_api(wide) as api:
        await asyncio.gather(toggle(), *(submit() for _ in range(CALLERS)), *(work(harness) for harness in harnesses))
        states = Counter((state, reason) for _, state, reason in await harnesses[0].states())
    await wide.close()
    return Raced(answers, states, sum(len(harness.broker.writes) for harness in harnesses))


async def slipped(pool: Pool, operation: str, disabled: str) -> dict[str, int]:
    """Commands accepted and doors opened while it was off: changes, accepts and doors read the clock under one lock."""
    row = await pool.fetchrow(SLIPPED, operation, disabled)
    assert row is not None
    return dict(row)

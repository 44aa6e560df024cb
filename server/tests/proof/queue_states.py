"""Random states of the accounts' queue, reached by what the engine and operators do, each against plain SQL."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.events.outbox import PostgresOutboxStore
from openbell_server.adapters.postgres.operators.outbox_operators import PostgresOutboxOperators
from openbell_server.domain.events.outbox import ClaimedRow, Queue
from proof.figures import Figures
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_service
from support.rest.rest_api import RestApi

HEALTH = "/v1/accounts/outbox/health"
TYPES = tuple(f"{what}.{done}" for what in ("account", "credential") for done in ("created", "updated", "deleted"))
# Few, so that many rows come to the end of their tries.
ATTEMPTS_MAX = 2
OPERATIONS_PER_STATE = 4
# Written without the tables that the report reads.
_ENTRIES = """
select status, event_type, count(*) as count, min(created_at) as oldest_created_at, max(attempts) as max_attempts,
    min(claimed_at) as oldest_claimed_at
from account_outbox group by status, event_type
"""
_TOTALS = """
select count(*) filter (where status = 'pending') as pending,
    count(*) filter (where status = 'processing') as processing,
    count(*) filter (where status = 'failed') as failed, count(*) filter (where status = 'completed') as completed,
    min(claimed_at) as oldest_claim_at, min(created_at) filter (where status = 'failed') as oldest_failed_at,
    min(created_at) filter (where status = 'pending') as oldest_pending_at
from account_outbox
"""
_ADD = """
insert into account_outbox (organization_id, account_id, event_type, payload, available_at, created_at)
values ($1, $2, $3, '{}', clock_timestamp(), clock_timestamp() - make_interval(secs => $4))
"""


@dataclass
class _Machine:
    """Does one random thing after another, as relays, tenants and operators do."""

    owner: Pool
    login: Pool
    tenants: list[Tenant]
    chance: random.Random
    held: list[ClaimedRow] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    @property
    def store(self) -> PostgresOutboxStore:
        return PostgresOutboxStore(self.owner, Queue.ACCOUNTS, ATTEMPTS_MAX)

    @property
    def operators(self) -> PostgresOutboxOperators:
        return PostgresOutboxOperators(self.owner, "proof")

    async def step(self) -> None:
        doing: list[tuple[int, str, Callable[[], Awaitable[int]]]] = [
            (6, "rows queued", self._enqueue),
            (6, "rows claimed", self._claim),
            (4, "rows completed", self._complete),
            (4, "rows released, or failed finally", self._release),
            (3, "rows aged", self._run_out),
            (1, "buckets of ids begun", self._begin_bucket),
            (3, "rows pruned", self._prune),
            (1, "rows acknowledged", self._acknowledge),
            (1, "rows requeued", self._requeue),
        ]
        ((_, name, act),) = self.chance.choices(doing, [weight for weight, _, _ in doing])
        self.done[name] += await act()

    async def _enqueue(self) -> int:
        account = self.chance.choice(self.tenants).account
        rows = [
            (account.organization_id, account.id, self.chance.choice(TYPES), self.chance.uniform(0, 1e6))
            for _ in range(self.chance.randint(1, 12))
        ]
        async with transaction(self.login, Role.TENANT, account.organization_id) as connection:
            await connection.executemany(_ADD, rows)
        return len(rows)

    async def _begin_bucket(self) -> int:
        """As if many rows had come meanwhile: those that are queued next are counted and removed apart."""
        await self.owner.execute(
            "select setval(pg_get_serial_sequence('account_outbox', 'outbox_id'), 16384 * $1)",
            self.done["buckets of ids begun"] + 1,
        )
        return 1

    async def _claim(self) -> int:
        claimed = await self.store.claim_across_organizations(self.chance.randint(1, 20))
        self.held += claimed
        return len(claimed)

    def _some(self) -> list[ClaimedRow]:
        """Of those in our hands, also some whose claim was taken back since."""
        some = self.chance.sample(self.held, self.chance.randint(0, len(self.held)))
        self.held = [row for row in self.held if row not in some]
        return some

    async def _complete(self) -> int:
        return await self.store.complete_across_organizations(self._some())

    async def _release(self) -> int:
        rows = self._some()
        await self.store.release_across_organizations(rows, [self.chance.choice((0.0, 0.0, 900.0)) for _ in rows])
        return len(rows)

    async def _run_out(self) -> int:
        """As if time had passed: claims are older than they may be, and what waited for its next try is due."""
        aged = await self.owner.execute(
            "update account_outbox set claimed_at = claimed_at - interval '6 seconds',"
            " available_at = available_at - interval '15 minutes' where resolved_at is null"
        )
        return int(aged.split()[-1])

    async def _prune(self) -> int:
        return await self.store.prune_across_organizations(0.0)

    async def _a_failed_row(self) -> int | None:
        """One that nobody has requeued."""
        found = await self.owner.fetch(
            "select outbox_id from outbox_failures where requeued_as is null order by outbox_id"
        )
        return int(self.chance.choice(found)["outbox_id"]) if found else None

    async def _acknowledge(self) -> int:
        row = await self._a_failed_row()
        if row is not None:
            await self.operators.handle(Queue.ACCOUNTS, row, "seen", requeue=False)
        return row is not None

    async def _requeue(self) -> int:
        row = await self._a_failed_row()
        if row is not None:
            await self.operators.handle(Queue.ACCOUNTS, row, "again", requeue=True)
        return row is not None


async def compare_states(
    figures: Figures, owner: Pool, login: Pool, api: RestApi, chance: random.Random, states: int
) -> None:
    """Every field of the report against the same counted from the rows themselves."""
    machine = _Machine(owner, login, [await a_tenant(owner) for _ in range(3)], chance)
    fields = mismatches = 0
    seen: Counter[str] = Counter()
    for _ in range(states):
        for _ in range(chance.randint(1, OPERATIONS_PER_STATE)):
            await machine.step()
        answer = await api.client.get(HEALTH, headers=as_service("credential:read"))
        assert answer.status_code == 200, answer.text
        told, so = _facts(answer.json()), await _counted(owner)
        fields += len(so)
        mismatches += sum(told.get(name) != so.get(name) for name in told.keys() | so.keys())
        seen.update(status for status in ("pending", "processing", "failed", "completed") if so[f"{status}"])
    figures.exactly("states compared", states, states)
    for name, rows in sorted(machine.done.items()):
        if figures.size == "full":
            figures.at_least(f"{name}, in all", rows, 1)
        else:
            # So few states need not meet all of it.
            figures.shown(f"{name}, in all", rows)
    figures.shown("states with rows of each status, at least", min(seen.values()))
    figures.shown("fields compared", fields)
    figures.exactly("fields that differ from an independent count", mismatches, 0)


def _facts(body: dict[str, Any]) -> dict[str, object]:
    """Every field by its name; those of an entry by its status and type too."""
    facts: dict[str, object] = {}
    for entry in body["entries"]:
        key = f"{entry['status']} {entry['event_type']}"
        assert f"{key} count" not in facts, "one entry for each status and type"
        facts |= {f"{key} {name}": _plain(value) for name, value in entry.items()}
    return facts | {name: _plain(value) for name, value in body.items() if name != "entries"}


async def _counted(owner: Pool) -> dict[str, object]:
    async with owner.acquire() as connection, connection.transaction(isolation="repeatable_read"):
        entries: list[asyncpg.Record] = await connection.fetch(_ENTRIES)
        totals = await connection.fetchrow(_TOTALS)
    assert totals is not None
    facts = {
        f"{entry['status']} {entry['event_type']} {name}": value for entry in entries for name, value in entry.items()
    }
    return facts | dict(totals)


def _plain(value: object) -> object:
    if isinstance(value, str) and value[:4].isdigit():
        return datetime.fromisoformat(value)
    return value

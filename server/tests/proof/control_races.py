"""Changes of controls at every scope race submits and doors: nothing passes by rules that are not there any more."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from openbell_server.adapters.postgres.connection import BLOCKED, Pool, open_pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import PLATFORM_ID, SWITCH, Address, RuleTerms
from openbell_server.domain.controls.symbol_controls import ManualControl
from openbell_server.domain.identifiers import Symbol
from proof.figures import Figures
from support.brokers.raced_commands import race
from support.builders.tenant import Tenant, a_tenant
from support.rest.rest_api import RestApi

TRIES_MAX = 20
COMMITS = {"full": 5_000, "gate": 32}
AAPL = Symbol("AAPL")
# A kind of rule, what lets nothing pass, and what lets everything pass; the last is judged under the account's lock.
RULES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "QTY_MAX": ("QTY_MAX", {"quantity": "0.5"}, {"quantity": "1000"}),
    "HALTED": (SWITCH, {"status": "HALTED"}, {"status": "ACTIVE"}),
    "REDUCE_ONLY": (SWITCH, {"status": "REDUCE_ONLY"}, {"status": "ACTIVE"}),
}
WAYS = ("manual", *(f"{rule} {scope}" for rule in RULES for scope in Scope))
# The clock is the database's: read after a change was committed, and before the next was asked for.
SLIPPED = """
select count(*) filter (where s.queued_at >= t.shut_at and s.queued_at < t.until) as accepted,
    count(*) filter (where s.send_started_at >= t.shut_at and s.send_started_at < t.until) as opened
from action_states s join unnest($2::timestamptz[], $3::timestamptz[]) t (shut_at, until) on true
where s.account_id = $1
"""
PASSED_BY = """
select count(*) from receipts r
join unnest($2::bigint[], $3::bigint[]) t (organization_epoch, account_epoch)
    on t.organization_epoch = (r.body::jsonb ->> 'organization_epoch')::bigint
    and t.account_epoch = (r.body::jsonb ->> 'account_epoch')::bigint
where r.account_id = $1 and r.verdict = 'PASSED'
"""
EPOCHS = """
select o.control_epoch, c.control_epoch from openbell.account_counters c
join openbell.organizations o using (organization_id) where c.account_id = $1
"""


@dataclass(slots=True)
class Watched:
    """When nothing could pass, and at which epochs."""

    pool: Pool
    change: Callable[[bool], Awaitable[None]]
    tenant: Tenant
    shut: list[tuple[datetime, datetime]] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    _shut_at: datetime | None = None

    async def switch(self, _: RestApi, is_off: bool) -> None:
        if self._shut_at is not None:
            self.shut.append((self._shut_at, await self._now()))
            self._shut_at = None
        await self._change(is_off)
        if is_off:
            self._shut_at = await self._now()
            row = await self.pool.fetchrow(EPOCHS, self.tenant.account.id)
            assert row is not None
            self.epochs.append((row[0], row[1]))

    async def _change(self, is_off: bool) -> None:
        """Again where others had the lock for longer than one waits, as its caller is told to."""
        for _ in range(TRIES_MAX):
            with contextlib.suppress(*BLOCKED):
                return await self.change(is_off)
        return await self.change(is_off)

    async def _now(self) -> datetime:
        now: datetime = await self.pool.fetchval("select clock_timestamp()")
        return now


def measure(figures: Figures, database: str) -> None:
    asyncio.run(_race_all(figures, database))


async def _race_all(figures: Figures, database: str) -> None:
    each = -(-COMMITS[figures.size] // len(WAYS) // 2) * 2
    commits, answered, refused, accepted, opened, by_old_rules, worked = 0, 0, 0, 0, 0, 0, 0
    async with await open_pool(database) as pool:
        for way in WAYS:
            tenant = await a_tenant(pool)
            watched = Watched(pool, _change(pool, tenant, way), tenant)
            raced = await race(pool, database, tenant, watched.switch, each)
            commits += each
            answered += raced.answers[202]
            refused += raced.answers[422]
            worked += raced.writes
            account_id = tenant.account.id
            starts, ends = [start for start, _ in watched.shut], [end for _, end in watched.shut]
            row = await pool.fetchrow(SLIPPED, account_id, starts, ends)
            assert row is not None
            accepted += row["accepted"]
            opened += row["opened"]
            epochs = [organization for organization, _ in watched.epochs], [account for _, account in watched.epochs]
            by_old_rules += await pool.fetchval(PASSED_BY, account_id, *epochs)
    figures.at_least("control commits that raced submits and doors", commits, COMMITS[figures.size])
    figures.shown("ways to change a control", len(WAYS))
    figures.at_least("commands accepted in races", answered, 1)
    figures.at_least("commands refused in races", refused, 1)
    figures.at_least("commands written to the broker in races", worked, 1)
    figures.exactly("commands accepted after a commit that refuses them", accepted, 0)
    figures.exactly("doors opened after a commit that refuses them", opened, 0)
    figures.exactly("commands passed by the rules of epochs that refuse them", by_old_rules, 0)


def _change(pool: Pool, tenant: Tenant, way: str) -> Callable[[bool], Awaitable[None]]:
    account, principal = tenant.account, tenant.principal
    if way == "manual":

        async def set_manual(is_off: bool) -> None:
            control = ManualControl(manually_disabled=is_off)
            await PostgresControlStore(pool).set_manual(account.organization_id, account.id, AAPL, control, principal)

        return set_manual
    rule, _, scope = way.partition(" ")
    code, shut, opened = RULES[rule]
    address = Address(
        organization_id=PLATFORM_ID if scope == Scope.PLATFORM else account.organization_id,
        scope=Scope(scope),
        account_id=account.id if scope in {Scope.ACCOUNT, Scope.SYMBOL} else None,
        symbol=AAPL if scope == Scope.SYMBOL else None,
        api_key_id=principal.id if scope == Scope.KEY else None,
    )

    async def set_rule(is_off: bool) -> None:
        terms = RuleTerms(parameters=shut if is_off else opened)
        await PostgresRuleStore(pool).save_rule(address, code, terms, None, principal, None)

    return set_rule

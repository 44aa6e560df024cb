"""Whether an altered audit log is found out: every entry changed, removed, inserted and swapped once."""

import asyncio
from collections import Counter

import asyncpg

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.access.audit_chain import Tampering, Verification
from proof.figures import Figures
from support.builders.tenant import a_tenant
from support.environment.logins import API_LOGIN, allow_every_login
from support.tenancy.altered_audit_logs import (
    alterations,
    an_audit_log,
    append_some,
    verified_after,
    verify,
    without_tail,
)
from support.tenancy.statements import Owner

ENTRIES = {"full": 200, "gate": 20}
APPENDS = {"full": 500, "gate": 25}
CALLERS = 8


def prove(figures: Figures) -> None:
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        asyncio.run(_prove(figures, owner_url, services.postgres.url("openbell", API_LOGIN)))


async def _prove(figures: Figures, owner_url: str, login_url: str) -> None:
    owner = await asyncpg.connect(owner_url, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})
    try:
        async with await open_pool(owner_url) as operator_pool, await open_pool(login_url) as pool:
            await _alter(figures, owner, operator_pool)
            await _append(figures, owner, operator_pool, pool)
    finally:
        await owner.close()


async def _alter(figures: Figures, owner: Owner, pool: Pool) -> None:
    tenant = await an_audit_log(pool, ENTRIES[figures.size])
    intact = await verify(owner, Verification())
    figures.exactly("flaws in a log that nobody altered", intact.found, 0)
    last = intact.entries
    figures.shown("entries", last)
    figures.shown("kinds of entries", await owner.fetchval("select count(distinct operation) from audit_log"))
    tried: Counter[Tampering] = Counter()
    missed: Counter[Tampering] = Counter()
    for each in alterations(tenant, last):
        tried[each.tampering] += 1
        if (await verified_after(owner, each.statements)).holds:
            missed[each.tampering] += 1
            print(each, flush=True)
    for tampering in (Tampering.CHANGED, Tampering.REMOVED, Tampering.INSERTED, Tampering.SWAPPED):
        figures.shown(f"times an entry was {tampering}", tried[tampering])
    figures.exactly("audit rows changed, removed, inserted, swapped: not found", missed.total(), 0)
    unfound = unexpected = 0
    for number in range(1, last):
        removed = without_tail(tenant, number)
        unfound += (await verified_after(owner, removed, Verification(intact.heads))).holds
        unexpected += not (await verified_after(owner, removed)).holds
    figures.exactly("tails removed together with their head: not found with a head exported before", unfound, 0)
    # Nothing in the database can show it: that is why heads are exported.
    figures.shown("tails removed together with their head: found without a head exported before", unexpected)


async def _append(figures: Figures, owner: Owner, operator_pool: Pool, pool: Pool) -> None:
    tenants = [await a_tenant(operator_pool) for _ in range(2)]
    appends = APPENDS[figures.size]
    await asyncio.gather(*(append_some(pool, tenant, appends) for tenant in tenants for _ in range(CALLERS)))
    result = await verify(owner, Verification())
    figures.exactly("flaws after callers appended at the same time", result.found, 0)
    numbers = [result.heads[str(tenant.account.organization_id)].number for tenant in tenants]
    figures.exactly("entries of theirs that are missing", 2 * CALLERS * appends - sum(numbers), 0)
    others = "select count(*) from audit_log where organization_id = any($1) and login <> $2"
    ids = [tenant.account.organization_id for tenant in tenants]
    figures.exactly("entries of theirs with another login", await owner.fetchval(others, ids, API_LOGIN), 0)

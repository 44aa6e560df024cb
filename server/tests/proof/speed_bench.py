"""One PostgreSQL for the product and for the bare engines, with the platform's schema and thousands of accounts."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from uuid import UUID

from openbell_server.adapters.postgres.connection import (
    ACCEPT_POOL_SETTINGS,
    BLOCKED,
    DOUBTFUL,
    Pool,
    Role,
    open_pool,
    open_role_pool,
)
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore, accept_in_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.application.intents.group_commit import BATCH_SLOTS, GroupCommit
from openbell_server.application.ports.accept_step import Acceptance, Submission
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import Stack
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import PERMISSIONS, Principal, PrincipalKind
from openbell_server.domain.identifiers import AccountId, OrganizationId, slot_of
from proof.engines import Engines, create_floor
from support.builders.tenant import Tenant, a_tenant, a_trading_account
from support.environment.logins import allow_every_login

ACCOUNTS = 5_000
# Accounts are numbered, so that pgbench can name one.
ACCOUNT_PREFIX = "01900000-0000-7000-8000-"
# As a server for this work is set; vacuum in the midst of a measurement would be measured.
OPTIONS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "autovacuum": "off", "checkpoint_timeout": "30min"}
_NO_LIMIT = {
    "OPENBELL_LIMIT_SUBMITS_PER_SECOND": "1000000",
    "OPENBELL_LIMIT_CANCELS_PER_SECOND": "1000000",
    # All load comes from one address.
    "OPENBELL_TRUSTED_PROXIES": '["127.0.0.1/32"]',
}


@dataclass(frozen=True)
class SpeedBench:
    """What is measured, and what it is measured against."""

    services: LocalServices
    stack: Stack
    engines: Engines
    tenant: Tenant
    folder: Path

    @property
    def url(self) -> str:
        """The platform's database for one who may see all of it."""
        return self.services.postgres.url("openbell")

    @property
    def accounts(self) -> list[str]:
        return [str(account_id(number)) for number in range(1, ACCOUNTS + 1)]

    def same(self, seconds: float) -> float:
        organization = str(self.tenant.account.organization_id)
        receipt = self.tenant.submission().receipt.text
        return self.engines.same(seconds, ACCOUNTS, organization, ACCOUNT_PREFIX, receipt)

    @contextlib.contextmanager
    def serving(self, processes: int) -> Iterator[list[str]]:
        """As many api processes as said, and nothing else of the platform; where they serve."""
        names = [f"api-{number}" for number in range(1, processes + 1)]
        ports = [str(free_port()) for _ in names]
        try:
            for name, port in zip(names, ports, strict=True):
                self.stack.start(name, {"OPENBELL_API_PORT": port})
                self.stack.wait_ready(name)
            yield [f"http://127.0.0.1:{port}" for port in ports]
        finally:
            for name in names:
                self.stack.stop(name)

    def tenant_facts(self) -> dict[str, str]:
        """Who submits, for another process."""
        account, principal = self.tenant.account, self.tenant.principal
        return {"account": str(account.id), "organization": str(account.organization_id), "principal": principal.id}

    def postgres_cpu_seconds(self) -> float:
        """What the server and its children have used so far."""
        postmaster = self.services.postgres.pid
        ticks = 0
        for process in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = process.read_text().rpartition(")")[2].split()
                if int(process.parent.name) == postmaster or int(fields[1]) == postmaster:
                    # Its own time, and that of children that have ended, which is the postmaster's.
                    ticks += sum(map(int, fields[11 : 15 if int(process.parent.name) == postmaster else 13]))
        return ticks / os.sysconf("SC_CLK_TCK")


def account_id(number: int) -> AccountId:
    return AccountId(UUID(f"{ACCOUNT_PREFIX}{number:012x}"))


@contextlib.asynccontextmanager
async def accepting(url: str) -> AsyncIterator[tuple[GroupCommit, Callable[[], int]]]:
    """The accept step as a process of the platform has it, and how many commands it tried again alone."""
    again = 0
    async with (
        await open_pool(url) as pool,
        await open_role_pool(url, Role.ACCEPT, BATCH_SLOTS, ACCEPT_POOL_SETTINGS) as accept_pool,
    ):

        async def alone(submissions: Sequence[Submission]) -> list[Acceptance]:
            nonlocal again
            again += len(submissions)
            return await PostgresIntentStore(pool).accept_across_organizations(submissions)

        yield GroupCommit(partial(accept_in_pool, accept_pool), alone, DOUBTFUL, BLOCKED, monotonic), lambda: again


def remembered_tenant(facts: Mapping[str, str]) -> Tenant:
    """Who submits, as another process has told."""
    organization = OrganizationId(UUID(facts["organization"]))
    principal = Principal(
        kind=PrincipalKind.API_KEY,
        id=facts["principal"],
        organization_id=organization,
        environment=Environment.PAPER,
        permissions=PERMISSIONS,
    )
    return Tenant(a_trading_account(AccountId(UUID(facts["account"])), organization), principal, "")


@contextlib.contextmanager
def speed_bench(options: Mapping[str, str] | None = None) -> Iterator[SpeedBench]:
    with tempfile.TemporaryDirectory() as folder, LocalServices({**OPTIONS, **(options or {})}) as services:
        create_databases(services.postgres.url())
        url = services.postgres.url("openbell")
        migrate(url)
        allow_every_login(url)
        asyncio.run(create_floor(services.postgres))
        tenant = asyncio.run(_seed(url))
        with Stack(services, _NO_LIMIT, Path(folder)) as stack:
            yield SpeedBench(services, stack, Engines(services.postgres, Path(folder)), tenant, Path(folder))


async def _seed(url: str) -> Tenant:
    async with await open_pool(url) as pool:
        tenant = await a_tenant(pool)
        await _open_accounts(pool, tenant)
        return tenant


async def _open_accounts(pool: Pool, tenant: Tenant) -> None:
    opened = [account_id(number) for number in range(1, ACCOUNTS + 1)]
    rows = (tenant.account.organization_id, opened, [slot_of(each) for each in opened])
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(
            """insert into accounts (organization_id, account_id, name, broker, environment, slot)
            select $1, t.account_id, 'Fast', 'paper', 'paper', t.slot
            from unnest($2::uuid[], $3::smallint[]) t (account_id, slot)""",
            *rows,
        )
        await connection.execute(
            """insert into account_counters (organization_id, account_id, slot)
            select $1, t.account_id, t.slot from unnest($2::uuid[], $3::smallint[]) t (account_id, slot)""",
            *rows,
        )
        # Not the tables that are empty: a plan that knows them to be is no plan for what comes.
        await connection.execute("analyze accounts, account_counters")

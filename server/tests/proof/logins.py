"""As the login of each process: the statements of the others, and what somebody would try who has taken it over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from openbell_server.adapters.postgres.connection import LOGIN_ROLES, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import LOGINS
from proof.abuses import ABUSES, AGED, Abuse, documented_powers
from proof.figures import Figures
from support.environment.logins import TEST_LOGIN, allow_every_login
from support.tenancy.populated_tenant import PopulatedTenant, fresh_values, populated_tenant, values_of
from support.tenancy.statement_roles import MAY_RUN
from support.tenancy.statements import Owner, Statement, all_statements, run

# Every statement, or one in so many.
ONE_IN = {"full": 1, "gate": 5}
NO_ROLE = "none"


def prove(figures: Figures) -> None:
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        asyncio.run(_prove(figures, services, owner_url))


async def _prove(figures: Figures, services: LocalServices, owner_url: str) -> None:
    owner = await asyncpg.connect(owner_url, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})
    try:
        async with await open_pool(services.postgres.url("openbell", TEST_LOGIN)) as pool:
            victim = await populated_tenant(pool)
        await owner.execute(AGED)
        values = await values_of(owner, victim)
        tried = Tried(services, victim, values)
        for process in LOGIN_ROLES:
            await tried.statements(process, ONE_IN[figures.size])
            await tried.abuses(process, owner)
    finally:
        await owner.close()
    for line in tried.wrong:
        print(line, flush=True)
    figures.shown("named statements tried by logins that may not run them", tried.foreign)
    figures.exactly("of these, statements that ran", tried.ran, 0)
    figures.at_least("abuses, each tried by every login in every role that it may take", len(ABUSES), 30)
    figures.shown("tries", tried.abused)
    figures.exactly("abuses that succeeded and are not in the table of docs/security.md", tried.beyond, 0)
    figures.exactly("entries of that table that no try confirmed", tried.idle, 0)
    figures.exactly("tries that ended neither in success nor by a refusal", tried.broken, 0)


@dataclass
class Tried:
    services: LocalServices
    victim: PopulatedTenant
    values: dict[str, Any]
    foreign: int = 0
    ran: int = 0
    abused: int = 0
    beyond: int = 0
    idle: int = 0
    broken: int = 0
    wrong: list[str] = field(default_factory=list)

    async def statements(self, process: str, one_in: int) -> None:
        """Those that none of its roles may run, in each of its roles and in none."""
        roles = LOGIN_ROLES[process]
        forbidden = [each for each in all_statements() if not MAY_RUN[each.name] & set(roles)]
        async with self._login(process) as connection:
            for role in (NO_ROLE, *roles):
                for statement in forbidden[::one_in]:
                    self.foreign += 1
                    if await self._runs(connection, role, statement):
                        self.ran += 1
                        self.wrong.append(f"RAN  {process} as {role}: {statement.name}")

    async def abuses(self, process: str, owner: Owner) -> None:
        powers = documented_powers()
        places = {
            "organization": self.victim.organization_id,
            "account": self.victim.tenant.account.id,
            "login": f"{LOGINS}_{process}",
            "owners_backend": await owner.fetchval("select pg_backend_pid()"),
        }
        async with self._login(process) as connection:
            for abuse in ABUSES:
                may = process in powers.get(abuse.name, set())
                roles = (NO_ROLE, *LOGIN_ROLES[process])
                done = [role for role in roles if await self._succeeds(connection, role, abuse, places)]
                if done and not may:
                    self.beyond += 1
                    self.wrong.append(f"BEYOND  {process} as {', '.join(done)}: {abuse.name}")
                if may and not done:
                    self.idle += 1
                    self.wrong.append(f"IDLE  {process}: {abuse.name}")

    @asynccontextmanager
    async def _login(self, process: str) -> AsyncIterator[Any]:
        url = self.services.postgres.url("openbell", f"{LOGINS}_{process}")
        path = {"search_path": "openbell, pg_catalog, pg_temp", "lock_timeout": "2s"}
        connection = await asyncpg.connect(url, timeout=60, command_timeout=60, server_settings=path)
        try:
            yield connection
        finally:
            await connection.close()

    async def _runs(self, connection: Any, role: str, statement: Statement) -> bool:
        values = self.values | fresh_values(statement.name)
        try:
            async with _undone(connection, role, self.victim):
                _, touched = await run(connection, statement, values)
                return touched > 0
        # Without a role not even the names in the schema are there.
        except (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError):
            return False

    async def _succeeds(self, connection: Any, role: str, abuse: Abuse, places: dict[str, Any]) -> bool:
        self.abused += 1
        try:
            async with _undone(connection, role, self.victim):
                for before in abuse.before:
                    await connection.execute(before.format(**places))
                return _has_effect(await connection.execute(abuse.sql.format(**places)))
        except abuse.refusals:
            return False
        except asyncpg.PostgresError as error:
            self.broken += 1
            self.wrong.append(f"BROKEN  {places['login']} as {role}: {abuse.name}: {error!r}")
            return False


@asynccontextmanager
async def _undone(connection: Any, role: str, victim: PopulatedTenant) -> AsyncIterator[None]:
    """A transaction in a role, or in none, that names the victim's organization and is rolled back."""
    undone = connection.transaction()
    await undone.start()
    try:
        await connection.execute(
            f"set local role {role}; select set_config('openbell.organization_id', '{victim.organization_id}', true)"
        )
        yield
    finally:
        await undone.rollback()


def _has_effect(status: str) -> bool:
    """PostgreSQL's answer ends with the number of rows; an answer without a number is of a command that was done."""
    *_, last = status.split()
    return int(last) > 0 if last.isdigit() else True

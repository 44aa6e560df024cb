"""What a doctor and the metrics ask the database: about the server, the login and what waits in it."""

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import OUTDATED, Pool, Role, open_pool, transaction
from openbell_server.adapters.postgres.outbox_health import read_queues
from openbell_server.adapters.postgres.webhook_lanes import PostgresLaneStore
from openbell_server.domain.credentials import SealedSecrets, SecretPlace
from openbell_server.domain.outbox_health import QueueStanding

# As long as an executor's lease lasts, and a breath more.
SEEN_SECONDS: Final = 10.0
KEYS_MAX: Final = 100
_queries = named_queries.load("examination")
_halt_queries = named_queries.load("halts")
_schema_queries = named_queries.load("schema")


@dataclass(frozen=True, slots=True)
class Login:
    """What a login is and may become."""

    name: str
    is_superuser: bool
    bypasses_row_security: bool
    makes_roles: bool
    owned: int
    member_of: frozenset[str]
    existing_roles: frozenset[str]


@dataclass(frozen=True, slots=True)
class Server:
    """The server, and by how many seconds its clock is ahead of ours."""

    major: int
    version: str
    # Settings by name: fsync, full_page_writes, synchronous_commit.
    settings: dict[str, str]
    ahead_seconds: float
    # The answer took this long: the clocks cannot be compared any better.
    took_seconds: float


@dataclass(frozen=True, slots=True)
class Examination:
    """Questions to one database."""

    pool: Pool

    async def server(self) -> Server:
        """The server as this login meets it."""
        before = time.time()
        row = await _queries.server_facts(self.pool)
        after = time.time()
        settings = {name: row[name] for name in ("fsync", "full_page_writes", "synchronous_commit")}
        return Server(row["major"], row["version"], settings, row["now"] - (before + after) / 2, after - before)

    async def login(self) -> Login:
        """Whose rights we have."""
        row = await _queries.login_facts(self.pool, role_names=list(Role))
        return Login(
            name=row["rolname"],
            is_superuser=row["rolsuper"],
            bypasses_row_security=row["rolbypassrls"],
            makes_roles=row["rolcreaterole"],
            owned=row["owned"],
            member_of=frozenset(row["member_of"]),
            existing_roles=frozenset(row["existing_roles"]),
        )

    async def revision(self) -> str | None:
        """The schema's, or None where there is none."""
        try:
            found: str | None = await _schema_queries.schema_revision(self.pool)
        except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError):
            return None
        return found

    async def unprotected_tables(self) -> list[str]:
        """Tables whose rows the database does not keep apart by organization."""
        return [row["relname"] async for row in _queries.unprotected_tables(self.pool)]

    async def executors(self) -> tuple[int, int]:
        """How many executors live, and how many slots they hold."""
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            row = await _queries.living_executors(connection, seconds=SEEN_SECONDS)
        return row["living"], row["held"]

    async def queues(self) -> list[QueueStanding]:
        """How each queue stands."""
        return await read_queues(self.pool, Role.HEALTH)

    async def sealed_objects(self) -> int:
        """How many objects the vault has."""
        async with transaction(self.pool, Role.RELAY) as connection:
            counted: int = await _queries.count_objects_across_organizations(connection)
        return counted

    async def an_object_of_each_key(self) -> list[tuple[SecretPlace, SealedSecrets]]:
        """Sealed secrets, one by each key that wraps any; for executors only."""
        async with transaction(self.pool, Role.VAULT) as connection:
            rows = _queries.an_object_of_each_key_across_organizations(connection, row_limit=KEYS_MAX)
            return [
                (
                    SecretPlace(row["organization_id"], row["account_id"], row["credential_id"], row["version"]),
                    SealedSecrets(row["key_id"], row["wrapped_key"], row["sealed"]),
                )
                async for row in rows
            ]

    async def halted_accounts(self) -> int:
        """How many accounts stopped by themselves and wait for an operator; none where the schema knows no halts."""
        try:
            async with transaction(self.pool, Role.EXECUTOR) as connection:
                return int(await _queries.halted_accounts_across_organizations(connection))
        except OUTDATED:
            return 0

    async def halts_in_force(self) -> dict[str, int]:
        """How many switches stop something now, by scope; none where the schema knows no switches."""
        try:
            async with transaction(self.pool, Role.EXECUTOR) as connection:
                rows = _halt_queries.count_halts_across_organizations(connection)
                return {row["scope"]: row["halts"] async for row in rows}
        except OUTDATED:
            return {}

    async def parked_lanes(self) -> int:
        """How many lanes of webhooks failed for too long; none where the schema knows no webhooks."""
        try:
            return (await PostgresLaneStore(self.pool).counts_across_organizations())[1]
        except OUTDATED:
            return 0

    async def unknown_actions(self) -> tuple[int, float, int]:
        """How many actions are UNKNOWN, for how many seconds the oldest, and how many of them are flagged."""
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            row = await _queries.unknown_actions_across_organizations(connection)
        return row["count"], row["oldest"], row["flagged"]


@contextlib.asynccontextmanager
async def open_examination(url: str) -> AsyncIterator[Examination]:
    """Questions to the database at an address, over connections like those of the processes."""
    async with await open_pool(url, connections_max=2) as pool:
        yield Examination(pool)

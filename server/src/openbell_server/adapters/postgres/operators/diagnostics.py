"""Queries for doctor and metrics: the server, the login, the queues and the work that waits."""

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role, open_pool
from openbell_server.adapters.postgres.events.delivery_queue import PostgresDeliveryQueueStore
from openbell_server.adapters.postgres.events.outbox_health import read_queues
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace
from openbell_server.domain.events.outbox_health import QueueStanding

# A little longer than an executor's lease.
SEEN_SECONDS: Final = 10.0
KEYS_MAX: Final = 100
_queries = named_queries.load("diagnostics")
_halt_queries = named_queries.load("halts")
_schema_queries = named_queries.load("schema")


@dataclass(frozen=True, slots=True)
class Login:
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
    # Duration of the query, which bounds the error of ahead_seconds.
    took_seconds: float


@dataclass(frozen=True, slots=True)
class Diagnostics(PostgresStore):
    async def server(self) -> Server:
        before = time.time()
        row = await _queries.server_facts(self.pool)
        after = time.time()
        settings = {name: row[name] for name in ("fsync", "full_page_writes", "synchronous_commit")}
        return Server(row["major"], row["version"], settings, row["now"] - (before + after) / 2, after - before)

    async def login(self) -> Login:
        row = await _queries.login_facts(self.pool, role_names=list(Role))
        roles = {name: frozenset(row[name]) for name in ("member_of", "existing_roles")}
        return Login(**{**row, **roles})

    async def revision(self) -> str | None:
        """The schema's revision; None if there is no schema or this login may not read it."""
        try:
            found: str | None = await _schema_queries.schema_revision(self.pool)
        except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError):
            return None
        return found

    async def unprotected_tables(self) -> list[str]:
        """Tables with organization_id but without forced row security."""
        return [row["relname"] async for row in _queries.unprotected_tables(self.pool)]

    async def executors(self) -> tuple[int, int]:
        """Counts of the living executors, and of the slots that they hold."""
        row = await self._one_across(Role.HEALTH, _queries.living_executors, seconds=SEEN_SECONDS)
        return row["living"], row["held"]

    async def queues(self) -> list[QueueStanding]:
        return await read_queues(self.pool, Role.HEALTH)

    async def sealed_objects(self) -> int:
        counted: int = await self._one_across(Role.HEALTH, _queries.count_objects_across_organizations)
        return counted

    async def an_object_of_each_key(self) -> list[tuple[SecretPlace, SealedSecrets]]:
        """One sealed object for each wrapping key; needs the executors' login."""
        rows = await self._rows_across(
            Role.VAULT, _queries.an_object_of_each_key_across_organizations, row_limit=KEYS_MAX
        )
        return [
            (
                SecretPlace(row["organization_id"], row["account_id"], row["credential_id"], row["version"]),
                SealedSecrets(row["key_id"], row["wrapped_key"], row["sealed"]),
            )
            for row in rows
        ]

    async def halted_accounts(self) -> int:
        """Number of accounts that halted automatically and wait for an operator."""
        return int(await self._one_across(Role.HEALTH, _queries.halted_accounts_across_organizations))

    async def halts_in_force(self) -> dict[str, int]:
        """Numbers of halts in force, by scope."""
        rows = await self._rows_across(Role.HEALTH, _halt_queries.count_halts_across_organizations)
        return {row["scope"]: row["halts"] for row in rows}

    async def parked_queues(self) -> int:
        """Number of delivery queues of webhooks whose tries have ended."""
        return (await PostgresDeliveryQueueStore(self.pool).counts_across_organizations())[1]

    async def unknown_actions(self) -> tuple[int, float, int]:
        """Number of UNKNOWN actions, age of the oldest in seconds, and number of flagged ones."""
        row = await self._one_across(Role.HEALTH, _queries.unknown_actions_across_organizations)
        return row["count"], row["oldest"], row["flagged"]


@contextlib.asynccontextmanager
async def open_diagnostics(url: str) -> AsyncIterator[Diagnostics]:
    """Opens a pool with the same settings as the processes."""
    async with await open_pool(url, connections_max=2) as pool:
        yield Diagnostics(pool)

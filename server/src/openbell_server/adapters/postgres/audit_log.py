"""The audit log: who changed what, with the values before and after, written in the transaction of the change."""

import json
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection, PostgresStore
from openbell_server.application.access.read_audit_log import AuditFilter
from openbell_server.application.paging import ListOrder
from openbell_server.domain.access.audit_chain import Closed, Entry, Head
from openbell_server.domain.identifiers import OrganizationId

# An object with JSON values; it never contains a secret.
Facts = dict[str, Any]
_queries = named_queries.load("audit_log")
# Takes an organization, or None for all; its rows are read by chain_of.
CHAINED_ENTRIES: Final[str] = _queries.chained_entries_across_organizations.sql


def facts_of(row: asyncpg.Record) -> Facts:
    """The row with times and UUIDs as strings."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, UUID) else value


async def append(
    connection: Connection,
    organization_id: UUID,
    audit_id: UUID,
    principal: tuple[str, str],
    operation: str,
    object_id: UUID | str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
) -> None:
    """Add a row. `principal` is a type and an id; `before` is None if the object is new.

    The database numbers and chains it, so the organization's log stays locked until the transaction ends: append after
    every other lock that the transaction waits for, or two transactions may wait for each other.
    """
    principal_type, principal_id = principal
    await _queries.append_to_audit_log(
        connection,
        organization_id=organization_id,
        audit_id=audit_id,
        principal_type=principal_type,
        principal_id=principal_id,
        operation=operation,
        object_id=str(object_id),
        fact_before=None if before is None else json.dumps(before),
        fact_after=json.dumps(after),
    )


async def chain_of(rows: AsyncIterable[asyncpg.Record]) -> AsyncIterator[Entry | Closed]:
    """The rows of CHAINED_ENTRIES, with the head after each organization's last entry."""
    closed: Closed | None = None
    async for row in rows:
        organization_id = str(row["organization_id"])
        if closed is not None and closed.organization_id != organization_id:
            yield closed
        head = None if row["head_no"] is None else Head(row["head_no"], row["chain_head"])
        closed = Closed(organization_id, head)
        if row["entry_no"] is not None:
            yield Entry(organization_id, row["entry_no"], row["hash"], tuple(row["fields"]))
    if closed is not None:
        yield closed


@dataclass(frozen=True, slots=True)
class PostgresAuditEntries(PostgresStore):
    """Implements AuditEntries."""

    async def numbers_between(
        self, organization_id: OrganizationId, since: datetime | None, until: datetime | None
    ) -> range:
        start = 1 if since is None else await self._first_since(organization_id, since)
        return range(start, await self._first_since(organization_id, until))

    async def _first_since(self, organization_id: OrganizationId, moment: datetime | None) -> int:
        return await self._one(_queries.first_entry_since, organization_id, moment=moment) or 1

    async def list_entries(
        self, organization_id: OrganizationId, wanted: AuditFilter, numbers: range, limit: int
    ) -> list[Entry]:
        rows = await self._rows(
            _queries.newest_entries if wanted.order is ListOrder.NEWEST_FIRST else _queries.oldest_entries,
            organization_id,
            after=numbers.start - 1,
            last=numbers.stop - 1,
            of_operation=wanted.operation,
            of_principal=wanted.principal_id,
            row_limit=limit,
        )
        return [Entry(str(organization_id), row["entry_no"], row["hash"], tuple(row["fields"])) for row in rows]

"""Writes the audit log: who changed what, with the values before and after, in the transaction of the change."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection

# An object with JSON values; it never contains a secret.
Facts = dict[str, Any]
_queries = named_queries.load("audit_log")


def facts_of(row: asyncpg.Record) -> Facts:
    """The row with times and UUIDs as strings."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value
        for name, value in row.items()
    }


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
    """Add a row. `principal` is a type and an id; `before` is None if the object is new."""
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

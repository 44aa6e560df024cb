"""Reads the audit log for operators."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.audit_log import CHAINED_ENTRIES, Facts, chain_of, facts_of
from openbell_server.adapters.postgres.connection import Connection, Role, transaction
from openbell_server.adapters.postgres.operators.operator_store import OperatorStore
from openbell_server.domain.access.audit_chain import Closed, Entry
from openbell_server.domain.controls.rules import PLATFORM_ID

ROWS_AT_ONCE: Final = 1000
# A long log is sorted before its first row; a reader blocks no other transaction.
READ_SECONDS: Final = 600.0
_queries = named_queries.load("operators")


@dataclass(frozen=True, slots=True)
class PostgresAuditOperators(OperatorStore):
    """Of one organization, of the platform (PLATFORM_ID), or of all."""

    async def list_entries(self, organization_id: UUID | None, row_limit: int) -> list[Facts]:
        """The newest first."""
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            await self._require_log(connection, organization_id)
            rows = _queries.list_audit_log_across_organizations(
                connection, organization_id=organization_id, row_limit=row_limit
            )
            return [_entry(facts_of(row)) async for row in rows]

    async def follow_chains(self, organization_id: UUID | None, take: Callable[[Entry | Closed], None]) -> None:
        """Pass every entry to `take` with its hash, the oldest first, as a stream and as of one moment."""
        async with transaction(self.pool, Role.OPERATOR, organization_id) as connection:
            await self._require_log(connection, organization_id)
            rows = connection.cursor(CHAINED_ENTRIES, organization_id, prefetch=ROWS_AT_ONCE, timeout=READ_SECONDS)
            async for part in chain_of(rows):
                take(part)

    async def _require_log(self, connection: Connection, organization_id: UUID | None) -> None:
        if organization_id is not None and organization_id != PLATFORM_ID:
            await self._lock_organization(connection, organization_id)


def _entry(facts: Facts) -> Facts:
    return facts | {name: facts[name] and json.loads(facts[name]) for name in ("before", "after")}

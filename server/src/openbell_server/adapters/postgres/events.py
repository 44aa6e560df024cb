"""The log of an account, as readers follow it."""

from dataclasses import dataclass

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.account_events import AccountEvent, EventKind
from openbell_server.domain.identifiers import AccountId, OrganizationId

_queries = named_queries.load("events")


@dataclass(frozen=True, slots=True)
class PostgresEventStore:
    """Implements EventStore."""

    pool: Pool

    async def head(self, organization_id: OrganizationId, account_id: AccountId) -> int:
        """The number of the newest event."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            return int(await _queries.head(connection, organization_id=organization_id, account_id=account_id))

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        """The next events; numbers are taken under the account's lock, so what is visible never has a hole."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            rows = _queries.read_after(
                connection, organization_id=organization_id, account_id=account_id, after=after, row_limit=limit
            )
            return [_event(account_id, row) async for row in rows]


def _event(account_id: AccountId, row: asyncpg.Record) -> AccountEvent:
    return AccountEvent(
        account_id=account_id,
        number=row["event_no"],
        kind=EventKind(row["kind"]),
        intent_id=row["intent_id"],
        seq=row["seq"],
        body=row["body"],
        occurred_at=row["occurred_at"],
    )

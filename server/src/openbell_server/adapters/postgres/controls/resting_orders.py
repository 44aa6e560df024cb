"""Finds orders that the time control of their symbol no longer allows."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role
from openbell_server.adapters.postgres.controls.symbol_controls import time_control_of
from openbell_server.application.controls.ports.symbol_controls import RestingOrder, WorkingOrder
from openbell_server.domain.controls.symbol_controls import Recorded
from openbell_server.domain.identifiers import AccountId, OrganizationId

ORDERS_AT_ONCE_MAX: Final = 100
_queries = named_queries.load("resting_orders")


@dataclass(frozen=True, slots=True)
class PostgresRestingStore(PostgresStore):
    """Implements RestingStore."""

    role: ClassVar[Role] = Role.EXECUTION

    async def accounts_resting_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId]]:
        rows = await self._rows_across(Role.EXECUTOR, _queries.accounts_resting_across_organizations, slots=list(slots))
        return [(row["organization_id"], row["account_id"]) for row in rows]

    async def resting_too_long(self, organization_id: OrganizationId, account_id: AccountId) -> list[RestingOrder]:
        rows = await self._rows(_queries.resting_too_long, organization_id, account_id, row_limit=ORDERS_AT_ONCE_MAX)
        return [RestingOrder(**row) for row in rows]

    async def accounts_closing_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId]]:
        rows = await self._rows_across(Role.EXECUTOR, _queries.accounts_closing_across_organizations, slots=list(slots))
        return [(row["organization_id"], row["account_id"]) for row in rows]

    async def orders_to_close(self, organization_id: OrganizationId, account_id: AccountId) -> list[WorkingOrder]:
        rows = await self._rows(_queries.orders_to_close, organization_id, account_id, row_limit=ORDERS_AT_ONCE_MAX)
        return [_working(row) for row in rows]


def _working(row: asyncpg.Record) -> WorkingOrder:
    return WorkingOrder(
        intent_id=row["order_id"],
        symbol=row["symbol"],
        seen_at=row["now"],
        control=Recorded(
            control=time_control_of(row),
            version=row["version"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        ),
        cancels=row["cancels"],
        cancelled_at=row["cancelled_at"],
    )

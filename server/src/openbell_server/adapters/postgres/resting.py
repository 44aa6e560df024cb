"""Orders that have worked for longer than a control allows."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import OUTDATED, Pool, Role, transaction
from openbell_server.application.ports.controls import RestingOrder
from openbell_server.domain.identifiers import AccountId, OrganizationId

ORDERS_AT_ONCE_MAX: Final = 100
_queries = named_queries.load("resting")


@dataclass(frozen=True, slots=True)
class PostgresRestingStore:
    """Implements RestingStore."""

    pool: Pool

    async def accounts_resting_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId]]:
        """Accounts of these slots that may have such an order; none on a schema that knows no limit."""
        try:
            async with transaction(self.pool, Role.EXECUTOR) as connection:
                rows = _queries.accounts_resting_across_organizations(connection, slots=list(slots))
                return [(row["organization_id"], row["account_id"]) async for row in rows]
        except OUTDATED:
            return []

    async def resting_too_long(self, organization_id: OrganizationId, account_id: AccountId) -> list[RestingOrder]:
        """The account's, the oldest first."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            rows = _queries.resting_too_long(
                connection, organization_id=organization_id, account_id=account_id, row_limit=ORDERS_AT_ONCE_MAX
            )
            return [
                RestingOrder(
                    intent_id=row["order_id"],
                    symbol=row["symbol"],
                    seen_at=row["now"],
                    control_version=row["version"],
                    max_resting_millis=row["max_resting_millis"],
                    rested_millis=row["rested_millis"],
                    cancels=row["cancels"],
                )
                async for row in rows
            ]

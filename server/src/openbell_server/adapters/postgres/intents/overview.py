"""Reads what is going on in every account of an organization."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore
from openbell_server.application.intents.read_overview import AccountOverview
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.identifiers import AccountId, OrganizationId

_queries = named_queries.load("overview")
COUNT_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class PostgresOverviews(PostgresStore):
    """Implements ListOverviews."""

    async def __call__(
        self,
        organization_id: OrganizationId,
        environment: Environment | None,
        account_ids: Collection[AccountId] | None,
        after: int,
        limit: int,
    ) -> list[tuple[int, AccountOverview]]:
        rows = await self._rows(
            _queries.list_overviews,
            organization_id,
            None,
            environment=environment,
            account_ids=account_ids,
            after=after,
            count_max=COUNT_MAX,
            row_limit=limit,
        )
        return [
            (
                row["number"],
                AccountOverview(
                    account_id=row["account_id"],
                    name=row["name"],
                    environment=Environment(row["environment"]),
                    disabled=row["disabled"],
                    halt_code=row["halt_code"],
                    switch=SwitchState(row["switch"]),
                    open_orders=row["open_orders"],
                    unknown_orders=row["unknown_orders"],
                    executions_last_minute=row["executions_last_minute"],
                    oldest_queued_at=row["oldest_queued_at"],
                ),
            )
            for row in rows
        ]

"""Reads what the limits of keys have counted so far."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role, transaction
from openbell_server.adapters.postgres.market_rows import read_losses
from openbell_server.domain.agents.worst_case import DayKey
from openbell_server.domain.controls.kinds.day_values import DayValue
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.money.losses import LossMark

_queries = named_queries.load("accept_with_counts")


@dataclass(frozen=True, slots=True)
class PostgresSpent(PostgresStore):
    """Implements SpentStore."""

    async def accepted(
        self, organization_id: OrganizationId, rules: Collection[tuple[Rule, DayValue]], now: datetime
    ) -> dict[DayKey, Decimal]:
        found: dict[DayKey, Decimal] = {}
        for rule, parameters in rules:
            day = parameters.day_of(now)
            if day is None:
                continue
            # One at a time: two rules of a subject, one of them for a time, may differ in their currency.
            rows = await self._rows(
                _queries.read_day_values,
                organization_id,
                scopes=[rule.scope],
                subjects=[rule.subject],
                currencies=[parameters.currency],
                dates=[day],
            )
            found[rule.scope, rule.subject, parameters.currency] = rows[0]["accepted"] if rows else Decimal(0)
        return found

    async def losses(self, organization_id: OrganizationId, account_id: AccountId) -> dict[tuple[str, str], LossMark]:
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            return await read_losses(connection, organization_id, account_id)

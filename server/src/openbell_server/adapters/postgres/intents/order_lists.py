"""Reads the lists of orders, executions and positions."""

from dataclasses import dataclass
from datetime import datetime

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore
from openbell_server.adapters.postgres.intents.intents import order_facts
from openbell_server.application.intents.ports import (
    ListedExecution,
    ListedOrder,
    ListedPosition,
    ListedPositions,
    ListedStatus,
    OrderFilter,
)
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, Symbol
from openbell_server.domain.orders.action_lifecycle import Reason
from openbell_server.domain.orders.order_terms import OrderSide, OrderType

_queries = named_queries.load("order_lists")


@dataclass(frozen=True, slots=True)
class PostgresOrderLists(PostgresStore):
    """Implements OrderLists."""

    async def list_orders(
        self, organization_id: OrganizationId, account_id: AccountId, wanted: OrderFilter, numbers: range, limit: int
    ) -> list[ListedOrder]:
        rows = await self._rows(
            _queries.list_orders,
            organization_id,
            account_id,
            after=numbers.start - 1,
            last=numbers.stop - 1,
            symbol=wanted.symbol,
            order_side=wanted.order_side,
            is_closed=None if wanted.status is ListedStatus.ALL else wanted.status is ListedStatus.CLOSED,
            row_limit=limit,
        )
        return [_order(row) for row in rows]

    async def list_working_orders(
        self, organization_id: OrganizationId, account_id: AccountId, wanted: OrderFilter, after: int, limit: int
    ) -> list[ListedOrder]:
        rows = await self._rows(
            _queries.list_working_orders,
            organization_id,
            account_id,
            after=after,
            symbol=wanted.symbol,
            order_side=wanted.order_side,
            row_limit=limit,
        )
        return [_order(row) for row in rows]

    async def show_order(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId
    ) -> ListedOrder | None:
        row = await self._one(_queries.show_order, organization_id, account_id, intent_id=intent_id)
        return None if row is None else _order(row)

    async def list_executions(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        intent_id: IntentId | None,
        since: datetime,
        skipped: int,
        until: datetime | None,
        limit: int,
    ) -> list[ListedExecution]:
        values = {"since": since, "skipped": skipped, "until": until, "row_limit": limit}
        if intent_id is None:
            rows = await self._rows(_queries.list_executions, organization_id, account_id, **values)
        else:
            of_order = _queries.list_executions_of_order
            rows = await self._rows(of_order, organization_id, account_id, **values, order_id=intent_id)
        return [ListedExecution(**{**row, "order_side": OrderSide(row["order_side"])}) for row in rows]

    async def list_positions(
        self, organization_id: OrganizationId, account_id: AccountId, limit: int
    ) -> ListedPositions:
        rows = await self._rows(_queries.list_positions, organization_id, account_id, row_limit=limit)
        return ListedPositions(
            event_no=rows[0]["event_no"],
            as_of=rows[0]["positions_as_of"],
            positions=[
                ListedPosition(row["symbol"], row["quantity"], row["updated_at"])
                for row in rows
                if row["symbol"] is not None
            ],
        )


def _order(row: asyncpg.Record) -> ListedOrder:
    return ListedOrder(
        number=row["number"],
        intent_id=row["order_id"],
        order_action_id=row["order_action_id"],
        client_reference_id=row["client_reference_id"],
        symbol=Symbol(row["symbol"]),
        order_side=OrderSide(row["order_side"]),
        order_type=OrderType(row["order_type"]),
        order=order_facts(row),
        reason=row["reason_code"] and Reason(row["reason_code"], row["broker_code"], row["broker_text"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )

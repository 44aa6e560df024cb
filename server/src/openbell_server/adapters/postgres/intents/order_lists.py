"""Reads the lists of orders, executions and positions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore
from openbell_server.adapters.postgres.intents.intents import DIRECTIONS, order_facts
from openbell_server.application.intents.ports import (
    ExecutionFilter,
    ListedExecution,
    ListedOrder,
    ListedPosition,
    ListedPositions,
    ListedStatus,
    OrderSearch,
    PositionChange,
)
from openbell_server.application.paging import ListOrder
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, Symbol
from openbell_server.domain.orders.action_lifecycle import Reason
from openbell_server.domain.orders.order_terms import OrderSide, OrderType
from openbell_server.domain.orders.positions import PositionCause

_queries = {order: named_queries.load("order_lists", texts) for order, texts in DIRECTIONS.items()}


@dataclass(frozen=True, slots=True)
class PostgresOrderLists(PostgresStore):
    """Implements OrderLists."""

    async def list_orders(self, organization_id: OrganizationId, search: OrderSearch, limit: int) -> list[ListedOrder]:
        wanted, queries = search.wanted, _queries[search.wanted.order]
        query = queries.orders_of_organization if wanted.account_id is None else queries.orders_of_account
        rows = await self._rows(
            queries.open_orders if wanted.is_open else query,
            organization_id,
            **_place(search),
            of_account=wanted.account_id,
            symbols=None if search.symbols is None else sorted(search.symbols),
            order_side=wanted.order_side,
            is_closed=None if wanted.status is ListedStatus.ALL else wanted.status is ListedStatus.CLOSED,
            certainty=wanted.certainty,
            environment=search.environment,
            account_ids=search.account_ids,
            row_limit=limit,
        )
        return [_order(row) for row in rows]

    async def last_looked_at(self, organization_id: OrganizationId, search: OrderSearch) -> IntentId | None:
        queries, place = _queries[search.wanted.order], _place(search)
        if search.wanted.is_open:
            found = await self._one(queries.last_open_order_looked_at, organization_id, **place)
        else:
            of_account = search.wanted.account_id
            found = await self._one(queries.last_intent_looked_at, organization_id, **place, of_account=of_account)
        return None if found is None else IntentId(found)

    async def list_executions(
        self,
        organization_id: OrganizationId,
        wanted: ExecutionFilter,
        since: datetime,
        until: datetime,
        skipped: int,
        limit: int,
    ) -> list[ListedExecution]:
        queries = _queries[wanted.order]
        values: dict[str, Any] = {"since": since, "until": until, "skipped": skipped, "row_limit": limit}
        if wanted.intent_id is not None:
            rows = await self._rows(queries.executions_of_order, organization_id, order_id=wanted.intent_id, **values)
        elif wanted.account_id is not None:
            rows = await self._rows(queries.executions_of_account, organization_id, wanted.account_id, **values)
        else:
            rows = await self._rows(queries.executions_of_organization, organization_id, **values)
        return [_execution(row) for row in rows]

    async def list_positions(
        self, organization_id: OrganizationId, account_id: AccountId, limit: int
    ) -> ListedPositions:
        rows = await self._rows(
            _queries[ListOrder.OLDEST_FIRST].list_positions, organization_id, account_id, row_limit=limit
        )
        return ListedPositions(
            event_no=rows[0]["event_no"],
            as_of=rows[0]["positions_as_of"],
            positions=[
                ListedPosition(row["symbol"], row["quantity"], row["updated_at"])
                for row in rows
                if row["symbol"] is not None
            ],
        )

    async def list_position_changes(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        symbol: Symbol | None,
        beyond: int,
        order: ListOrder,
        limit: int,
    ) -> list[PositionChange]:
        queries = _queries[order]
        query = queries.changes_of_positions if symbol is None else queries.changes_of_position
        named = {} if symbol is None else {"symbol": symbol}
        rows = await self._rows(query, organization_id, account_id, **named, beyond_number=beyond, row_limit=limit)
        return [PositionChange(**row | {"cause": PositionCause(row["cause"])}) for row in map(dict, rows)]


def _place(search: OrderSearch) -> dict[str, Any]:
    return {"beyond": search.beyond, "looked_at_max": search.looked_at_max}


def _execution(row: asyncpg.Record) -> ListedExecution:
    return ListedExecution(
        account_id=row["account_id"],
        environment=Environment(row["environment"]),
        execution_id=row["execution_id"],
        intent_id=row["order_id"],
        symbol=Symbol(row["symbol"]),
        order_side=OrderSide(row["order_side"]),
        reported_quantity=row["reported_quantity"],
        reported_price=row["reported_price"],
        executed_at=row["executed_at"],
        recorded_at=row["recorded_at"],
        quantity=row["quantity"],
        price=row["price"],
        fee=row["reported_fee"] if row["fee"] is None else row["fee"],
        changed_at=row["changed_at"],
    )


def _order(row: asyncpg.Record) -> ListedOrder:
    return ListedOrder(
        account_id=row["account_id"],
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

"""Reads the event logs of accounts, and snapshots of their current state."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role
from openbell_server.adapters.postgres.execution.reconciliation import external_order
from openbell_server.adapters.postgres.intents.intents import order_facts
from openbell_server.application.events.account_log import external_order_fields, order_fields
from openbell_server.application.events.ports import Followed, Snapshot
from openbell_server.application.ports.account_transaction import OrderTerms
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.events.account_events import AccountEvent, EventKind
from openbell_server.domain.identifiers import AccountId, ActionId, OrganizationId, Symbol
from openbell_server.domain.orders.intents import plain
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy

_queries = named_queries.load("events")
_snapshots = named_queries.load("snapshots")


@dataclass(frozen=True, slots=True)
class PostgresEventStore(PostgresStore):
    """Implements EventStore and FollowedAccounts."""

    role: ClassVar[Role] = Role.READER

    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        row = await self._one(_queries.bounds, organization_id, account_id)
        return (row["floor"], row["head"]) if row is not None else (0, 0)

    async def heads(self, organization_id: OrganizationId, account_ids: Sequence[AccountId]) -> dict[AccountId, int]:
        rows = await self._rows(_queries.heads, organization_id, account_ids=account_ids)
        return {row["account_id"]: row["head"] for row in rows}

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        """The next events, without gaps: numbers are assigned under the account's lock."""
        rows = await self._rows(_queries.read_after, organization_id, account_id, after=after, row_limit=limit)
        return [_event(account_id, row) for row in rows]

    async def first_since(
        self, organization_id: OrganizationId, account_id: AccountId, moment: datetime, head: int
    ) -> int:
        found: int = await self._one(_queries.first_event_since, organization_id, account_id, moment=moment, head=head)
        return found

    async def snapshot(self, organization_id: OrganizationId, account_id: AccountId) -> Snapshot:
        rows = await self._rows(_snapshots.snapshot, organization_id, account_id)
        items = [
            (row["what"], json.loads(row["facts"], parse_float=Decimal, parse_int=Decimal))
            for row in rows
            if row["what"]
        ]
        return Snapshot(
            head=rows[0]["head"] if rows else 0,
            orders=[_order(facts) for what, facts in items if what == "order"],
            external_orders=[_external_order(facts) for what, facts in items if what == "external"],
            positions=[_position(facts) for what, facts in items if what == "position"],
        )

    async def list_followed(
        self,
        organization_id: OrganizationId,
        environment: Environment | None,
        account_ids: Collection[AccountId] | None,
        limit: int,
    ) -> Followed | None:
        found = await self._rows(
            _queries.list_followed, organization_id, environment=environment, account_ids=account_ids, row_limit=limit
        )
        if not found:
            return None
        return Followed(
            organization_disabled=found[0]["organization_disabled"],
            account_ids=[row["account_id"] for row in found if row["account_id"] is not None],
        )


def _order(facts: dict[str, Any]) -> dict[str, Any]:
    terms = OrderTerms(
        symbol=facts["symbol"],
        order_side=OrderSide(facts["order_side"]),
        order_type=OrderType(facts["order_type"]),
        route_strategy=RouteStrategy(facts["route_strategy"]),
        client_reference_id=facts["client_reference_id"],
    )
    fields = order_fields(order_facts(facts), terms, ActionId(UUID(facts["order_action_id"])))
    return {"intent_id": facts["intent_id"], **fields}


def _external_order(facts: dict[str, Any]) -> dict[str, Any]:
    return external_order_fields(external_order(facts | {"accepted_at": datetime.fromisoformat(facts["accepted_at"])}))


def _position(facts: dict[str, Any]) -> dict[str, Any]:
    return {"symbol": facts["symbol"], "quantity": plain(facts["quantity"]), "updated_at": facts["updated_at"]}


def _event(account_id: AccountId, row: asyncpg.Record) -> AccountEvent:
    return AccountEvent(
        account_id=account_id,
        number=row["event_no"],
        kind=EventKind(row["kind"]),
        intent_id=row["intent_id"],
        seq=row["seq"],
        body=row["body"],
        occurred_at=row["occurred_at"],
        symbol=_symbol(row),
    )


def _symbol(row: asyncpg.Record) -> Symbol | None:
    if row["intent_id"] is not None:
        symbol = row["symbol"]
    else:
        body = json.loads(row["body"])
        symbol = body["subject"] if body.get("scope") == Scope.SYMBOL else body.get("symbol")
    return None if symbol is None else Symbol(symbol)

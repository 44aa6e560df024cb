"""The log of an account, as readers follow it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.intents import order_facts
from openbell_server.adapters.postgres.reconciliation import external_order
from openbell_server.application.account_log import external_order_words, order_words
from openbell_server.application.ports.events import Followed, Snapshot
from openbell_server.application.ports.execution import OrderTerms
from openbell_server.domain.account_events import AccountEvent, EventKind
from openbell_server.domain.accounts import Environment
from openbell_server.domain.findings import Scope
from openbell_server.domain.identifiers import AccountId, ActionId, OrganizationId, Symbol
from openbell_server.domain.intents import plain
from openbell_server.domain.orders import OrderSide, OrderType, RouteStrategy

_queries = named_queries.load("events")
_snapshots = named_queries.load("snapshots")


@dataclass(frozen=True, slots=True)
class PostgresEventStore:
    """Implements EventStore and FollowedAccounts."""

    pool: Pool

    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        """The number up to which events are no longer kept, and that of the newest one."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            row = await _queries.bounds(connection, organization_id=organization_id, account_id=account_id)
        return (row["floor"], row["head"]) if row is not None else (0, 0)

    async def heads(self, organization_id: OrganizationId, account_ids: Sequence[AccountId]) -> dict[AccountId, int]:
        """The numbers of the newest events of accounts."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            rows = _queries.heads(connection, organization_id=organization_id, account_ids=account_ids)
            return {row["account_id"]: row["head"] async for row in rows}

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        """The next events; numbers are taken under the account's lock, so what is visible never has a hole."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            rows = _queries.read_after(
                connection, organization_id=organization_id, account_id=account_id, after=after, row_limit=limit
            )
            return [_event(account_id, row) async for row in rows]

    async def snapshot(self, organization_id: OrganizationId, account_id: AccountId) -> Snapshot:
        """What stands now: orders that are not closed, those that are not ours, and what is held."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            rows = [
                (row["head"], row["what"], row["facts"])
                async for row in _snapshots.snapshot(connection, organization_id=organization_id, account_id=account_id)
            ]
        told = [(what, json.loads(facts, parse_float=Decimal, parse_int=Decimal)) for _, what, facts in rows if what]
        return Snapshot(
            head=rows[0][0] if rows else 0,
            orders=[_order(facts) for what, facts in told if what == "order"],
            external_orders=[_external_order(facts) for what, facts in told if what == "external"],
            positions=[_position(facts) for what, facts in told if what == "position"],
        )

    async def list_followed(
        self, organization_id: OrganizationId, environment: Environment | None, limit: int
    ) -> Followed | None:
        """Accounts of an environment, or of all; None if there is no such organization."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            rows = _queries.list_followed(
                connection, organization_id=organization_id, environment=environment, row_limit=limit
            )
            found = [row async for row in rows]
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
    words = order_words(order_facts(facts), terms, ActionId(UUID(facts["order_action_id"])))
    return {"intent_id": facts["intent_id"], **words}


def _external_order(facts: dict[str, Any]) -> dict[str, Any]:
    return external_order_words(external_order(facts | {"accepted_at": datetime.fromisoformat(facts["accepted_at"])}))


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
        told = row["symbol"]
    else:
        body = json.loads(row["body"])
        told = body["subject"] if body.get("scope") == Scope.SYMBOL else body.get("symbol")
    return None if told is None else Symbol(told)

"""Records desk commands with their orders, and reads their outcomes."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, transaction
from openbell_server.application.desk.ports import DeskOrder, NewDeskCommand
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.desk_commands import (
    ClosingOrder,
    DeskCommand,
    DeskCommandType,
    DeskReason,
    DeskScope,
    OrderOutcome,
    outcome_of,
)
from openbell_server.domain.orders.order_aggregate import Certainty, CloseReason

_queries: Final = named_queries.load("desk_commands")


@dataclass(frozen=True, slots=True)
class PostgresDeskCommandStore(PostgresStore):
    """Implements DeskCommandStore."""

    async def accept(self, command: NewDeskCommand) -> tuple[DeskCommand, bool]:
        scope, principal, account_id = command.scope, command.principal, command.account_id
        organization_id, key = principal.organization_id, command.idempotency_key
        where = {"organization_id": organization_id, "account_id": account_id}
        async with transaction(self.pool, self.role, organization_id, locked=account_id) as connection:
            if key is not None:
                row = await _queries.find_desk_command(connection, **where, desk_command_id=None, idempotency_key=key)
                if row is not None:
                    if row["command_hash"] != scope.hash:
                        raise Problem("idempotency_key_reused", "this Idempotency-Key was used for another command")
                    return _command(row), True
            added = await _queries.add_desk_command(
                connection,
                **where,
                desk_command_id=command.id,
                command_type=scope.command_type,
                symbol=scope.symbol,
                api_key_id=scope.api_key_id,
                idempotency_key=key,
                command_hash=scope.hash,
                principal_type=principal.kind,
                principal_id=principal.id,
            )
            if added is None:
                raise Problem("not_found", "there is no such API key")
            row = await _queries.find_desk_command(connection, **where, desk_command_id=added, idempotency_key=None)
            return _command(row), False

    async def find(
        self, organization_id: OrganizationId, account_id: AccountId, desk_command_id: UUID
    ) -> DeskCommand | None:
        row = await self._one(
            _queries.find_desk_command,
            organization_id,
            account_id,
            desk_command_id=desk_command_id,
            idempotency_key=None,
        )
        return None if row is None else _command(row)

    async def outcomes(
        self, organization_id: OrganizationId, account_id: AccountId, command: DeskCommand
    ) -> dict[OrderOutcome, int]:
        rows = await self._rows(_queries.count_desk_outcomes, organization_id, account_id, desk_command_id=command.id)
        counts = dict.fromkeys(OrderOutcome, 0)
        for row in rows:
            counts[_outcome(row, command)] += row["orders"]
        return counts

    async def list_commands(
        self, organization_id: OrganizationId, account_id: AccountId, before: int | None, limit: int
    ) -> list[tuple[int, DeskCommand]]:
        rows = await self._rows(
            _queries.list_desk_commands, organization_id, account_id, before_no=before, row_limit=limit
        )
        return [(row["command_no"], _command(row)) for row in rows]

    async def list_orders(
        self, organization_id: OrganizationId, account_id: AccountId, command: DeskCommand, after: int, limit: int
    ) -> list[tuple[int, DeskOrder]]:
        rows = await self._rows(
            _queries.list_desk_orders,
            organization_id,
            account_id,
            desk_command_id=command.id,
            after=after,
            row_limit=limit,
        )
        return [(row["place"], _order(row, command)) for row in rows]


def _command(row: asyncpg.Record) -> DeskCommand:
    return DeskCommand(
        id=row["desk_command_id"],
        scope=DeskScope(
            command_type=DeskCommandType(row["command_type"]), symbol=row["symbol"], api_key_id=row["api_key_id"]
        ),
        principal=(row["principal_type"], row["principal_id"]),
        created_at=row["created_at"],
        orders=row["orders"],
        external_orders=row["external_orders"],
        ended_at=row["ended_at"],
        failed=row["failed"],
        reason=row["reason"] and DeskReason(row["reason"]),
        detail=row["detail"],
        receipt_id=row["receipt_id"],
        closing=closing_order(row["closing_intent_id"], row["closing_close_reason"], row["closing_certainty"]),
        has_unknown=row["has_unknown"],
    )


def closing_order(intent_id: IntentId | None, close_reason: str | None, certainty: str) -> ClosingOrder | None:
    if intent_id is None:
        return None
    return ClosingOrder(
        intent_id=intent_id,
        close_reason=None if close_reason is None else CloseReason(close_reason),
        certainty=Certainty(certainty),
    )


def _outcome(row: asyncpg.Record, command: DeskCommand) -> OrderOutcome:
    return outcome_of(
        row["close_reason"] and CloseReason(row["close_reason"]),
        Certainty(row["certainty"]),
        row["last_cancel"] and ActionState(row["last_cancel"]),
        has_ended=command.ended_at is not None,
    )


def _order(row: asyncpg.Record, command: DeskCommand) -> DeskOrder:
    outcome = _outcome(row, command)
    return DeskOrder(
        intent_id=row["order_id"],
        symbol=row["symbol"],
        outcome=outcome,
        filled_quantity=row["filled_quantity"],
        cancel_reason=row["reason_code"] if outcome is OrderOutcome.CANCEL_FAILED else None,
        cancels=row["cancels"],
        updated_at=row["updated_at"],
    )

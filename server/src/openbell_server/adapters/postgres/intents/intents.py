"""Runs the accept step, and reads actions and orders of intents."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import (
    Connection,
    Pool,
    PostgresStore,
    Role,
    acquire_clean,
    transaction,
)
from openbell_server.application.controls.ports.orders import OrderNow
from openbell_server.application.intents.ports import (
    ActionFilter,
    Execution,
    RecordedAction,
    UnknownEvidence,
)
from openbell_server.application.paging import ListOrder
from openbell_server.application.ports.accept_step import Acceptance, AcceptStatus, Submission
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.intents import (
    ActionType,
    CancelIntent,
    Command,
    CreateIntent,
    IntentAction,
    ReplaceIntent,
)
from openbell_server.domain.orders.order_aggregate import (
    REPORTED_ENDS,
    Certainty,
    CloseReason,
    Order,
    Pending,
    Standing,
)
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, Terms, TimeInForce

# Times increase with the numbers of an account's actions, unless the database's clock is set back, by less than this.
CLOCK_SETBACK_SECONDS_MAX: Final = 60.0
# The texts that distinguish a statement that lists the newest rows first.
DIRECTIONS: Final = {
    ListOrder.OLDEST_FIRST: {"direction": "asc", "after": ">"},
    ListOrder.NEWEST_FIRST: {"direction": "desc", "after": "<"},
}
_lists = {order: named_queries.load("intents", texts) for order, texts in DIRECTIONS.items()}
_queries = _lists[ListOrder.OLDEST_FIRST]


@dataclass(frozen=True, slots=True)
class PostgresIntentStore(PostgresStore):
    """Implements IntentStore."""

    async def accept_across_organizations(self, submissions: Sequence[Submission]) -> list[Acceptance]:
        async with transaction(self.pool, Role.ACCEPT) as connection:
            return await accept(connection, submissions)

    async def find_action(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, seq: int | None = None
    ) -> RecordedAction | None:
        row = await self._one(
            _queries.find_action, organization_id, account_id, intent_id=intent_id, seq=seq, action_id=None
        )
        return None if row is None else recorded_action(row)

    async def find_order(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId
    ) -> OrderNow | None:
        row = await self._one(_queries.find_order, organization_id, account_id, intent_id=intent_id)
        if row is None:
            return None
        return OrderNow(
            symbol=row["symbol"],
            order_side=OrderSide(row["order_side"]),
            order_type=OrderType(row["order_type"]),
            terms=terms_of(row),
            filled_quantity=row["filled_quantity"],
            position=row["position"],
            creator=(row["principal_type"], row["principal_id"]),
        )

    async def find_action_by_id(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, action_id: ActionId
    ) -> RecordedAction | None:
        row = await self._one(
            _queries.find_action, organization_id, account_id, intent_id=intent_id, seq=None, action_id=action_id
        )
        return None if row is None else recorded_action(row)

    async def find_action_by_key(
        self, organization_id: OrganizationId, account_id: AccountId, key: str, command_hash: bytes
    ) -> RecordedAction | None:
        row = await self._one(
            _queries.find_action_by_key, organization_id, account_id, key=key, command_hash=command_hash
        )
        return None if row is None else recorded_action(row)

    async def find_execution(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId
    ) -> Execution | None:
        row = await self._one(_queries.find_execution, organization_id, account_id, intent_id=intent_id)
        if row is None:
            return None
        unknown = None
        if row["unknown_since"] is not None:
            probes = [(datetime.fromisoformat(probe["at"]), probe["found"]) for probe in json.loads(row["probes"])]
            unknown = UnknownEvidence(
                since=row["unknown_since"],
                probes=probes,
                flagged_at=row["flagged_at"],
                writes=row["writes"],
                action_type=ActionType(row["action_type"]),
                broker=row["broker"],
                candidates=row["candidates"],
            )
        return Execution(order=order_facts(row), unknown=unknown, updated_at=row["updated_at"])

    async def list_actions(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[RecordedAction]:
        rows = await self._rows(_queries.list_actions, organization_id, account_id, after=after, row_limit=limit)
        return [recorded_action(row) for row in rows]

    async def list_some_actions(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        wanted: ActionFilter,
        numbers: range,
        limit: int,
    ) -> list[RecordedAction]:
        facts: dict[str, object] = {
            "action_type": wanted.action_type,
            "since": wanted.since,
            "until": wanted.until,
        }
        lists = _lists[wanted.order]
        if wanted.client_reference_id is not None:
            query = lists.list_actions_of_reference
            facts |= {"client_reference_id": wanted.client_reference_id, "symbol": wanted.symbol}
        elif wanted.symbol is not None:
            query = lists.list_actions_of_symbol
            facts["symbol"] = wanted.symbol
        elif wanted.action_type not in (None, ActionType.CREATE):
            query = lists.list_actions_of_type
        else:
            query = lists.list_some_actions
        rows = await self._rows(
            query, organization_id, account_id, after=numbers.start - 1, last=numbers.stop - 1, row_limit=limit, **facts
        )
        return [recorded_action(row) for row in rows]

    async def numbers_between(
        self, organization_id: OrganizationId, account_id: AccountId, since: datetime | None, until: datetime | None
    ) -> range:
        where = {"organization_id": organization_id, "account_id": account_id}
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            start, stop = 1, await _queries.head(connection, **where) + 1
            if since is not None:
                start = await _queries.first_number_since(
                    connection, **where, moment=since, later_seconds=-CLOCK_SETBACK_SECONDS_MAX
                )
            if until is not None:
                stop = await _queries.first_number_since(
                    connection, **where, moment=until, later_seconds=CLOCK_SETBACK_SECONDS_MAX
                )
        return range(start, stop)

    async def list_actions_of_intent(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, after: int, limit: int
    ) -> list[RecordedAction]:
        rows = await self._rows(
            _queries.list_actions_of_intent,
            organization_id,
            account_id,
            intent_id=intent_id,
            after=after,
            row_limit=limit,
        )
        return [recorded_action(row) for row in rows]


async def accept_in_pool(accept_pool: Pool, submissions: Sequence[Submission]) -> list[Acceptance]:
    """Run the accept step on a batch in one round trip; the pool's connections must have the accept role."""
    async with acquire_clean(accept_pool) as connection:
        return await accept(connection, submissions)


async def accept(connection: Connection, submissions: Sequence[Submission]) -> list[Acceptance]:
    """Run the accept step on a batch in the caller's transaction, which must have the accept role."""
    creates = [s.command if isinstance(s.command, CreateIntent) else None for s in submissions]
    specs = [None if isinstance(s.command, CancelIntent) else s.command.spec for s in submissions]
    accepted = _queries.accept_commands(
        connection,
        action_ids=[s.action_id for s in submissions],
        intent_ids=[s.intent_id for s in submissions],
        receipt_ids=[s.receipt_id for s in submissions],
        organization_ids=[s.account.organization_id for s in submissions],
        account_ids=[s.account.id for s in submissions],
        action_types=[_action_type(s.command) for s in submissions],
        idempotency_keys=[s.idempotency_key for s in submissions],
        command_hashes=[s.command_hash for s in submissions],
        organization_epochs=[s.account.organization_epoch for s in submissions],
        account_epochs=[s.account.account_epoch for s in submissions],
        symbols=[c and c.symbol for c in creates],
        order_sides=[c and c.order_side for c in creates],
        order_types=[spec and spec.order_type for spec in specs],
        route_strategies=[c and c.route_strategy for c in creates],
        quantities=[spec and spec.quantity for spec in specs],
        limit_prices=[spec and spec.limit_price for spec in specs],
        stop_prices=[spec and spec.stop_price for spec in specs],
        times_in_force=[spec and spec.time_in_force for spec in specs],
        client_reference_ids=[s.command.client_reference_id for s in submissions],
        principal_types=[s.principal.kind for s in submissions],
        principal_ids=[s.principal.id for s in submissions],
        receipts=[s.receipt.text for s in submissions],
        own_only=[s.principal.own_orders_only for s in submissions],
    )
    rows = [row async for row in accepted]
    assert [row["ord"] for row in rows] == list(range(1, len(submissions) + 1))
    return [
        Acceptance(
            status=AcceptStatus(row["status"]),
            intent_id=row["intent_id"],
            seq=row["seq"],
            number=row["action_no"],
            command_hash=row["command_hash"],
            created_at=row["created_at"],
        )
        for row in rows
    ]


def _action_type(command: Command) -> ActionType:
    match command:
        case CreateIntent():
            return ActionType.CREATE
        case ReplaceIntent():
            return ActionType.REPLACE
        case CancelIntent():
            return ActionType.CANCEL


def terms_of(row: asyncpg.Record | Mapping[str, Any]) -> Terms:
    """The terms in a row of orders or intent_actions."""
    return Terms(
        quantity=row["quantity"],
        limit_price=row["limit_price"],
        stop_price=row["stop_price"],
        time_in_force=TimeInForce(row["time_in_force"]),
    )


def order_facts(row: asyncpg.Record | Mapping[str, Any]) -> Order:
    """The order in a row; columns read with row.get may be missing."""
    close_reason = row["close_reason"] and CloseReason(row["close_reason"])
    ended = row.get("ended")
    return Order(
        terms=terms_of(row),
        filled_quantity=row["filled_quantity"],
        filled_value=row["filled_value"],
        standing=Standing(row["standing"]),
        close_reason=close_reason,
        pending=Pending(row["pending"]),
        certainty=Certainty(row["certainty"]),
        broker_order_ids=tuple(row["broker_order_ids"]),
        triggered=row.get("triggered", False),
        terms_version=row.get("terms_version", 1),
        highest_quantity=row.get("highest_quantity"),
        busted_quantity=row.get("busted_quantity", Decimal(0)),
        executions_changed=row.get("executions_changed", False),
        ended=CloseReason(ended) if ended else close_reason if close_reason in REPORTED_ENDS else None,
        ended_filled=row.get("ended_filled", Decimal(0)),
    )


def intent_action(row: asyncpg.Record) -> IntentAction:
    return IntentAction(
        id=row["action_id"],
        intent_id=row["intent_id"],
        account_id=row["account_id"],
        organization_id=row["organization_id"],
        number=row["action_no"],
        seq=row["seq"],
        action_type=ActionType(row["action_type"]),
        symbol=row["symbol"],
        order_side=OrderSide(row["order_side"]),
        order_type=OrderType(row["order_type"]),
        route_strategy=RouteStrategy(row["route_strategy"]),
        quantity=row["quantity"],
        limit_price=row["limit_price"],
        stop_price=row["stop_price"],
        time_in_force=TimeInForce(row["time_in_force"]),
        client_reference_id=row["client_reference_id"],
        principal_type=row["principal_type"],
        principal_id=row["principal_id"],
        receipt_id=row["receipt_id"],
        created_at=row["created_at"],
    )


def recorded_action(row: asyncpg.Record) -> RecordedAction:
    reason = row["reason_code"] and Reason(row["reason_code"], row["broker_code"], row["broker_text"])
    return RecordedAction(
        action=intent_action(row),
        state=ActionState(row["state"]),
        reason=reason,
        dispatched_at=row["send_started_at"],
        settled_at=row["settled_at"],
    )

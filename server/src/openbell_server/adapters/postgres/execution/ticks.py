"""Writes outcomes, reports and doors of many accounts with one call of the database's function."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import INDEX_PLANS, Pool, Role, acquire_clean, open_role_pool
from openbell_server.application.execution.ports import DoorRequest, DoorTerms, Opened, TickResult, Unit
from openbell_server.application.ports.account_transaction import OrderTerms, TrackedAction
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.symbol_controls import STALE_MILLIS_DEFAULT
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, Terms, TimeInForce

# A tick waits at most this long for one locked account, so that the other accounts go on.
LOCK_MILLIS: Final = 100
CONNECTIONS_MAX: Final = 2
_queries = named_queries.load("ticks")
# The parameters of the function by what a row of them describes; each is an array of all rows.
UNIT: Final = (
    "u_organization_id",
    "u_account_id",
    "u_intent_id",
    "u_action_id",
    "u_attempt_id",
    "u_version",
    "u_previous",
    "u_state",
    "u_settles",
    "u_reason_code",
    "u_broker_code",
    "u_broker_text",
    "u_saves_order",
    "u_filled_quantity",
    "u_filled_value",
    "u_standing",
    "u_close_reason",
    "u_pending",
    "u_certainty",
    "u_broker_order_ids",
    "u_symbol",
    "u_change",
)
EXECUTION: Final = (
    "x_unit",
    "x_execution_id",
    "x_quantity",
    "x_price",
    "x_fee",
    "x_executed_at",
)
EVENT: Final = (
    "e_unit",
    "e_kind",
    "e_seq",
    "e_body",
    "e_position",
)
DOOR: Final = (
    "d_organization_id",
    "d_account_id",
    "d_database_epoch",
    "d_organization_epoch",
    "d_account_epoch",
    "d_credential_version",
    "d_row_limit",
    "d_seconds_max",
)


async def open_tick_pool(url: str) -> Pool:
    settings = {"lock_timeout": f"{LOCK_MILLIS}ms", **INDEX_PLANS}
    return await open_role_pool(url, Role.EXECUTOR, CONNECTIONS_MAX, settings)


@dataclass(frozen=True, slots=True)
class PostgresTickStore:
    """Implements TickStore, on a pool of open_tick_pool."""

    pool: Pool

    async def door_terms_across_organizations(self, account_ids: Collection[AccountId]) -> dict[AccountId, DoorTerms]:
        async with acquire_clean(self.pool) as connection:
            rows = [
                row async for row in _queries.door_terms_across_organizations(connection, account_ids=list(account_ids))
            ]
        return {
            row["account_id"]: DoorTerms(
                organization_epoch=row["organization_epoch"],
                account_epoch=row["account_epoch"],
                database_epoch=row["database_epoch"],
                has_rules=row["has_rules"],
                environment=Environment(row["environment"]),
            )
            for row in rows
        }

    async def write_tick_across_organizations(
        self, slots: Collection[int], units: Sequence[Unit], doors: Sequence[DoorRequest], attempt_id: UUID
    ) -> TickResult:
        given = {
            **_columns(UNIT, map(_unit_row, units)),
            **_columns(EXECUTION, _execution_rows(units)),
            **_columns(EVENT, _event_rows(units)),
            **_columns(DOOR, map(_door_row, doors)),
            "p_slots": named_queries.array_of_numbers(slots),
            "p_attempt_id": attempt_id,
        }
        async with acquire_clean(self.pool) as connection:
            rows = [row async for row in _queries.write_tick_across_organizations(connection, **given)]
        return _result(rows, attempt_id)


def _columns(names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    values = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    return dict(zip(names, values, strict=True))


def _unit_row(unit: Unit) -> tuple[Any, ...]:
    before, after, reason, order = unit.before, unit.after, unit.reason, unit.after.order
    return (
        unit.account.organization_id,
        unit.account.account_id,
        before.intent_id,
        before.action_id,
        before.attempt_id,
        unit.version,
        before.state,
        after.state,
        after.state in SETTLED,
        reason and reason.code,
        reason and reason.broker_code,
        reason and reason.broker_text,
        order != before.order,
        order.filled_quantity,
        order.filled_value,
        order.standing,
        order.close_reason,
        order.pending,
        order.certainty,
        _array_literal(order.broker_order_ids),
        after.terms.symbol,
        unit.change,
    )


def _array_literal(values: Sequence[str]) -> str:
    quoted = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(f'"{value}"' for value in quoted) + "}"


def _execution_rows(units: Sequence[Unit]) -> Iterable[tuple[Any, ...]]:
    for place, unit in enumerate(units, 1):
        for fill in unit.executions:
            yield place, fill.execution_id, fill.quantity, fill.price, fill.fee, fill.executed_at


def _event_rows(units: Sequence[Unit]) -> Iterable[tuple[Any, ...]]:
    for place, unit in enumerate(units, 1):
        for event in unit.events:
            yield place, int(event.kind), event.seq, event.body, event.position


def _door_row(request: DoorRequest) -> tuple[Any, ...]:
    terms = request.terms
    millis_max = STALE_MILLIS_DEFAULT.get(terms.environment)
    return (
        request.account.organization_id,
        request.account.account_id,
        terms.database_epoch,
        terms.organization_epoch,
        terms.account_epoch,
        request.credential_version,
        request.doors,
        None if millis_max is None else millis_max // 1000,
    )


def _result(rows: Sequence[asyncpg.Record], attempt_id: UUID) -> TickResult:
    written: list[tuple[int, bool]] = []
    opened: list[tuple[int, Opened]] = []
    long_way: dict[AccountId, str] = {}
    at = None
    for row in rows:
        at, status, account_id = row["at"], row["status"], row["account_id"]
        if account_id is None:
            written.append((row["ord"], status == "WRITTEN"))
        elif status == "OPENED":
            opened.append((row["ord"], Opened(account_id, _opened_action(row, attempt_id), row["version"])))
        elif status != "OPEN":
            long_way[account_id] = status
    return TickResult(
        at=at,
        written=[is_written for _, is_written in sorted(written)],
        opened=[each for _, each in sorted(opened, key=lambda numbered: numbered[0])],
        long_way=long_way,
    )


def _opened_action(row: asyncpg.Record, attempt_id: UUID) -> TrackedAction:
    terms = Terms(
        quantity=row["quantity"],
        limit_price=row["limit_price"],
        stop_price=row["stop_price"],
        time_in_force=TimeInForce(row["time_in_force"]),
    )
    return TrackedAction(
        action_id=row["action_id"],
        intent_id=row["intent_id"],
        seq=row["seq"],
        action_type=ActionType.CREATE,
        state=ActionState.DISPATCHING,
        attempt_id=attempt_id,
        send_started_at=row["at"],
        settled_at=None,
        order_action_id=row["action_id"],
        misses=(),
        order=Order(terms=terms),
        terms=OrderTerms(
            symbol=row["symbol"],
            order_side=OrderSide(row["order_side"]),
            order_type=OrderType(row["order_type"]),
            route_strategy=RouteStrategy(row["route_strategy"]),
            client_reference_id=row["client_reference_id"],
        ),
    )

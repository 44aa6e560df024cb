"""Reads the effects of halts on one account."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.halts import switch_of
from openbell_server.adapters.postgres.intents.intents import order_facts
from openbell_server.domain.controls.halts import (
    Halt,
    HaltFigures,
    HaltReport,
    InFlight,
    OpenOrder,
    OpenOrders,
    Quietness,
)
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Certainty, status

# A command that was in flight at a halt has an event within this time: its outcome, or that it is unknown.
OUTCOME_TIME: Final = timedelta(minutes=1)
# How long before a halt a command may have been recorded that the halt met; used only if events were deleted.
WAIT_TIME: Final = timedelta(days=1)
IN_FLIGHT_MAX: Final = 500
ORDERS_MAX: Final = 100
_queries = named_queries.load("halt_reports")
_events = named_queries.load("events")
_intents = named_queries.load("intents")
_reconciliation = named_queries.load("reconciliation")


@dataclass(frozen=True, slots=True)
class PostgresHaltReports(PostgresStore):
    """Implements HaltReportStore."""

    async def list_reports(
        self, organization_id: OrganizationId, account_id: AccountId, before: int | None, limit: int
    ) -> list[tuple[int, HaltReport]]:
        where = {"organization_id": organization_id, "account_id": account_id}
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            found = _queries.list_halts(connection, **where, before_no=before, row_limit=limit)
            halts = [(row["number"], _halt(row)) async for row in found]
            effects = [await _effects(connection, where, halt) for _, halt in halts]
            # Read last, so that the summary is the newest part of the report.
            in_force = any(halt.lifted_at is None for _, halt in halts)
            account = await _open_orders(connection, where) if in_force else None
        return [
            (
                number,
                HaltReport(halt=halt, figures=figures, in_flight=listed, account=None if halt.lifted_at else account),
            )
            for (number, halt), (figures, listed) in zip(halts, effects, strict=True)
        ]


async def _open_orders(connection: Connection, where: dict[str, Any]) -> OpenOrders:
    orders = _queries.open_orders_of_account(connection, **where, row_limit=ORDERS_MAX)
    open_orders = [_open_order(row) async for row in orders]
    external = _reconciliation.open_external_orders(connection, **where, row_limit=ORDERS_MAX)
    external_orders = [row["broker_order_id"] async for row in external]
    quietness = Quietness(**await _queries.quietness(connection, **where))
    return OpenOrders(quietness=quietness, open_orders=open_orders, external_orders=external_orders)


async def _effects(connection: Connection, where: dict[str, Any], halt: Halt) -> tuple[HaltFigures, list[InFlight]]:
    scope = {
        "halted_at": halt.halted_at,
        "lifted_at": halt.lifted_at,
        "symbol": halt.switch.symbol,
        "of_key": halt.switch.api_key_id,
        **await _span(connection, where, halt),
    }
    figures = HaltFigures(**await _queries.halt_figures(connection, **where, **scope))
    if halt.switch.state is SwitchState.REDUCE_ONLY:
        figures = figures.all_reducing()
    rows = _queries.in_flight(connection, **where, **scope, row_limit=IN_FLIGHT_MAX)
    return figures, [_in_flight(row) async for row in rows]


async def _span(connection: Connection, where: dict[str, Any], halt: Halt) -> dict[str, int | None]:
    """The numbers of the events during the halt; if events were deleted, also of the actions."""
    lifted, head = halt.lifted_at, await _queries.event_head(connection, **where, halted_at=halt.halted_at)

    async def event_at(moment: datetime) -> int:
        found: int = await _events.first_event_since(connection, **where, moment=moment, head=head["event_no"])
        return found

    async def action_at(moment: datetime, later: timedelta) -> int:
        seconds = later.total_seconds()
        found: int = await _intents.first_number_since(connection, **where, moment=moment, later_seconds=seconds)
        return found

    is_pruned = bool(head["is_pruned"])
    return {
        "first_event": await event_at(halt.halted_at),
        "last_event": None if lifted is None else await event_at(lifted + OUTCOME_TIME),
        "first_action": await action_at(halt.halted_at, -WAIT_TIME) if is_pruned else None,
        "last_action": await action_at(lifted, timedelta()) if is_pruned and lifted is not None else None,
    }


def _halt(row: asyncpg.Record) -> Halt:
    return Halt(
        id=row["report_id"],
        switch=switch_of(row),
        cancel_working=row["cancel_working"],
        halted_at=row["halted_at"],
        lifted_at=row["lifted_at"],
        reason=row["reason"],
        principal=(row["principal_type"], row["principal_id"]),
        noticed_at=row["noticed_at"],
        compared_at=row["compared_at"],
    )


def _in_flight(row: asyncpg.Record) -> InFlight:
    types = {"action_type": ActionType(row["action_type"]), "state": ActionState(row["state"])}
    return InFlight(**{**row, **types})


def _open_order(row: asyncpg.Record) -> OpenOrder:
    order = order_facts(row)
    return OpenOrder(
        intent_id=row["intent_id"],
        symbol=row["symbol"],
        status=status(order),
        in_doubt=order.certainty is Certainty.UNKNOWN or ActionState(row["state"]) in PAST_DOOR,
        updated_at=row["updated_at"],
    )

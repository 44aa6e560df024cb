"""Reads the effects of halts on one account."""

from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.halts import switch_of
from openbell_server.adapters.postgres.intents.intents import order_facts
from openbell_server.domain.controls.halts import Halt, HaltFigures, HaltReport, InFlight, OpenOrder, Quietness
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Certainty, status

HALTS_MAX: Final = 20
IN_FLIGHT_MAX: Final = 500
ORDERS_MAX: Final = 100
_queries = named_queries.load("halt_reports")
_reconciliation = named_queries.load("reconciliation")


@dataclass(frozen=True, slots=True)
class PostgresHaltReports(PostgresStore):
    """Implements HaltReportStore."""

    async def halt_report(self, organization_id: OrganizationId, account_id: AccountId) -> HaltReport:
        where = {"organization_id": organization_id, "account_id": account_id}
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            found = _queries.halts_of_account(connection, **where, row_limit=HALTS_MAX)
            halts = [_halt(row) async for row in found]
            reported = [(halt, *await _effects(connection, where, halt)) for halt in halts]
            orders = _queries.open_orders_of_account(connection, **where, row_limit=ORDERS_MAX)
            open_orders = [_open_order(row) async for row in orders]
            external = _reconciliation.open_external_orders(connection, **where, row_limit=ORDERS_MAX)
            external_orders = [row["broker_order_id"] async for row in external]
            # Read last, so that the summary is the newest part of the report.
            quietness = Quietness(**await _queries.quietness(connection, **where))
        return HaltReport(halts=reported, quietness=quietness, open_orders=open_orders, external_orders=external_orders)


async def _effects(connection: Connection, where: dict[str, Any], halt: Halt) -> tuple[HaltFigures, list[InFlight]]:
    scope = {"halted_at": halt.halted_at, "symbol": halt.switch.symbol, "of_key": halt.switch.api_key_id}
    figures = HaltFigures(**await _queries.halt_figures(connection, **where, **scope))
    if halt.switch.state is SwitchState.REDUCE_ONLY:
        figures = figures.all_reducing()
    rows = _queries.in_flight(connection, **where, **scope, row_limit=IN_FLIGHT_MAX)
    return figures, [_in_flight(row) async for row in rows]


def _halt(row: asyncpg.Record) -> Halt:
    return Halt(
        switch=switch_of(row),
        cancel_working=row["cancel_working"],
        halted_at=row["halted_at"],
        reason=row["reason"],
        principal=(row["principal_type"], row["principal_id"]),
        noticed_at=row["noticed_at"],
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

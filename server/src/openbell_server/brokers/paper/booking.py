"""Writes the results of matching to the ledger: executions with fees, updates and order states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import asyncpg

from openbell_server.brokers.paper.ledger import queries
from openbell_server.brokers.paper.matching import MarketOrder, Match, after
from openbell_server.brokers.paper.money import fee
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import EXACT, OrderSide, OrderSpec, OrderType, TimeInForce


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One update of an order; ordinal, quantity, price and fee are set if it is an execution."""

    order_number: int
    status: ReportStatus
    filled_quantity: Decimal
    ordinal: int | None = None
    quantity: Decimal | None = None
    price: Decimal | None = None
    fee: Decimal | None = None


def market_order(row: Mapping[str, Any]) -> MarketOrder:
    spec = OrderSpec(
        order_type=OrderType(row["order_type"]),
        quantity=row["quantity"],
        limit_price=row["limit_price"],
        stop_price=row["stop_price"],
        time_in_force=TimeInForce(row["time_in_force"]),
    )
    return MarketOrder(
        side=OrderSide(row["order_side"]), spec=spec, filled=row["filled_quantity"], triggered=row["triggered"]
    )


def updates_of(number: int, order: MarketOrder, matched: Match, ordinal: int = 0) -> list[Update]:
    """One update per fill, and one for an expiry; ordinal is the number of earlier executions."""
    updates: list[Update] = []
    filled = order.filled
    for fill in matched.fills:
        ordinal += 1
        filled = EXACT.add(filled, fill.quantity)
        full = filled == order.spec.quantity
        updates.append(
            Update(
                order_number=number,
                status=matched.status if full else ReportStatus.WORKING,
                filled_quantity=filled,
                ordinal=ordinal,
                quantity=fill.quantity,
                price=fill.price,
                fee=fee(fill.quantity, fill.price),
            )
        )
    if matched.status is ReportStatus.EXPIRED:
        updates.append(Update(order_number=number, status=matched.status, filled_quantity=filled))
    return updates


async def match_all(
    connection: "asyncpg.Connection[asyncpg.Record]",
    rows: Sequence[Mapping[str, Any]],
    decide: Callable[[Mapping[str, Any], MarketOrder], Match],
    now: datetime,
) -> None:
    """Match working orders and write what changes."""
    updates: list[Update] = []
    ends: list[Update] = []
    triggers: dict[int, bool] = {}
    for row in rows:
        order = market_order(row)
        matched = decide(row, order)
        steps = updates_of(row["number"], order, matched, row["ordinal"])
        filled = after(order, matched).filled
        if not steps and matched.triggered != order.triggered:
            steps = [Update(order_number=row["number"], status=matched.status, filled_quantity=filled)]
        updates += steps
        if steps:
            ends.append(Update(order_number=row["number"], status=matched.status, filled_quantity=filled))
            triggers[row["number"]] = matched.triggered
    if ends:
        await change(connection, ends, triggers)
        await append(connection, updates, now)


async def change(
    connection: "asyncpg.Connection[asyncpg.Record]", ends: Sequence[Update], triggers: Mapping[int, bool]
) -> None:
    """Update the state of orders."""
    await queries.change_orders(
        connection,
        numbers=[end.order_number for end in ends],
        statuses=[end.status for end in ends],
        triggers=[triggers[end.order_number] for end in ends],
        filled_quantities=[end.filled_quantity for end in ends],
    )


async def append(
    connection: "asyncpg.Connection[asyncpg.Record]", updates: Sequence[Update], happened_at: datetime
) -> None:
    """Append updates with their executions, and add those to cash and positions."""
    if updates:
        await queries.append_updates(
            connection,
            order_numbers=[update.order_number for update in updates],
            statuses=[update.status for update in updates],
            filled_quantities=[update.filled_quantity for update in updates],
            ordinals=[update.ordinal for update in updates],
            quantities=[update.quantity for update in updates],
            prices=[update.price for update in updates],
            fees=[update.fee for update in updates],
            happened_at=happened_at,
        )

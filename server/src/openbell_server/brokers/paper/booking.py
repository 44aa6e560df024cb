"""Writes the results of matching to the ledger: executions with fees, updates and order states."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from openbell_exchange.matching import MarketOrder, Match, after
from openbell_exchange.terms import OrderSide, OrderSpec, OrderType, TimeInForce
from openbell_exchange.updates import Update, changes_of
from openbell_server.brokers.paper.ledger import Ledger, queries

# Account, profile and the client's id.
OrderId = tuple[UUID, str, str | None]


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
        steps = changes_of(row["number"], order, matched, row["ordinal"])
        updates += steps
        if steps:
            filled = after(order, matched).filled
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


async def used_ids(
    connection: "asyncpg.Connection[asyncpg.Record]", order_ids: Sequence[OrderId]
) -> dict[OrderId, bool]:
    """The ids that orders have, and whether one of those is working."""
    account_ids, profiles, client_order_ids = zip(*order_ids, strict=True)
    rows = queries.used_ids(connection, account_ids=account_ids, profiles=profiles, client_order_ids=client_order_ids)
    found = [row["is_open"] async for row in rows]
    return {each: is_open for each, is_open in zip(order_ids, found, strict=True) if is_open is not None}


async def record_submits(
    ledger: Ledger,
    connection: "asyncpg.Connection[asyncpg.Record]",
    submits: Sequence[Mapping[str, Any]],
    updates: Sequence[Update],
    now: datetime,
    *,
    check_ids: bool,
) -> int | None:
    """Record submits and the updates of those that are accepted, whose orders are numbered from 1 here.

    Returns the number of the last order before; with check_ids, returns None and records nothing if an id is used.
    """
    listed = [{**row, "place": place} for place, row in enumerate(submits, 1)]
    if not check_ids:
        listed = [{**row, "only_open": None} for row in listed]
    row = await queries.record_submits(
        connection,
        submits=_json(listed),
        updates=_json([_update_row(place, update) for place, update in enumerate(updates, 1)]),
        accepted_at=now,
    )
    if row is None:
        return None
    last_order, last_update = int(row["order_number"]), int(row["update_number"])
    orders = {row["number"]: row for row in submits}
    ledger.add_updates(
        last_update,
        [
            {
                **orders[update.order_number],
                "terms_version": 1,
                "accepted_at": now,
                "number": last_update + place,
                "order_number": last_order + update.order_number,
                "status": update.status,
                "filled_quantity": update.filled_quantity,
                "ordinal": update.ordinal,
                "revision": None,
                "execution_quantity": update.quantity,
                "price": update.price,
                "fee": update.fee,
                "executed_at": now,
            }
            for place, update in enumerate(updates, 1)
        ],
    )
    return last_order


def _update_row(place: int, update: Update) -> dict[str, Any]:
    return {
        "place": place,
        "number": update.order_number,
        "status": update.status,
        "filled_quantity": update.filled_quantity,
        "ordinal": update.ordinal,
        "quantity": update.quantity,
        "price": update.price,
        "fee": update.fee,
    }


def _json(rows: Sequence[Mapping[str, Any]]) -> str:
    return msgspec.json.encode(rows).decode()

"""What a report changes of an order's executions, one trade after the other, as the account's log tells them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from openbell_server.domain.broker_orders import BrokerExecution, ExecutionChange
from openbell_server.domain.order_aggregate import Order, Standing
from openbell_server.domain.order_reports import rank_of_change
from openbell_server.domain.orders import EXACT, exact_total


class TradeKind(StrEnum):
    """What became of an execution."""

    NORMAL = "NORMAL"
    # Taken back: quantity and price are those it had.
    BUST = "BUST"
    # Quantity and price are those it has from now on.
    CORRECTION = "CORRECTION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """One step of an order's executions."""

    execution_id: str
    kind: TradeKind
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    # Of what is filled.
    change: Decimal


@dataclass(frozen=True, slots=True)
class Tally:
    """How an order, and what the account holds of its symbol, stand after a trade."""

    cumulative_quantity: Decimal
    leaves_quantity: Decimal
    position: Decimal


def recorded(fills: Iterable[BrokerExecution]) -> list[Trade]:
    """Executions never seen before."""
    return [
        Trade(
            execution_id=fill.execution_id,
            kind=TradeKind.NORMAL,
            quantity=fill.quantity,
            price=fill.price,
            executed_at=fill.executed_at,
            change=fill.quantity,
        )
        for fill in fills
    ]


def recorded_and_changed(
    unseen: Collection[str],
    executions: Iterable[BrokerExecution],
    known: Collection[ExecutionChange],
    news: Collection[ExecutionChange],
) -> list[Trade]:
    """Executions never seen before, and what changes of any; what is told of one that was not seen yet waits for it.

    An old word about an execution changes nothing, and one that was taken back stays so.
    """
    fills = {fill.execution_id: fill for fill in executions}
    trades = recorded(fills[execution_id] for execution_id in unseen)
    latest: dict[str, ExecutionChange] = {}
    for change in sorted(known, key=rank_of_change):
        if change.execution_id not in unseen:
            latest[change.execution_id] = change
    for change in sorted([*(c for c in known if c.execution_id in unseen), *news], key=rank_of_change):
        fill, before = fills.get(change.execution_id), latest.get(change.execution_id)
        if fill is None or (before and (not before.quantity or rank_of_change(before) > rank_of_change(change))):
            continue
        latest[change.execution_id] = change
        trades.append(_changed(fill, before or fill, change))
    return trades


def tallies(before: Order, after: Order, trades: Sequence[Trade], signed: int, position: Decimal) -> list[Tally]:
    """How things stand after each of the trades that led to an order and a position; the last of them agrees with both.

    Signed is 1 for what buys and -1 for what sells.
    """
    was_over = before.standing is after.standing is Standing.CLOSED
    to_come = exact_total(trade.change for trade in trades)
    found = []
    for trade in trades:
        to_come = EXACT.subtract(to_come, trade.change)
        filled = EXACT.subtract(after.filled_quantity, to_come)
        leaves = Decimal(0) if was_over else max(Decimal(0), EXACT.subtract(after.quantity, filled))
        found.append(Tally(filled, leaves, EXACT.subtract(position, EXACT.multiply(signed, to_come))))
    return [*found[:-1], *(replace(last, leaves_quantity=after.leaves_quantity) for last in found[-1:])]


def _changed(fill: BrokerExecution, stood: BrokerExecution | ExecutionChange, change: ExecutionChange) -> Trade:
    told = change if change.quantity else stood
    return Trade(
        execution_id=fill.execution_id,
        kind=TradeKind.CORRECTION if change.quantity else TradeKind.BUST,
        quantity=told.quantity,
        price=told.price,
        executed_at=fill.executed_at,
        change=EXACT.subtract(change.quantity, stood.quantity),
    )

"""The trades of a report: how each execution or change of it moves an order, as the event log shows them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange
from openbell_server.domain.orders.order_aggregate import Order, Standing
from openbell_server.domain.orders.order_reports import rank_of_change
from openbell_server.domain.orders.order_terms import EXACT, exact_total


class TradeKind(StrEnum):
    """What happened to an execution."""

    NORMAL = "NORMAL"
    # Quantity, price and fee are those before the bust.
    BUST = "BUST"
    # Quantity, price and fee are the corrected ones.
    CORRECTION = "CORRECTION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    execution_id: str
    kind: TradeKind
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    # None: not reported.
    fee: Decimal | None = None
    # Of the filled quantity.
    change: Decimal


@dataclass(frozen=True, slots=True)
class Tally:
    cumulative_quantity: Decimal
    leaves_quantity: Decimal
    position: Decimal


def recorded(fills: Iterable[BrokerExecution]) -> list[Trade]:
    """Trades of executions that were never seen before."""
    return [
        Trade(
            execution_id=fill.execution_id,
            kind=TradeKind.NORMAL,
            quantity=fill.quantity,
            price=fill.price,
            executed_at=fill.executed_at,
            fee=fill.fee,
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
    """Trades of new executions and of changes; a change of an execution not yet seen waits for it.

    Older revisions change nothing, and a bust is final.
    """
    fills = {fill.execution_id: fill for fill in executions}
    trades = recorded(fills[execution_id] for execution_id in unseen)
    latest: dict[str, ExecutionChange] = {}
    for change in sorted(known, key=rank_of_change):
        if change.execution_id not in unseen:
            stood = latest.get(change.execution_id) or fills.get(change.execution_id)
            latest[change.execution_id] = _with_fee(change, stood)
    for change in sorted([*(c for c in known if c.execution_id in unseen), *news], key=rank_of_change):
        fill, before = fills.get(change.execution_id), latest.get(change.execution_id)
        if fill is None or (before and (not before.quantity or rank_of_change(before) > rank_of_change(change))):
            continue
        latest[change.execution_id] = _with_fee(change, before or fill)
        trades.append(_changed(fill, before or fill, latest[change.execution_id]))
    return trades


def tallies(before: Order, after: Order, trades: Sequence[Trade], signed: int, position: Decimal) -> list[Tally]:
    """The totals after each of the trades that led to `after` and to `position`; the last tally equals both.

    `signed` is 1 for a buy and -1 for a sell.
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


def _with_fee(change: ExecutionChange, stood: BrokerExecution | ExecutionChange | None) -> ExecutionChange:
    """The change with the fee that counts after it."""
    return change if change.fee is not None or stood is None else replace(change, fee=stood.fee)


def _changed(fill: BrokerExecution, stood: BrokerExecution | ExecutionChange, change: ExecutionChange) -> Trade:
    shown = change if change.quantity else stood
    return Trade(
        execution_id=fill.execution_id,
        kind=TradeKind.CORRECTION if change.quantity else TradeKind.BUST,
        quantity=shown.quantity,
        price=shown.price,
        executed_at=fill.executed_at,
        fee=shown.fee,
        change=EXACT.subtract(change.quantity, stood.quantity),
    )

"""Adopt the broker's positions where they differ from ours for longer than the broker's lists may lag."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from openbell_server.application.events.account_log import log_position_adjusted
from openbell_server.application.ports.account_transaction import AccountTransaction, HeldPositions
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition
from openbell_server.domain.orders.action_lifecycle import PAST_DOOR
from openbell_server.domain.orders.order_terms import EXACT, exact_total
from openbell_server.domain.orders.positions import PositionCause


@dataclass(frozen=True, slots=True)
class _Difference:
    ours: Decimal
    theirs: Decimal
    since: datetime


@dataclass(frozen=True, slots=True)
class TakePositions:
    """Executions are never invented: a difference that they do not explain is recorded as an adjustment.

    The broker's list of orders may lag behind its positions, or the reverse. So a difference counts only if two
    reconciliations, further apart than this lag, find the same one.
    """

    _differences: dict[AccountId, dict[Symbol, _Difference]] = field(default_factory=dict)

    async def __call__(
        self,
        transaction: AccountTransaction,
        account_id: AccountId,
        reported: Sequence[BrokerPosition],
        began_at: datetime,
        lag: timedelta,
    ) -> tuple[int, bool]:
        """Adjust confirmed differences; returns how many, and whether unconfirmed ones are left.

        The positions were read after began_at, and the orders that were read after them are recorded by now.
        """
        held = await transaction.held_positions()
        before = self._differences.pop(account_id, {})
        differing, averages = _differences(held, reported), _average_prices(reported)
        orders = await transaction.open_orders() if differing else []
        in_doubt = {order.terms.symbol for order in orders if order.state in PAST_DOOR}
        waiting = {}
        for symbol, (ours, theirs) in sorted(differing.items()):
            first = before.get(symbol)
            is_same = first is not None and (first.ours, first.theirs) == (ours, theirs)
            since = first.since if first is not None and is_same else transaction.now
            moved_at = held.moved_at.get(symbol, since)
            if symbol in in_doubt or began_at - max(since, moved_at) < lag:
                waiting[symbol] = _Difference(ours, theirs, since)
                continue
            cause = PositionCause.OPENING if held.as_of is None else PositionCause.UNEXPLAINED
            average = averages.get(symbol) if theirs else None
            await transaction.add_to_position(symbol, EXACT.subtract(theirs, ours), cause, average_price=average)
            log_position_adjusted(transaction, symbol, ours, theirs, cause, average)
        if waiting:
            self._differences[account_id] = waiting
        else:
            await transaction.save_positions_as_of(began_at)
        return len(differing) - len(waiting), bool(waiting)


def _differences(held: HeldPositions, reported: Sequence[BrokerPosition]) -> Mapping[Symbol, tuple[Decimal, Decimal]]:
    """By symbol: our quantity and the broker's."""
    theirs: dict[Symbol, Decimal] = {}
    for position in reported:
        theirs[position.symbol] = exact_total([theirs.get(position.symbol, Decimal(0)), position.quantity])
    both = {
        symbol: (held.quantities.get(symbol, Decimal(0)), theirs.get(symbol, Decimal(0)))
        for symbol in {*held.quantities, *theirs}
    }
    return {symbol: pair for symbol, pair in both.items() if pair[0] != pair[1]}


def _average_prices(reported: Sequence[BrokerPosition]) -> Mapping[Symbol, Decimal | None]:
    """By symbol, of the whole position; None if the broker does not report it, or reports the position in parts."""
    averages: dict[Symbol, Decimal | None] = {}
    for position in reported:
        averages[position.symbol] = None if position.symbol in averages else position.average_price
    return averages

"""Take over what the broker says an account holds, where that is more than a moment between two books."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from openbell_server.application.account_log import log_position_adjusted
from openbell_server.application.ports.execution import AccountTransaction, HeldPositions
from openbell_server.domain.action_lifecycle import PAST_DOOR
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.instruments import BrokerPosition
from openbell_server.domain.orders import EXACT, exact_total


class Cause(StrEnum):
    """Why a position is not what was filled."""

    # The account held it before it was compared for the first time.
    OPENING = "OPENING"
    # A trade elsewhere, a transfer, a split: the broker does not say.
    UNEXPLAINED = "UNEXPLAINED"


@dataclass(frozen=True, slots=True)
class _Difference:
    ours: Decimal
    theirs: Decimal
    since: datetime


@dataclass(frozen=True, slots=True)
class TakePositions:
    """Executions are never invented: what they do not explain is an adjustment of its own.

    A list of orders may lag behind the positions, or the other way round. So a difference counts once it was the same
    in two comparisons, with more time between than the broker may lag.
    """

    _differences: dict[AccountId, dict[Symbol, _Difference]] = field(default_factory=dict)

    async def __call__(
        self,
        transaction: AccountTransaction,
        account_id: AccountId,
        told: Sequence[BrokerPosition],
        began_at: datetime,
        lag: timedelta,
    ) -> tuple[int, bool]:
        """Write what has differed for long; of how many, and whether something differs that must be looked at again.

        The positions were told after the comparison began, and the orders after them are on record by now.
        """
        held = await transaction.held_positions()
        before = self._differences.pop(account_id, {})
        differing = _differences(held, told)
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
            cause = Cause.OPENING if held.as_of is None else Cause.UNEXPLAINED
            await transaction.adjust_position(symbol, EXACT.subtract(theirs, ours), cause)
            log_position_adjusted(transaction, symbol, ours, theirs, cause)
        if waiting:
            self._differences[account_id] = waiting
        else:
            await transaction.save_positions_as_of(began_at)
        return len(differing) - len(waiting), bool(waiting)


def _differences(held: HeldPositions, told: Sequence[BrokerPosition]) -> Mapping[Symbol, tuple[Decimal, Decimal]]:
    """By symbol: what we counted, and what the broker says."""
    theirs: dict[Symbol, Decimal] = {}
    for position in told:
        theirs[position.symbol] = exact_total([theirs.get(position.symbol, Decimal(0)), position.quantity])
    both = {
        symbol: (held.quantities.get(symbol, Decimal(0)), theirs.get(symbol, Decimal(0)))
        for symbol in {*held.quantities, *theirs}
    }
    return {symbol: pair for symbol, pair in both.items() if pair[0] != pair[1]}

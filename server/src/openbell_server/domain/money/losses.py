"""How much an account has lost on a day: from the day's opening, and from its highest point."""

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from openbell_server.domain.orders.order_terms import EXACT

# An older measurement is no basis for a limit.
AGE_MAX: Final = timedelta(seconds=30)
_NOTHING: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossMark:
    """The profit of an account in one currency, and the largest losses of the day, which only grow until it ends."""

    day: date
    # The profit of everything that was ever traded, fees included: when the day began, at its highest, and now.
    opening: Decimal
    highest: Decimal
    profit: Decimal
    lost_from_opening: Decimal = _NOTHING
    lost_from_highest: Decimal = _NOTHING
    as_of: datetime

    def is_current(self, now: datetime) -> bool:
        return now - self.as_of <= AGE_MAX


def measured(before: LossMark | None, day: date, profit: Decimal, at: datetime) -> LossMark:
    """The mark after a measurement. A day begins with the last profit of the day before, the first one with its own."""
    if before is None:
        return LossMark(day=day, opening=profit, highest=profit, profit=profit, as_of=at)
    if day > before.day:
        before = LossMark(
            day=day, opening=before.profit, highest=before.profit, profit=before.profit, as_of=before.as_of
        )
    highest = max(before.highest, profit)
    return replace(
        before,
        highest=highest,
        profit=profit,
        lost_from_opening=max(before.lost_from_opening, EXACT.subtract(before.opening, profit)),
        lost_from_highest=max(before.lost_from_highest, EXACT.subtract(highest, profit)),
        as_of=at,
    )

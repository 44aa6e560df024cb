"""What happens to an order, as a list of updates: its fills with their fees, and its end."""

from dataclasses import dataclass
from decimal import Decimal

from openbell_exchange.matching import MarketOrder, Match, after
from openbell_exchange.money import fee
from openbell_exchange.terms import EXACT, ReportStatus


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


def changes_of(number: int, order: MarketOrder, matched: Match, ordinal: int) -> list[Update]:
    """The updates of a working order after a quote; a stop that only triggered has one too, an unchanged order none."""
    updates = updates_of(number, order, matched, ordinal)
    if not updates and matched.triggered != order.triggered:
        return [Update(order_number=number, status=matched.status, filled_quantity=after(order, matched).filled)]
    return updates

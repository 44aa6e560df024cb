"""Fees and buying power. Exact numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from openbell_exchange.terms import EXACT, OrderSide, Symbol, exact_total

# Cash of a new account: more than any test or demonstration spends.
CASH: Final = Decimal(1_000_000_000_000)
# Fee per share, limited to a part of the execution's value.
FEE_PER_SHARE: Final = Decimal("0.001")
FEE_PART_MAX: Final = Decimal("0.001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A position, negative if short, and what the account's working orders would add."""

    symbol: Symbol
    price: Decimal
    quantity: Decimal = Decimal(0)
    # Working buys: value of those with a price, quantity of those without.
    buying_value: Decimal = Decimal(0)
    buying_quantity: Decimal = Decimal(0)
    # Quantity of all working buys and sells.
    buying: Decimal = Decimal(0)
    selling: Decimal = Decimal(0)

    @property
    def tied(self) -> Decimal:
        """The cash this reserves: the value of working buys, and twice the value of shorts (proceeds and margin)."""
        nothing = Decimal(0)
        short = max(nothing, EXACT.minus(self.quantity))
        # Sells beyond the position would be short too; their proceeds have not arrived yet.
        could_be_short = max(nothing, EXACT.subtract(self.selling, self.quantity))
        at_price = exact_total((self.buying_quantity, short, could_be_short))
        return EXACT.add(self.buying_value, EXACT.multiply(at_price, self.price))


def fee(quantity: Decimal, price: Decimal) -> Decimal:
    """The unrounded fee for one execution."""
    value = EXACT.multiply(quantity, price)
    return min(EXACT.multiply(quantity, FEE_PER_SHARE), EXACT.multiply(value, FEE_PART_MAX))


def buying_power(cash: Decimal, holdings: Iterable[Holding]) -> Decimal:
    return EXACT.subtract(cash, exact_total(holding.tied for holding in holdings))


def only_closes(side: OrderSide, holding: Holding) -> bool:
    """Whether all working orders of this side, a new one included, can at most close the position."""
    if side is OrderSide.BUY:
        return holding.buying <= EXACT.minus(holding.quantity)
    return holding.selling <= holding.quantity

"""What trading costs at the paper broker and how much an account may buy: pure rules, exact numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders import EXACT, OrderSide, exact_total

# Of an account that nobody has given any: no test or demonstration comes to its end.
CASH: Final = Decimal(1_000_000_000_000)
# The schedule of fees: so much for a share, but not more than this part of an execution's value.
FEE_PER_SHARE: Final = Decimal("0.001")
FEE_PART_MAX: Final = Decimal("0.001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What an account has in a symbol, below zero if it is short, and what its working orders would add."""

    symbol: Symbol
    price: Decimal
    quantity: Decimal = Decimal(0)
    # Working buys: their value at their own prices, and the quantity of those that have none.
    buying_value: Decimal = Decimal(0)
    buying_quantity: Decimal = Decimal(0)
    # Working buys and sells altogether.
    buying: Decimal = Decimal(0)
    selling: Decimal = Decimal(0)

    @property
    def tied(self) -> Decimal:
        """The cash that it takes: for working buys, and for shorts once the proceeds and once as much again."""
        nothing = Decimal(0)
        short = max(nothing, EXACT.minus(self.quantity))
        # Sells beyond what is held would be short too; their proceeds are not there yet.
        could_be_short = max(nothing, EXACT.subtract(self.selling, self.quantity))
        at_price = exact_total((self.buying_quantity, short, could_be_short))
        return EXACT.add(self.buying_value, EXACT.multiply(at_price, self.price))


def fee(quantity: Decimal, price: Decimal) -> Decimal:
    """The fee for one execution, unrounded."""
    value = EXACT.multiply(quantity, price)
    return min(EXACT.multiply(quantity, FEE_PER_SHARE), EXACT.multiply(value, FEE_PART_MAX))


def cash_flow(side: OrderSide, quantity: Decimal, price: Decimal) -> Decimal:
    """What an execution does to the cash, without its fee."""
    value = EXACT.multiply(quantity, price)
    return EXACT.minus(value) if side is OrderSide.BUY else value


def buying_power(cash: Decimal, holdings: Iterable[Holding]) -> Decimal:
    """What an account may still buy, or sell short."""
    return EXACT.subtract(cash, exact_total(holding.tied for holding in holdings))


def only_closes(side: OrderSide, holding: Holding) -> bool:
    """Whether all that works on this side, a new order included, can do no more than end the position."""
    if side is OrderSide.BUY:
        return holding.buying <= EXACT.minus(holding.quantity)
    return holding.selling <= holding.quantity

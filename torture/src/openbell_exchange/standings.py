"""What an account owns and has in working orders, and whether it can afford an order."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from openbell_exchange.matching import MarketOrder, Match, Quote
from openbell_exchange.money import CASH, Holding, buying_power, fee, only_closes
from openbell_exchange.terms import EXACT, OrderSide, ReportStatus, Symbol, decimal_text, exact_total

_SHORTING_OFF: Final = "shorting is off for this account"
QuoteOf = Callable[[Symbol], Quote]


@dataclass(frozen=True, slots=True)
class Standing:
    """What an account owns and has in working orders; it changes with each order that is accepted."""

    flow: Decimal
    fees: Decimal
    holdings: dict[Symbol, Holding]

    @property
    def cash(self) -> Decimal:
        return EXACT.add(CASH, self.flow)

    def at_prices(self, quote_of: QuoteOf) -> "Standing":
        """With current prices, and without holdings that have become empty."""
        holdings = {
            symbol: holding if (price := quote_of(symbol).price) == holding.price else replace(holding, price=price)
            for symbol, holding in self.holdings.items()
            if holding.quantity or holding.buying or holding.selling
        }
        return Standing(self.flow, self.fees, holdings)

    def holding(self, symbol: Symbol, price: Decimal) -> Holding:
        return self.holdings.get(symbol) or Holding(symbol=symbol, price=price)

    def after(self, holding: Holding, order: MarketOrder, matched: Match) -> "Standing":
        """With an accepted order: its fills are paid for and held, the rest works."""
        is_buy = order.side is OrderSide.BUY
        filled = exact_total(fill.quantity for fill in matched.fills)
        value = exact_total(EXACT.multiply(fill.quantity, fill.price) for fill in matched.fills)
        fees = _fees(matched)
        flow = EXACT.subtract(EXACT.subtract(self.flow, value) if is_buy else EXACT.add(self.flow, value), fees)
        held = EXACT.add(holding.quantity, filled) if is_buy else EXACT.subtract(holding.quantity, filled)
        holding = replace(holding, quantity=held)
        rest = EXACT.subtract(order.remaining, filled)
        if matched.status is not ReportStatus.WORKING:
            pass
        elif not is_buy:
            holding = replace(holding, selling=EXACT.add(holding.selling, rest))
        elif own_price := order.spec.limit_price or order.spec.stop_price:
            value = EXACT.add(holding.buying_value, EXACT.multiply(rest, own_price))
            holding = replace(holding, buying=EXACT.add(holding.buying, rest), buying_value=value)
        else:
            quantity = EXACT.add(holding.buying_quantity, rest)
            holding = replace(holding, buying=EXACT.add(holding.buying, rest), buying_quantity=quantity)
        return Standing(flow, EXACT.add(self.fees, fees), {**self.holdings, holding.symbol: holding})


def money_refusal(
    standing: Standing, holding: Holding, order: MarketOrder, matched: Match, *, shorting: bool
) -> tuple[str, str] | None:
    """The code and text of a refusal if the account lacks the shares or the money for an order, else None.

    An order that only closes a position is always affordable.
    """
    if order.side is OrderSide.SELL_SHORT and not shorting:
        return "shorting_off", _SHORTING_OFF
    with_it = _with(holding, order, matched)
    if only_closes(order.side, with_it):
        return None
    if order.side is not OrderSide.BUY and not shorting:
        return "insufficient_position", _lacking(holding)
    cash = EXACT.subtract(standing.cash, _fees(matched))
    if buying_power(cash, {**standing.holdings, holding.symbol: with_it}.values()) < 0:
        return "insufficient_buying_power", "the account's buying power does not cover this order"
    return None


def _lacking(holding: Holding) -> str:
    if holding.quantity <= 0:
        return f"the account holds no {holding.symbol}, and {_SHORTING_OFF}"
    held, selling = decimal_text(holding.quantity), decimal_text(holding.selling)
    working = f", of which {selling} are in working sells" if holding.selling else ""
    return f"the account holds {held} {holding.symbol}{working}, and {_SHORTING_OFF}"


def _with(holding: Holding, order: MarketOrder, matched: Match) -> Holding:
    """The holding if the whole order worked: the immediate fill at its price, the rest at the order's own price."""
    if order.side is not OrderSide.BUY:
        return replace(holding, selling=EXACT.add(holding.selling, order.remaining))
    at_once = exact_total(EXACT.multiply(fill.quantity, fill.price) for fill in matched.fills)
    rest = EXACT.subtract(order.remaining, exact_total(fill.quantity for fill in matched.fills))
    own_price = order.spec.limit_price or order.spec.stop_price or holding.price
    value = EXACT.add(at_once, EXACT.multiply(rest, own_price))
    return replace(
        holding, buying=EXACT.add(holding.buying, order.remaining), buying_value=EXACT.add(holding.buying_value, value)
    )


def _fees(matched: Match) -> Decimal:
    return exact_total(fee(fill.quantity, fill.price) for fill in matched.fills)

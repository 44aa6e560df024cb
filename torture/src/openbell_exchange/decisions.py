"""Which commands the market accepts, and why it refuses the others."""

from decimal import Decimal
from typing import Final

from openbell_exchange.listings import unlisted_text
from openbell_exchange.matching import MarketOrder, Match, off_tick_reason, spec_with, unsupported_reason
from openbell_exchange.standings import Standing, money_refusal
from openbell_exchange.terms import InvalidTerms, OrderSpec, OrderType, ReportStatus, Symbol, Terms

DUPLICATE_ID: Final = "duplicate_client_order_id"
UNKNOWN_ORDER: Final = "unknown_order"
UNKNOWN_SYMBOL: Final = "unknown_symbol"
TOO_MANY_REQUESTS: Final = "too_many_requests"
# The answer of a fault: the command was done.
DENIED_ALTHOUGH_DONE: Final = "order_not_permitted"


class Refusal(Exception):
    """A definite refusal: nothing was done."""

    def __init__(self, code: str, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        # Seconds, if too many commands came.
        self.retry_after = retry_after


def spec_of(order_type: OrderType, terms: Terms) -> OrderSpec:
    """Raises Refusal if the terms do not fit the order type."""
    try:
        spec = spec_with(order_type, terms)
    except InvalidTerms as wrong:
        raise Refusal("invalid_order", str(wrong)) from wrong
    why_not = unsupported_reason(spec)
    if why_not is not None:
        raise Refusal("invalid_order", why_not)
    return spec


def order_refusal(
    standing: Standing,
    symbol: Symbol,
    price: Decimal,
    order: MarketOrder,
    matched: Match,
    *,
    is_listed: bool,
    shorting: bool,
    any_tick: bool,
) -> Refusal | None:
    """Why the account may not have such an order, matched at this price of its symbol."""
    if not is_listed:
        return Refusal(UNKNOWN_SYMBOL, unlisted_text(symbol))
    off_tick = None if any_tick else off_tick_reason(order.spec)
    if off_tick is not None:
        return Refusal("off_tick", off_tick)
    lacking = money_refusal(standing, standing.holding(symbol, price), order, matched, shorting=shorting)
    return None if lacking is None else Refusal(*lacking)


def replace_refusal(status: ReportStatus, filled: Decimal, order_type: OrderType, terms: Terms) -> Refusal | None:
    """Why an order that is there cannot have these terms, whatever its account has."""
    if status is not ReportStatus.WORKING:
        return Refusal("order_closed", f"the order is {status}")
    if terms.quantity <= filled:
        return Refusal("invalid_order", f"{filled} has filled already")
    try:
        spec_of(order_type, terms)
    except Refusal as refusal:
        return refusal
    return None


def cancel_refusal(status: ReportStatus, *, repeats_cancels: bool) -> Refusal | None:
    """Why an order that is there cannot be canceled."""
    is_repeat = status is ReportStatus.CANCELED and repeats_cancels
    if status is not ReportStatus.WORKING and not is_repeat:
        return Refusal("order_closed", f"the order is {status}")
    return None

"""Alpaca's JSON format: decimals as strings, and how its values map to ours."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final, Literal

import msgspec

from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import (
    DECIMAL_PATTERN,
    EXACT,
    OrderSide,
    OrderType,
    Terms,
    TimeInForce,
    exact_total,
)

DecimalText = Annotated[str, msgspec.Meta(pattern=DECIMAL_PATTERN, max_length=38)]
SignedText = Annotated[str, msgspec.Meta(pattern=DECIMAL_PATTERN.replace("^", "^-?", 1), max_length=38)]
CurrencyText = Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")]
AwareTime = Annotated[datetime, msgspec.Meta(tz=True)]
# Used in URL paths.
OrderId = Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z-]{1,64}$")]

# Text that the database can store: no NUL, limited length.
ShortText = Annotated[str, msgspec.Meta(pattern="^[^\\x00]*$", max_length=128)]
# Limits for prices that arrive as JSON numbers.
_PRICE_MAX: Final = Decimal(10) ** 18
_PRICE_DECIMALS_MAX: Final = 18

ORDER_TYPES: Final = {
    OrderType.MARKET: "market",
    OrderType.LIMIT: "limit",
    OrderType.STOP: "stop",
    OrderType.STOP_LIMIT: "stop_limit",
}
TIMES_IN_FORCE: Final = {
    TimeInForce.DAY: "day",
    TimeInForce.GOOD_TILL_CANCEL: "gtc",
    TimeInForce.IMMEDIATE_OR_CANCEL: "ioc",
    TimeInForce.FILL_OR_KILL: "fok",
    TimeInForce.AT_OPEN: "opg",
    TimeInForce.AT_CLOSE: "cls",
}
# Alpaca treats a sale of more than the position as short; an order has no other value for it.
SIDES: Final = {OrderSide.BUY: "buy", OrderSide.SELL: "sell", OrderSide.SELL_SHORT: "sell"}

# A trailing stop is a stop whose price moves; we never submit one, but the account's owner may.
_TYPE_BY_NAME: Final = {"trailing_stop": OrderType.STOP, **{name: kind for kind, name in ORDER_TYPES.items()}}
_TIME_IN_FORCE_BY_NAME: Final = {name: time for time, name in TIMES_IN_FORCE.items()}
_SIDE_BY_NAME: Final = {"buy": OrderSide.BUY, "sell": OrderSide.SELL, "sell_short": OrderSide.SELL_SHORT}
# Final states. Any other status, also one that is not known yet, counts as working, so the order is looked up again.
_ENDS: Final = {
    "filled": ReportStatus.FILLED,
    "canceled": ReportStatus.CANCELED,
    "expired": ReportStatus.EXPIRED,
    "rejected": ReportStatus.REJECTED,
}
# Final for one order of a chain, not for the chain.
REPLACED: Final = "replaced"
_DONE_FOR_DAY: Final = "done_for_day"
# Several options in one order: not an order in our sense, because it has no symbol and no side.
MULTI_LEG: Final = "mleg"


class NewOrderBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    client_order_id: str
    symbol: str
    side: str
    type: str
    qty: str
    time_in_force: str
    limit_price: str | None = None
    stop_price: str | None = None


class ReplacementBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The terms of a replacement; qty is what may still fill, not the total."""

    client_order_id: str
    qty: str
    time_in_force: str
    limit_price: str | None = None
    stop_price: str | None = None


class AlpacaOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One order. A replace creates a new order, and the two refer to each other."""

    id: OrderId
    client_order_id: ShortText
    status: ShortText
    filled_qty: DecimalText
    created_at: AwareTime
    submitted_at: AwareTime | None = None
    # None for an order by amount of money.
    qty: DecimalText | None = None
    symbol: ShortText | None = None
    side: str | None = None
    type: str | None = None
    order_class: str | None = None
    time_in_force: str | None = None
    limit_price: DecimalText | None = None
    stop_price: DecimalText | None = None
    replaces: OrderId | None = None
    replaced_by: OrderId | None = None

    def __post_init__(self) -> None:
        _check_times(self.created_at, self.submitted_at)

    @property
    def filled(self) -> Decimal:
        """Filled quantity of this order only, without the orders that it replaced."""
        return Decimal(self.filled_qty)

    @property
    def taken_at(self) -> datetime:
        return self.submitted_at or self.created_at

    @property
    def report_status(self) -> ReportStatus:
        if self.status == _DONE_FOR_DAY:
            return ReportStatus.DONE_FOR_DAY
        return _ENDS.get(self.status, ReportStatus.WORKING)

    @property
    def has_ended(self) -> bool:
        """True once it is final; an order that was replaced is not."""
        return self.status in _ENDS

    @property
    def order_type(self) -> OrderType | None:
        """None if we have no such order type."""
        return _TYPE_BY_NAME.get(self.type or "")

    @property
    def is_stop(self) -> bool:
        """A trigger is not reported; only fills show it."""
        return self.order_type in {OrderType.STOP, OrderType.STOP_LIMIT}

    @property
    def order_side(self) -> OrderSide | None:
        return _SIDE_BY_NAME.get(self.side or "")

    def terms(self, earlier: Decimal) -> Terms | None:
        """The current terms, where earlier is the filled quantity of the orders it replaced; None if they have no
        equivalent here.
        """
        time_in_force = _TIME_IN_FORCE_BY_NAME.get(self.time_in_force or "")
        if self.qty is None or time_in_force is None:
            return None
        return Terms(
            quantity=exact_total([earlier, Decimal(self.qty)]),
            limit_price=_optional(self.limit_price),
            stop_price=_optional(self.stop_price),
            time_in_force=time_in_force,
        )


class Fill(msgspec.Struct, frozen=True, kw_only=True):
    id: ShortText
    order_id: ShortText
    qty: DecimalText
    # Total filled of the order after this fill.
    cum_qty: DecimalText
    price: DecimalText
    transaction_time: AwareTime

    def __post_init__(self) -> None:
        _check_times(self.transaction_time)


class TradeUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the stream; a fill has quantity, price and time."""

    event: str
    order: AlpacaOrder
    qty: DecimalText | None = None
    price: DecimalText | None = None
    timestamp: AwareTime | None = None

    def __post_init__(self) -> None:
        _check_times(self.timestamp)


class StreamMessage(msgspec.Struct, frozen=True):
    """One message of the stream; the type of data depends on the stream."""

    stream: str
    data: msgspec.Raw = msgspec.Raw()


class Authorization(msgspec.Struct, frozen=True):
    status: str = ""


class Listening(msgspec.Struct, frozen=True):
    streams: tuple[str, ...] = ()


class NamedOrder(msgspec.Struct, frozen=True):
    """The only part of an order needed from an update that cannot be read otherwise."""

    id: OrderId


class NamingUpdate(msgspec.Struct, frozen=True):
    """An update of which only the order id can be read."""

    order: NamedOrder


class ErrorBody(msgspec.Struct, frozen=True):
    """An error; code and status are the stable contract, the message may change."""

    message: Annotated[str, msgspec.Meta(max_length=4_096)]
    code: int | None = None


class AccountBody(msgspec.Struct, frozen=True):
    account_number: ShortText
    status: ShortText


class BalancesBody(msgspec.Struct, frozen=True, kw_only=True):
    """The account's money; an amount is null or absent where it does not apply."""

    currency: CurrencyText
    cash: SignedText
    equity: SignedText | None = None
    buying_power: SignedText | None = None
    initial_margin: SignedText | None = None
    maintenance_margin: SignedText | None = None

    def to_balances(self, as_of: datetime) -> Balances:
        return Balances(
            currency=self.currency,
            cash=Decimal(self.cash),
            equity=_optional(self.equity),
            buying_power=_optional(self.buying_power),
            initial_margin=_optional(self.initial_margin),
            maintenance_margin=_optional(self.maintenance_margin),
            as_of=as_of,
        )


class PositionBody(msgspec.Struct, frozen=True, kw_only=True):
    symbol: ShortText
    qty: SignedText
    side: Literal["long", "short"]
    avg_entry_price: DecimalText | None = None


class AssetBody(msgspec.Struct, frozen=True, kw_only=True):
    symbol: ShortText
    asset_class: ShortText = msgspec.field(name="class")
    tradable: bool
    fractionable: bool = False


class QuoteBody(msgspec.Struct, frozen=True, kw_only=True):
    """The best bid and ask; 0 if there is none."""

    time: AwareTime = msgspec.field(name="t")
    bid: Decimal = msgspec.field(name="bp")
    ask: Decimal = msgspec.field(name="ap")

    def __post_init__(self) -> None:
        _check_times(self.time)
        for price in (self.bid, self.ask):
            exponent = price.as_tuple().exponent
            # The exponent of NaN and infinity is a letter.
            if not isinstance(exponent, int) or exponent < -_PRICE_DECIMALS_MAX or not 0 <= price < _PRICE_MAX:
                raise ValueError("a price must be a number of at most 18 digits on either side of the point")


class QuotesBody(msgspec.Struct, frozen=True):
    quotes: dict[ShortText, QuoteBody]


def execution_id(order_id: str, cumulative: Decimal) -> str:
    """Our id of a fill: the order's id and its total filled quantity after the fill.

    Stream and activities use different ids for the same fill, but both contain these two values.
    """
    return f"{order_id}:{EXACT.normalize(cumulative):f}"


def _optional(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _check_times(*times: datetime | None) -> None:
    try:
        for time in times:
            if time is not None:
                time.astimezone(UTC)
    except OverflowError as trouble:
        raise ValueError("a time must have one in UTC") from trouble

"""What Alpaca and its session say to each other: JSON, decimals as strings, an order's words and ours."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final, Literal

import msgspec

from openbell_server.domain.broker_orders import ReportStatus
from openbell_server.domain.orders import (
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
AwareTime = Annotated[datetime, msgspec.Meta(tz=True)]
# It goes into paths.
OrderId = Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z-]{1,64}$")]

# What can be kept: not NUL, and not without an end.
Words = Annotated[str, msgspec.Meta(pattern="^[^\\x00]*$", max_length=128)]
# Of prices that are told as numbers.
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
# A sale of more than the account holds is a short one; there is no other word for it in an order.
SIDES: Final = {OrderSide.BUY: "buy", OrderSide.SELL: "sell", OrderSide.SELL_SHORT: "sell"}

# A stop that trails is a stop whose price moves; only others open such orders.
_TYPES_TOLD: Final = {"trailing_stop": OrderType.STOP, **{word: kind for kind, word in ORDER_TYPES.items()}}
_TIMES_TOLD: Final = {word: time for time, word in TIMES_IN_FORCE.items()}
_SIDES_TOLD: Final = {"buy": OrderSide.BUY, "sell": OrderSide.SELL, "sell_short": OrderSide.SELL_SHORT}
# The ends. Every other word, those too that are not known yet, is none: such an order is asked for again.
_ENDS: Final = {
    "filled": ReportStatus.FILLED,
    "canceled": ReportStatus.CANCELED,
    "expired": ReportStatus.EXPIRED,
    "rejected": ReportStatus.REJECTED,
}
# The end of one order of a chain, not of the chain.
REPLACED: Final = "replaced"
_DONE_FOR_DAY: Final = "done_for_day"
# Several options at once, which is no order in our sense: it has no symbol and no side.
MULTI_LEG: Final = "mleg"


class NewOrderBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new order."""

    client_order_id: str
    symbol: str
    side: str
    type: str
    qty: str
    time_in_force: str
    limit_price: str | None = None
    stop_price: str | None = None


class ReplacementBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What shall come in place of an order; the quantity is what may still fill."""

    client_order_id: str
    qty: str
    time_in_force: str
    limit_price: str | None = None
    stop_price: str | None = None


class AlpacaOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One order as it is told; a replace makes another one of it, and the two name each other."""

    id: OrderId
    client_order_id: Words
    status: Words
    filled_qty: DecimalText
    created_at: AwareTime
    submitted_at: AwareTime | None = None
    # None of an order over an amount of money.
    qty: DecimalText | None = None
    symbol: Words | None = None
    side: str | None = None
    type: str | None = None
    order_class: str | None = None
    time_in_force: str | None = None
    limit_price: DecimalText | None = None
    stop_price: DecimalText | None = None
    replaces: OrderId | None = None
    replaced_by: OrderId | None = None

    def __post_init__(self) -> None:
        """Refuse times that cannot be kept."""
        _check_times(self.created_at, self.submitted_at)

    @property
    def filled(self) -> Decimal:
        """What of it has filled, without the orders before it."""
        return Decimal(self.filled_qty)

    @property
    def taken_at(self) -> datetime:
        """When the broker took it."""
        return self.submitted_at or self.created_at

    @property
    def report_status(self) -> ReportStatus:
        """How it stands, in our words."""
        if self.status == _DONE_FOR_DAY:
            return ReportStatus.DONE_FOR_DAY
        return _ENDS.get(self.status, ReportStatus.WORKING)

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it works any more, other than in an order that replaced it."""
        return self.status in _ENDS

    @property
    def order_type(self) -> OrderType | None:
        """Its kind, if it is one of ours."""
        return _TYPES_TOLD.get(self.type or "")

    @property
    def is_stop(self) -> bool:
        """Whether it waits for a price before it trades; that the price came is told by its fills only."""
        return self.order_type in {OrderType.STOP, OrderType.STOP_LIMIT}

    @property
    def order_side(self) -> OrderSide | None:
        """Which way, if it goes one."""
        return _SIDES_TOLD.get(self.side or "")

    def terms(self, earlier: Decimal) -> Terms | None:
        """What is asked for by now, with what the orders before it filled; None if we have no words for it."""
        time_in_force = _TIMES_TOLD.get(self.time_in_force or "")
        if self.qty is None or time_in_force is None:
            return None
        return Terms(
            quantity=exact_total([earlier, Decimal(self.qty)]),
            limit_price=_optional(self.limit_price),
            stop_price=_optional(self.stop_price),
            time_in_force=time_in_force,
        )


class Fill(msgspec.Struct, frozen=True, kw_only=True):
    """One activity of the kind FILL."""

    id: Words
    order_id: Words
    qty: DecimalText
    # Of its order, after it.
    cum_qty: DecimalText
    price: DecimalText
    transaction_time: AwareTime

    def __post_init__(self) -> None:
        """Refuse a time that cannot be kept."""
        _check_times(self.transaction_time)


class TradeUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What the stream tells of an order; of a fill also its size, price and time."""

    event: str
    order: AlpacaOrder
    qty: DecimalText | None = None
    price: DecimalText | None = None
    timestamp: AwareTime | None = None

    def __post_init__(self) -> None:
        """Refuse a time that cannot be kept."""
        _check_times(self.timestamp)


class StreamMessage(msgspec.Struct, frozen=True):
    """One message of the stream; what it holds depends on which stream it is."""

    stream: str
    data: msgspec.Raw = msgspec.Raw()


class Authorization(msgspec.Struct, frozen=True):
    """The answer to a sign-in at the stream."""

    status: str = ""


class Listening(msgspec.Struct, frozen=True):
    """What the stream will tell."""

    streams: tuple[str, ...] = ()


class NamedOrder(msgspec.Struct, frozen=True):
    """As much of an order as an update that cannot be read may still tell."""

    id: OrderId


class NamingUpdate(msgspec.Struct, frozen=True):
    """As much of an update."""

    order: NamedOrder


class ErrorBody(msgspec.Struct, frozen=True):
    """A no: by Alpaca's word the code and the status are its contract, and the message may change."""

    message: Annotated[str, msgspec.Meta(max_length=4_096)]
    code: int | None = None


class AccountBody(msgspec.Struct, frozen=True):
    """The account of a key."""

    account_number: Words
    status: Words


class PositionBody(msgspec.Struct, frozen=True, kw_only=True):
    """What the account has of a symbol."""

    symbol: Words
    qty: SignedText
    side: Literal["long", "short"]
    avg_entry_price: DecimalText | None = None


class AssetBody(msgspec.Struct, frozen=True, kw_only=True):
    """One symbol and its rules."""

    symbol: Words
    asset_class: Words = msgspec.field(name="class")
    tradable: bool
    fractionable: bool = False


class QuoteBody(msgspec.Struct, frozen=True, kw_only=True):
    """The best prices at a time; 0 where nobody offers."""

    time: AwareTime = msgspec.field(name="t")
    bid: Decimal = msgspec.field(name="bp")
    ask: Decimal = msgspec.field(name="ap")

    def __post_init__(self) -> None:
        """Refuse what is no price, and a time that cannot be kept."""
        _check_times(self.time)
        for price in (self.bid, self.ask):
            exponent = price.as_tuple().exponent
            # One that is not a number has a letter for it.
            if not isinstance(exponent, int) or exponent < -_PRICE_DECIMALS_MAX or not 0 <= price < _PRICE_MAX:
                raise ValueError("a price must be a number of at most 18 digits on either side of the point")


class QuotesBody(msgspec.Struct, frozen=True):
    """Quotes by symbol."""

    quotes: dict[Words, QuoteBody]


def decimal_text(number: Decimal) -> str:
    """Exactly this number, never with an exponent."""
    return format(number, "f")


def optional_text(number: Decimal | None) -> str | None:
    """The same, of a price that not every kind of order has."""
    return None if number is None else decimal_text(number)


def execution_id(order_id: str, cumulative: Decimal) -> str:
    """The one name of a fill: its order, and how much of it had filled after it.

    Stream and activities each have ids of their own for a fill, but both tell these two.
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

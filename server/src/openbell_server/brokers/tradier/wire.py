"""What Tradier and its session say to each other: forms one way, JSON the other, an order's words and ours."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from openbell_server.domain.broker_orders import OrderDescription, OrderReport, ReportStatus
from openbell_server.domain.identifiers import SYMBOL_PATTERN, Symbol
from openbell_server.domain.orders import OrderSide, OrderType, TimeInForce

AwareTime = Annotated[datetime, msgspec.Meta(tz=True)]
SymbolText = Annotated[str, msgspec.Meta(pattern=SYMBOL_PATTERN)]
OrderId = Annotated[int, msgspec.Meta(ge=1, lt=1 << 62)]
Tag = Annotated[str, msgspec.Meta(pattern="^[!-~]{0,255}$")]
Word = Annotated[str, msgspec.Meta(pattern="^[!-~]{1,64}$")]
Words = Annotated[str, msgspec.Meta(max_length=4_096)]
# Milliseconds since 1970, up to the last year there is.
Milliseconds = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800_000)]
_One = TypeVar("_One")

ORDER_TYPES: Final = {
    OrderType.MARKET: "market",
    OrderType.LIMIT: "limit",
    OrderType.STOP: "stop",
    OrderType.STOP_LIMIT: "stop_limit",
}
# Its pre and post are sessions of their own; none of ours means one of them alone.
TIMES_IN_FORCE: Final = {TimeInForce.DAY: "day", TimeInForce.GOOD_TILL_CANCEL: "gtc"}
SIDES: Final = {OrderSide.BUY: "buy", OrderSide.SELL: "sell", OrderSide.SELL_SHORT: "sell_short"}

_TYPES_TOLD: Final = {word: kind for kind, word in ORDER_TYPES.items()}
# Others may cover a short position, or trade options.
_SIDES_TOLD: Final = {
    **{word: side for side, word in SIDES.items()},
    "buy_to_cover": OrderSide.BUY,
    "buy_to_open": OrderSide.BUY,
    "buy_to_close": OrderSide.BUY,
    "sell_to_open": OrderSide.SELL_SHORT,
    "sell_to_close": OrderSide.SELL,
}
# The ends. Every other word, those too that are not known yet, is none: such an order is asked for again.
_ENDS: Final = {
    "filled": ReportStatus.FILLED,
    "canceled": ReportStatus.CANCELED,
    "expired": ReportStatus.EXPIRED,
    "rejected": ReportStatus.REJECTED,
    "error": ReportStatus.REJECTED,
}
# Several orders at once, which are none in our sense.
SEVERAL: Final = frozenset({"multileg", "combo", "oto", "oco", "otoco"})
_NUMBER_MAX: Final = 10**18
_PLACES_MAX: Final = 18
# Its JSON is made of XML: a list of one comes as that one, and nothing as a word.
_Nothing = Literal["null"] | None


class TradierOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One order as it is told; what has not filled has an average of 0."""

    id: OrderId
    status: Word
    create_date: AwareTime
    exec_quantity: Decimal
    avg_fill_price: Decimal
    transaction_date: AwareTime | None = None
    order_class: Word | None = msgspec.field(name="class", default=None)
    tag: Tag | None = None
    symbol: SymbolText | None = None
    # What an order of options is about; its symbol is what is behind them.
    option_symbol: SymbolText | None = None
    side: Word | None = None
    type: Word | None = None
    reason_description: Words | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be kept or reckoned with."""
        _check_number(self.exec_quantity)
        _check_number(self.avg_fill_price)
        for time in (self.create_date, self.transaction_date):
            _check_time(time)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will become of it."""
        return self.status in _ENDS

    def report(self) -> OrderReport:
        """In our words; of executions it tells the totals only."""
        status = _ENDS.get(self.status, ReportStatus.WORKING)
        is_refused = status is ReportStatus.REJECTED
        return OrderReport(
            client_order_id=self.tag,
            broker_order_id=str(self.id),
            status=status,
            filled_quantity=self.exec_quantity,
            executions=(),
            description=self._description(),
            broker_code=self.status if is_refused else None,
            broker_text=self.reason_description if is_refused else None,
            average_price=self.avg_fill_price if self.exec_quantity else None,
            as_of=self.transaction_date,
        )

    def _description(self) -> OrderDescription | None:
        symbol, side = self.option_symbol or self.symbol, _SIDES_TOLD.get(self.side or "")
        kind = _TYPES_TOLD.get(self.type or "")
        if symbol is None or side is None or kind is None:
            return None
        return OrderDescription(symbol=Symbol(symbol), order_side=side, order_type=kind, accepted_at=self.create_date)


class OrderBody(msgspec.Struct, frozen=True):
    """One order that was asked for."""

    order: TradierOrder


class _Orders(msgspec.Struct, frozen=True):
    order: TradierOrder | list[TradierOrder]


class OrdersBody(msgspec.Struct, frozen=True):
    """A page of orders."""

    orders: _Orders | _Nothing

    def told(self) -> list[TradierOrder]:
        """All of them."""
        return _as_list(self.orders.order) if isinstance(self.orders, _Orders) else []


class TakenOrder(msgspec.Struct, frozen=True):
    """An order that a command was about."""

    id: OrderId
    status: Word


class Errors(msgspec.Struct, frozen=True):
    """What is wrong, in words or by a code that is documented, or both."""

    error: Words | list[Words]


class CommandBody(msgspec.Struct, frozen=True):
    """The answer to a command: it was taken, or not for these reasons; both come with 200."""

    order: TakenOrder | None = None
    errors: Errors | None = None


class FaultDetail(msgspec.Struct, frozen=True):
    """Which fault it is."""

    errorcode: Words


class Fault(msgspec.Struct, frozen=True):
    """A no of the gateway before Tradier."""

    faultstring: Words
    detail: FaultDetail


class FaultBody(msgspec.Struct, frozen=True):
    """The same, as it comes."""

    fault: Fault


class ProfileAccount(msgspec.Struct, frozen=True):
    """One of the accounts that a token is for."""

    account_number: Word
    status: Word


class _Profile(msgspec.Struct, frozen=True):
    account: ProfileAccount | Annotated[list[ProfileAccount], msgspec.Meta(min_length=1)]


class ProfileBody(msgspec.Struct, frozen=True):
    """Whose token it is."""

    profile: _Profile

    def accounts(self) -> list[ProfileAccount]:
        """All that it is for."""
        return _as_list(self.profile.account)


class TradierPosition(msgspec.Struct, frozen=True):
    """What the account has of a symbol, below zero if it is short."""

    symbol: SymbolText
    quantity: Decimal

    def __post_init__(self) -> None:
        """Refuse what cannot be reckoned with."""
        _check_number(abs(self.quantity))


class _Positions(msgspec.Struct, frozen=True):
    position: TradierPosition | list[TradierPosition]


class PositionsBody(msgspec.Struct, frozen=True):
    """All that it has."""

    positions: _Positions | _Nothing

    def told(self) -> list[TradierPosition]:
        """Each of them."""
        return _as_list(self.positions.position) if isinstance(self.positions, _Positions) else []


class TradierQuote(msgspec.Struct, frozen=True):
    """The latest prices, and since when they are so; 0 for never."""

    symbol: SymbolText
    type: Word
    bid: Decimal | None = None
    ask: Decimal | None = None
    last: Decimal | None = None
    bid_date: Milliseconds = 0
    ask_date: Milliseconds = 0
    trade_date: Milliseconds = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be reckoned with."""
        for price in (self.bid, self.ask, self.last):
            _check_number(price or Decimal(0))


class _Quotes(msgspec.Struct, frozen=True):
    # Missing where no symbol is known.
    quote: TradierQuote | list[TradierQuote] = msgspec.field(default_factory=list)


class QuotesBody(msgspec.Struct, frozen=True):
    """Those of the symbols that are known."""

    quotes: _Quotes | _Nothing

    def told(self) -> list[TradierQuote]:
        """Each of them."""
        return _as_list(self.quotes.quote) if isinstance(self.quotes, _Quotes) else []


def _as_list(told: _One | list[_One]) -> list[_One]:
    return told if isinstance(told, list) else [told]


def _check_number(number: Decimal) -> None:
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_PLACES_MAX or not 0 <= number < _NUMBER_MAX:
        raise ValueError("a number is out of reach")


def _check_time(time: datetime | None) -> None:
    """Some times have none in UTC, and nothing could keep them."""
    try:
        _ = time and time.astimezone(UTC)
    except OverflowError as trouble:
        raise ValueError("a time is beyond all calendars") from trouble

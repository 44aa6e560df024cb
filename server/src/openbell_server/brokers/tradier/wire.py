"""Tradier's format: forms in requests, JSON in answers, and how its values map to ours."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from openbell_server.domain.identifiers import SYMBOL_PATTERN, Symbol
from openbell_server.domain.orders.broker_reports import OrderDescription, OrderReport, ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce

AwareTime = Annotated[datetime, msgspec.Meta(tz=True)]
SymbolText = Annotated[str, msgspec.Meta(pattern=SYMBOL_PATTERN)]
OrderId = Annotated[int, msgspec.Meta(ge=1, lt=1 << 62)]
Tag = Annotated[str, msgspec.Meta(pattern="^[!-~]{0,255}$")]
CodeText = Annotated[str, msgspec.Meta(pattern="^[!-~]{1,64}$")]
Text = Annotated[str, msgspec.Meta(max_length=4_096)]
# Milliseconds since 1970, up to the year 9999.
Milliseconds = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800_000)]
_One = TypeVar("_One")

ORDER_TYPES: Final = {
    OrderType.MARKET: "market",
    OrderType.LIMIT: "limit",
    OrderType.STOP: "stop",
    OrderType.STOP_LIMIT: "stop_limit",
}
# Tradier's pre and post are separate sessions; none of our times in force means only one of them.
TIMES_IN_FORCE: Final = {TimeInForce.DAY: "day", TimeInForce.GOOD_TILL_CANCEL: "gtc"}
SIDES: Final = {OrderSide.BUY: "buy", OrderSide.SELL: "sell", OrderSide.SELL_SHORT: "sell_short"}

_TYPE_BY_NAME: Final = {name: kind for kind, name in ORDER_TYPES.items()}
# Orders from elsewhere may cover a short position or trade options.
_SIDE_BY_NAME: Final = {
    **{name: side for side, name in SIDES.items()},
    "buy_to_cover": OrderSide.BUY,
    "buy_to_open": OrderSide.BUY,
    "buy_to_close": OrderSide.BUY,
    "sell_to_open": OrderSide.SELL_SHORT,
    "sell_to_close": OrderSide.SELL,
}
# Final states. Any other status, also one that is not known yet, counts as working, so the order is looked up again.
_ENDS: Final = {
    "filled": ReportStatus.FILLED,
    "canceled": ReportStatus.CANCELED,
    "expired": ReportStatus.EXPIRED,
    "rejected": ReportStatus.REJECTED,
    "error": ReportStatus.REJECTED,
}
# Classes that combine several orders: not an order in our sense.
MULTI_ORDER_CLASSES: Final = frozenset({"multileg", "combo", "oto", "oco", "otoco"})
_NUMBER_MAX: Final = 10**18
_PLACES_MAX: Final = 18
# Tradier converts XML to JSON: a list of one is that item, and an empty list is the string "null".
_Nothing = Literal["null"] | None


class TradierOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One order; the average price is 0 while nothing has filled."""

    id: OrderId
    status: CodeText
    create_date: AwareTime
    exec_quantity: Decimal
    avg_fill_price: Decimal
    transaction_date: AwareTime | None = None
    order_class: CodeText | None = msgspec.field(name="class", default=None)
    tag: Tag | None = None
    symbol: SymbolText | None = None
    # For an option order this is the instrument; symbol is the underlying.
    option_symbol: SymbolText | None = None
    side: CodeText | None = None
    type: CodeText | None = None
    reason_description: Text | None = None

    def __post_init__(self) -> None:
        _check_number(self.exec_quantity)
        _check_number(self.avg_fill_price)
        for time in (self.create_date, self.transaction_date):
            _check_time(time)

    @property
    def has_ended(self) -> bool:
        return self.status in _ENDS

    def report(self) -> OrderReport:
        """Reports only totals, because Tradier lists no executions."""
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
        symbol, side = self.option_symbol or self.symbol, _SIDE_BY_NAME.get(self.side or "")
        kind = _TYPE_BY_NAME.get(self.type or "")
        if symbol is None or side is None or kind is None:
            return None
        return OrderDescription(symbol=Symbol(symbol), order_side=side, order_type=kind, accepted_at=self.create_date)


class OrderBody(msgspec.Struct, frozen=True):
    order: TradierOrder


class _Orders(msgspec.Struct, frozen=True):
    order: TradierOrder | list[TradierOrder]


class OrdersBody(msgspec.Struct, frozen=True):
    orders: _Orders | _Nothing

    def as_list(self) -> list[TradierOrder]:
        return _as_list(self.orders.order) if isinstance(self.orders, _Orders) else []


class TakenOrder(msgspec.Struct, frozen=True):
    id: OrderId
    status: CodeText


class Errors(msgspec.Struct, frozen=True):
    """Texts or documented codes, or both."""

    error: Text | list[Text]


class CommandBody(msgspec.Struct, frozen=True):
    """The answer to a command, accepted or refused; both have status 200."""

    order: TakenOrder | None = None
    errors: Errors | None = None


class FaultDetail(msgspec.Struct, frozen=True):
    errorcode: Text


class Fault(msgspec.Struct, frozen=True):
    """An error of the gateway in front of Tradier."""

    faultstring: Text
    detail: FaultDetail


class FaultBody(msgspec.Struct, frozen=True):
    fault: Fault


class ProfileAccount(msgspec.Struct, frozen=True):
    account_number: CodeText
    status: CodeText


class _Profile(msgspec.Struct, frozen=True):
    account: ProfileAccount | Annotated[list[ProfileAccount], msgspec.Meta(min_length=1)]


class ProfileBody(msgspec.Struct, frozen=True):
    """The user of a token."""

    profile: _Profile

    def accounts(self) -> list[ProfileAccount]:
        return _as_list(self.profile.account)


class TradierPosition(msgspec.Struct, frozen=True):
    """The quantity is negative for a short position."""

    symbol: SymbolText
    quantity: Decimal

    def __post_init__(self) -> None:
        _check_number(self.quantity.copy_abs())


class _Positions(msgspec.Struct, frozen=True):
    position: TradierPosition | list[TradierPosition]


class PositionsBody(msgspec.Struct, frozen=True):
    positions: _Positions | _Nothing

    def as_list(self) -> list[TradierPosition]:
        return _as_list(self.positions.position) if isinstance(self.positions, _Positions) else []


class _CashAccount(msgspec.Struct, frozen=True):
    cash_available: Decimal

    def __post_init__(self) -> None:
        _check_number(self.cash_available.copy_abs())


class _MarginAccount(msgspec.Struct, frozen=True):
    stock_buying_power: Decimal

    def __post_init__(self) -> None:
        _check_number(self.stock_buying_power.copy_abs())


class TradierBalances(msgspec.Struct, frozen=True, kw_only=True):
    """The account's money. Which part applies depends on the type of the account: cash, margin or pdt.

    Requirements and calls are not read: Tradier does not define them as an initial or a maintenance margin.
    """

    account_number: CodeText
    account_type: CodeText | None = None
    total_cash: Decimal
    total_equity: Decimal
    cash: _CashAccount | None = None
    margin: _MarginAccount | None = None
    pdt: _MarginAccount | None = None

    def __post_init__(self) -> None:
        for amount in (self.total_cash, self.total_equity):
            _check_number(amount.copy_abs())

    @property
    def buying_power(self) -> Decimal | None:
        """For stocks; None for a type of account that is not known."""
        if self.account_type == "cash":
            return None if self.cash is None else self.cash.cash_available
        part = {"margin": self.margin, "pdt": self.pdt}.get(self.account_type or "")
        return None if part is None else part.stock_buying_power


class BalancesBody(msgspec.Struct, frozen=True):
    balances: TradierBalances


class TradierQuote(msgspec.Struct, frozen=True):
    """The latest prices with the time of each; 0 if there was none."""

    symbol: SymbolText
    type: CodeText
    bid: Decimal | None = None
    ask: Decimal | None = None
    last: Decimal | None = None
    bid_date: Milliseconds = 0
    ask_date: Milliseconds = 0
    trade_date: Milliseconds = 0

    def __post_init__(self) -> None:
        for price in (self.bid, self.ask, self.last):
            _check_number(price or Decimal(0))


class _Quotes(msgspec.Struct, frozen=True):
    # Missing if no symbol is known.
    quote: TradierQuote | list[TradierQuote] = msgspec.field(default_factory=list)


class QuotesBody(msgspec.Struct, frozen=True):
    quotes: _Quotes | _Nothing

    def as_list(self) -> list[TradierQuote]:
        return _as_list(self.quotes.quote) if isinstance(self.quotes, _Quotes) else []


def _as_list(value: _One | list[_One]) -> list[_One]:
    return value if isinstance(value, list) else [value]


def _check_number(number: Decimal) -> None:
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_PLACES_MAX or not 0 <= number < _NUMBER_MAX:
        raise ValueError("a number is out of reach")


def _check_time(time: datetime | None) -> None:
    """Raise ValueError for a time that does not exist in UTC, because it cannot be stored."""
    try:
        _ = time and time.astimezone(UTC)
    except OverflowError as trouble:
        raise ValueError("a time is beyond all calendars") from trouble

"""A script by Nautilus Trader's backtest: one instrument for each order, so that orders do not meet each other."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from nautilus_trader.backtest.engine import BacktestEngine, BacktestEngineConfig
from nautilus_trader.config import LoggingConfig, RiskEngineConfig
from nautilus_trader.model.currencies import USD
from nautilus_trader.model.data import BookOrder, OrderBookDelta, OrderBookDeltas
from nautilus_trader.model.enums import (
    AccountType,
    BookAction,
    BookType,
    OmsType,
    OrderSide,
    OrderStatus,
    TimeInForce,
)
from nautilus_trader.model.events import OrderFilled, OrderPendingCancel
from nautilus_trader.model.identifiers import InstrumentId, Symbol, TraderId, Venue
from nautilus_trader.model.instruments import Equity
from nautilus_trader.model.objects import Money, Price, Quantity
from nautilus_trader.trading.strategy import Strategy

from openbell_exchange.matching import Quote
from openbell_server.domain.orders import order_terms as our
from openbell_server.domain.orders.broker_reports import ReportStatus
from oracle.ours import Outcome
from oracle.scripts import Cancel, Command, Replace, Script, Submit

_VENUE = Venue("SIM")
_SECOND = 1_000_000_000
_NEVER = datetime(2100, 1, 1, tzinfo=UTC)
_ENDED = {
    OrderStatus.FILLED: ReportStatus.FILLED,
    OrderStatus.EXPIRED: ReportStatus.EXPIRED,
    OrderStatus.REJECTED: ReportStatus.REJECTED,
    OrderStatus.DENIED: ReportStatus.REJECTED,
}
_TIMES = {
    our.TimeInForce.GOOD_TILL_CANCEL: TimeInForce.GTC,
    our.TimeInForce.IMMEDIATE_OR_CANCEL: TimeInForce.IOC,
    our.TimeInForce.FILL_OR_KILL: TimeInForce.FOK,
}


class _Player(Strategy):  # type: ignore[misc]
    """Asks what the script asks, as soon as the market has moved."""

    def __init__(self, script: Script, commands: list[dict[int, tuple[Command, ...]]]) -> None:
        super().__init__()
        self._script = script
        self._commands = commands
        self.orders: list[Any] = [None] * len(commands)

    def on_start(self) -> None:
        for place in range(len(self._commands)):
            self.subscribe_order_book_deltas(_instrument_id(place), book_type=BookType.L2_MBP)

    def on_order_book_deltas(self, deltas: Any) -> None:
        place = int(deltas.instrument_id.symbol.value[1:])
        step = deltas.ts_init // _SECOND - 1
        for command in self._commands[place].get(step, ()):
            if isinstance(command, Submit):
                self.orders[place] = self._order(place, step, command)
                self.submit_order(self.orders[place])
            elif isinstance(command, Replace):
                terms = command.terms
                if terms.quantity <= self.orders[place].filled_qty.as_decimal():
                    # It would end their process; ours has filled less of the order by then.
                    continue
                self.modify_order(
                    self.orders[place],
                    _quantity(terms.quantity),
                    price=_price(terms.limit_price),
                    trigger_price=_price(terms.stop_price),
                )
            else:
                assert isinstance(command, Cancel)
                self.cancel_order(self.orders[place])

    def _order(self, place: int, step: int, command: Submit) -> Any:
        spec = command.spec
        times: dict[str, Any] = {"time_in_force": _TIMES.get(spec.time_in_force, TimeInForce.GTD)}
        if times["time_in_force"] is TimeInForce.GTD:
            bells = [at for at, quote in enumerate(self._script.quotes) if quote is None and at > step]
            times["expire_time"] = datetime.fromtimestamp(bells[0] + 1, UTC) if bells else _NEVER
        who: dict[str, Any] = {
            "instrument_id": _instrument_id(place),
            "order_side": OrderSide.BUY if command.side is our.OrderSide.BUY else OrderSide.SELL,
            "quantity": _quantity(spec.quantity),
        }
        make = self.order_factory
        if spec.order_type is our.OrderType.MARKET:
            # A market order has no expiry there.
            return make.market(**who, time_in_force=_TIMES.get(spec.time_in_force, TimeInForce.GTC))
        if spec.order_type is our.OrderType.LIMIT:
            return make.limit(**who, price=_price(spec.limit_price), **times)
        if spec.order_type is our.OrderType.STOP:
            return make.stop_market(**who, trigger_price=_price(spec.stop_price), **times)
        return make.stop_limit(**who, price=_price(spec.limit_price), trigger_price=_price(spec.stop_price), **times)


def play(script: Script, commands: list[dict[int, tuple[Command, ...]]]) -> list[Outcome]:
    """What becomes of each order."""
    engine = BacktestEngine(
        BacktestEngineConfig(
            trader_id=TraderId("ORACLE-001"),
            logging=LoggingConfig(bypass_logging=True),
            risk_engine=RiskEngineConfig(bypass=True),
            run_analysis=False,
        )
    )
    try:
        engine.add_venue(
            venue=_VENUE,
            oms_type=OmsType.NETTING,
            account_type=AccountType.MARGIN,
            starting_balances=[Money(1_000_000_000, USD)],
            base_currency=USD,
            default_leverage=Decimal(1000),
            book_type=BookType.L2_MBP,
            reject_stop_orders=False,
            use_message_queue=False,
        )
        for place in range(len(commands)):
            engine.add_instrument(_instrument(place))
        places = range(len(commands))
        engine.add_data([_deltas(place, step, quote) for step, quote in enumerate(script.quotes) for place in places])
        player = _Player(script, commands)
        engine.add_strategy(player)
        engine.run()
        return [_outcome(order) for order in player.orders]
    finally:
        engine.dispose()


def _outcome(order: Any) -> Outcome:
    fills = [
        (event.last_qty.as_decimal(), event.last_px.as_decimal())
        for event in order.events
        if isinstance(event, OrderFilled)
    ]
    if order.status == OrderStatus.CANCELED:
        # What could not fill now is canceled there without anybody asking; here it expires.
        asked = any(isinstance(event, OrderPendingCancel) for event in order.events)
        return Outcome(ReportStatus.CANCELED if asked else ReportStatus.EXPIRED, fills)
    return Outcome(_ENDED.get(order.status, ReportStatus.WORKING), fills)


def _instrument_id(place: int) -> Any:
    return InstrumentId(Symbol(f"S{place}"), _VENUE)


def _instrument(place: int) -> Any:
    return Equity(
        instrument_id=_instrument_id(place),
        raw_symbol=Symbol(f"S{place}"),
        currency=USD,
        price_precision=2,
        price_increment=Price.from_str("0.01"),
        lot_size=Quantity.from_int(1),
        ts_event=0,
        ts_init=0,
    )


def _deltas(place: int, step: int, quote: Quote | None) -> Any:
    """A book with one price on both sides; the bell empties it."""
    instrument_id, moment = _instrument_id(place), (step + 1) * _SECOND
    changes = [OrderBookDelta.clear(instrument_id, 0, moment, moment)]
    if quote is not None:
        assert quote.size is not None
        changes += [
            OrderBookDelta(
                instrument_id=instrument_id,
                action=BookAction.ADD,
                order=BookOrder(side, _price(quote.price), _quantity(quote.size), number),
                flags=0,
                sequence=0,
                ts_event=moment,
                ts_init=moment,
            )
            for number, side in enumerate((OrderSide.BUY, OrderSide.SELL), start=1)
        ]
    return OrderBookDeltas(instrument_id, changes)


def _price(price: Decimal | None) -> Any:
    return None if price is None else Price.from_str(f"{price:.2f}")


def _quantity(quantity: Decimal) -> Any:
    return Quantity.from_int(int(quantity))

"""Where Nautilus Trader's rules are known to differ from ours: a script by its rules, as we understand them.

A difference between ours and theirs is explained if this model foretells theirs, to the fill; it says by which rules.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from openbell_exchange.matching import Quote
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from oracle.ours import Outcome
from oracle.scripts import Cancel, Command, Replace, Submit

OWN_PRICE = "a resting order fills at its own price"
STOP_PRICE = "a stop-limit that triggers fills at its stop price"
REST_HANGS = "the rest of a market order hangs"
STOP_FORGETS = "a stop that filled in part waits for its stop price again"
NO_REPLACE = "a replace is refused when its stop price is reached"
MARKET_MOVES = "a fill at a stop price moves their market until the next quote"
LATE_NEVER = "a triggered stop-limit for now or never waits for its limit"


@dataclass
class _Order:
    """One order at their venue."""

    asked: Submit
    outcome: Outcome = field(default_factory=Outcome)
    rules: set[str] = field(default_factory=set)
    in_book: bool = False
    triggered: bool = False
    # Set when the market comes to the stop; not if it is there on arrival.
    triggered_at: Decimal | None = None
    # Where they take the market to be after such a fill, until the next quote.
    moved_to: Decimal | None = None

    def __post_init__(self) -> None:
        spec = self.asked.spec
        self.kind, self.time_in_force = spec.order_type, spec.time_in_force
        self.quantity, self.limit, self.stop = spec.quantity, spec.limit_price, spec.stop_price
        self.buying = self.asked.side is OrderSide.BUY

    @property
    def is_open(self) -> bool:
        return self.outcome.status == ReportStatus.WORKING

    @property
    def filled(self) -> Decimal:
        return sum((quantity for quantity, _ in self.outcome.fills), Decimal(0))

    def reaches(self, price: Decimal) -> bool:
        assert self.stop is not None
        return price >= self.stop if self.buying else price <= self.stop

    def is_marketable(self, price: Decimal) -> bool:
        assert self.limit is not None
        return price <= self.limit if self.buying else price >= self.limit

    def better(self, one: Decimal, other: Decimal) -> bool:
        return one < other if self.buying else one > other

    def fill(self, quote: Quote, price: Decimal) -> None:
        assert quote.size is not None
        remaining = self.quantity - self.filled
        if self.time_in_force is TimeInForce.FILL_OR_KILL and quote.size < remaining:
            self.outcome.status = ReportStatus.EXPIRED
            return
        self.outcome.fills.append((min(remaining, quote.size), price))
        if quote.size >= remaining:
            self.outcome.status = ReportStatus.FILLED
        elif self.time_in_force is TimeInForce.IMMEDIATE_OR_CANCEL:
            self.outcome.status = ReportStatus.EXPIRED

    def fill_resting(self, quote: Quote) -> None:
        """At its own price, or at the stop price if that is better."""
        assert self.limit is not None
        own = self.limit
        if self.triggered_at is not None and self.better(self.triggered_at, own):
            own = self.triggered_at
        price = own if self.better(quote.price, own) else quote.price
        if price != quote.price:
            self.rules.add(OWN_PRICE)
        self.fill(quote, price)

    def fill_taking(self, quote: Quote) -> None:
        """At the market's price, or at the stop price of one that triggered while it rested."""
        assert self.limit is not None
        price = quote.price
        if self.triggered_at is not None and self.better(self.triggered_at, self.limit):
            price = self.triggered_at
            if price != quote.price:
                self.rules.add(STOP_PRICE)
        self.fill(quote, price)

    def arrive(self, quote: Quote) -> None:
        if self.kind is OrderType.MARKET or (self.kind is OrderType.STOP and self.reaches(quote.price)):
            self.fill(quote, quote.price)
            if self.is_open:
                self.rules.add(REST_HANGS)
            return
        self.in_book = True
        if self.kind is OrderType.LIMIT:
            if self.is_marketable(quote.price):
                self.fill_taking(quote)
            elif self.time_in_force in {TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL}:
                self.outcome.status = ReportStatus.EXPIRED
        elif self.kind is OrderType.STOP_LIMIT and self.reaches(quote.price):
            self.triggered = True
            self.take_if_marketable(quote, self.fill_taking)

    def meet(self, quote: Quote) -> None:
        """A new quote."""
        self.moved_to = None
        if not (self.in_book and self.is_open):
            return
        if self.kind is OrderType.LIMIT or self.triggered:
            self.take_if_marketable(quote, self.fill_resting)
        elif self.kind is OrderType.STOP:
            if self.reaches(quote.price):
                self.fill(quote, quote.price)
            elif self.outcome.fills:
                self.rules.add(STOP_FORGETS)
        elif self.reaches(quote.price):
            self.triggered, self.triggered_at = True, self.stop
            self.take_if_marketable(quote, self.fill_taking)

    def take_if_marketable(self, quote: Quote, fill: Callable[[Quote], None]) -> None:
        if self.is_marketable(quote.price):
            fill(quote)
        elif self.time_in_force in {TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL}:
            self.rules.add(LATE_NEVER)

    def change(self, command: Replace, quote: Quote) -> None:
        terms = command.terms
        if not (self.in_book and self.is_open and terms.quantity > self.filled):
            return
        stop, self.stop = self.stop, terms.stop_price
        if self.stop is not None and not self.triggered and self.reaches(quote.price):
            self.stop = stop
            self.rules.add(NO_REPLACE)
            return
        self.quantity, self.limit = terms.quantity, terms.limit_price
        if not (self.kind is OrderType.LIMIT or self.triggered):
            return
        if self.is_marketable(self.moved_to or quote.price):
            self.fill_taking(quote)
            if self.triggered_at is not None and self.limit is not None and self.better(self.triggered_at, self.limit):
                self.moved_to = self.limit
        elif self.is_marketable(quote.price):
            self.rules.add(MARKET_MOVES)

    def end_day(self) -> None:
        if self.in_book and self.is_open and self.time_in_force in {TimeInForce.DAY, TimeInForce.EXT}:
            self.outcome.status = ReportStatus.EXPIRED


def foretell(quotes: tuple[Quote | None, ...], commands: dict[int, tuple[Command, ...]]) -> tuple[Outcome, set[str]]:
    """What Nautilus makes of one order, and the rules of its own that matter for it."""
    order: _Order | None = None
    for step, quote in enumerate(quotes):
        if quote is None:
            if order is not None:
                order.end_day()
            continue
        if order is not None:
            order.meet(quote)
        for command in commands.get(step, ()):
            if isinstance(command, Submit):
                order = _Order(command)
                order.arrive(quote)
                continue
            assert order is not None
            if isinstance(command, Replace):
                order.change(command, quote)
            elif isinstance(command, Cancel) and order.in_book and order.is_open:
                order.outcome.status = ReportStatus.CANCELED
    assert order is not None
    return order.outcome, order.rules

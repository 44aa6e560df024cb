"""A broker nastier than any real one, and its ledger: every write that left for it, and every order that it took."""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from openbell_exchange.money import fee
from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    BrokerExecution,
    ExecutionChange,
    OrderDescription,
    OrderName,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.order_terms import EXACT, OrderSide, OrderType, Terms, exact_total
from simulation.profiles import Profile

PRICE = Decimal("1.5")
LATENCY_SECONDS = 0.05
DUPLICATE_ID = "DUPLICATE_ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFaults:
    """Chances, of one."""

    # Of a command: it never arrives; it is taken late; the answer gets lost, or is one that no table lists.
    lost: float = 0.0
    late: float = 0.0
    # Of one that is late: later than the broker is said to be at most.
    very_late: float = 0.0
    unanswered: float = 0.0
    unlisted: float = 0.0
    busy: float = 0.0
    # Of a report.
    repeated: float = 0.0
    reordered: float = 0.0
    # Of an order: it is refused; a fill is booked after its end.
    refused: float = 0.05
    late_fill: float = 0.0
    # Of a fill: it is taken back, or its numbers are corrected.
    changed: float = 0.0
    # Of a look-up: no answer; or it finds nothing of an order that is there, which happens once to one.
    failing: float = 0.0
    blind: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One command that left for the broker."""

    at: float
    command: str
    # The client id of the command, and of the order it is about.
    command_id: str
    order_id: str


@dataclass(slots=True, kw_only=True)
class VenueOrder:
    """An order in the broker's book."""

    broker_id: str
    account_id: AccountId
    # As it shows the order, and who really asked for it: that is for the checker alone.
    client_id: str | None
    origin: str
    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    terms: Terms
    accepted_at: datetime
    status: ReportStatus = ReportStatus.WORKING
    fills: list[BrokerExecution] = field(default_factory=list)
    changes: list[ExecutionChange] = field(default_factory=list)
    # The book as it was shown at each time.
    shown: list[tuple[float, OrderReport]] = field(default_factory=list)
    replaced_by: list[str] = field(default_factory=list)
    was_cancelled: bool = False
    # Whether it ever was, be it that executions were taken back since.
    was_full: bool = False
    was_missed: bool = False

    @property
    def standing(self) -> list[BrokerExecution | ExecutionChange]:
        """What counts of every fill."""
        return [self.latest.get(fill.execution_id, fill) for fill in self.fills]

    @property
    def latest(self) -> dict[str, ExecutionChange]:
        """What was last said of fills."""
        return {change.execution_id: change for change in self.changes}

    @property
    def filled(self) -> Decimal:
        """How much, by the broker's count."""
        return exact_total(fill.quantity for fill in self.standing)

    @property
    def value(self) -> Decimal:
        """What was paid for it."""
        return exact_total(EXACT.multiply(fill.quantity, fill.price) for fill in self.standing)

    def report(self, fills: tuple[BrokerExecution, ...], changes: tuple[ExecutionChange, ...] = ()) -> OrderReport:
        """The order as it stands, with some of its fills, and some of what became of them."""
        return OrderReport(
            client_order_id=self.client_id,
            broker_order_id=self.broker_id,
            status=self.status,
            filled_quantity=self.filled,
            executions=fills,
            changes=changes,
            terms=self.terms,
            terms_version=1 + len(self.replaced_by),
            description=OrderDescription(
                symbol=self.symbol,
                order_side=self.order_side,
                order_type=self.order_type,
                accepted_at=self.accepted_at,
            ),
        )


Reply = asyncio.Future[Outcome]
Deliver = Callable[[AccountId, OrderReport], None]


@dataclass(slots=True)
class Venue:
    """The broker itself: it outlives our processes, and what it did is the truth."""

    profile: Profile
    chance: random.Random
    outside: Context
    clock: Callable[[], datetime]
    note: Callable[[str], None]
    faults: BrokerFaults = field(default_factory=BrokerFaults)
    # By the order that each is about.
    writes: dict[str, list[Write]] = field(default_factory=dict)
    orders: dict[str, VenueOrder] = field(default_factory=dict)
    # Commands that came later than the broker is said to be at most.
    late: set[tuple[str, str]] = field(default_factory=set)
    # When each client id was last taken.
    _ids: dict[str, float] = field(default_factory=dict)
    listeners: dict[object, Deliver] = field(default_factory=dict)
    # When the last thing happens that is on its way.
    busy_until: float = 0.0

    # ---- what sessions send

    def send(self, write: Write, arrive: Callable[[Reply], None]) -> Reply:
        """Let a command leave: it arrives once, later, or never."""
        loop = asyncio.get_running_loop()
        reply: Reply = loop.create_future()
        self.writes.setdefault(write.order_id, []).append(write)
        self.note(f"writes {write.command} {write.command_id} of {write.order_id}")
        if self._happens(self.faults.lost):
            if self._happens(0.5):
                self._later(LATENCY_SECONDS, self._answer, reply, ConnectionResetError("reset by peer"))
            return reply
        delay = self.chance.random() * LATENCY_SECONDS
        if self._happens(self.faults.late):
            very = not self.profile.is_on_time and self._happens(self.faults.very_late)
            delay += self.chance.uniform(self.profile.late_max, 600) if very else self._within(self.profile.late_max)
        if loop.time() + delay - write.at > self.profile.late_max:
            self.late.add((write.command, write.command_id))
        self._later(delay, arrive, reply)
        return reply

    def submit(self, order: BrokerOrder, reply: Reply) -> None:
        """A new order has arrived."""
        if (code := self._refusal(order.client_order_id, order.valid_until)) is not None:
            # A copy says nothing of the first one.
            return self._answer(reply, Unknown(code) if code == DUPLICATE_ID else Refused(code, "no"))
        now = asyncio.get_running_loop().time()
        placed = VenueOrder(
            broker_id=f"b{len(self.orders) + 1}",
            account_id=order.account_id,
            client_id=order.client_order_id if self.profile.keeps_ids else None,
            origin=order.client_order_id,
            symbol=order.symbol,
            order_side=order.order_side,
            order_type=order.order_type,
            terms=Terms(
                quantity=order.quantity,
                limit_price=order.limit_price,
                stop_price=order.stop_price,
                time_in_force=order.time_in_force,
            ),
            accepted_at=self.clock(),
        )
        self._ids[order.client_order_id] = now
        self.orders[placed.broker_id] = placed
        # A fill may be told before the answer is.
        self._begin_trading(placed)
        self._show(placed)
        return self._answer(reply, Accepted(placed.broker_id))

    def replace(self, order: VenueOrder | None, asked: BrokerReplacement, reply: Reply) -> None:
        """A change has arrived."""
        if order is None or self._is_expired(asked.valid_until):
            return self._answer(reply, Refused("UNKNOWN_ORDER" if order is None else "TOO_LATE", "no"))
        if order.status is not ReportStatus.WORKING or asked.terms.quantity <= order.filled:
            return self._answer(reply, Refused("TOO_LATE_TO_REPLACE", "no"))
        order.terms = asked.terms
        order.replaced_by.append(asked.client_order_id)
        self._show(order)
        return self._answer(reply, Accepted(order.broker_id))

    def cancel(self, order: VenueOrder | None, valid_until: datetime, reply: Reply) -> None:
        """A cancel has arrived."""
        if order is None or self._is_expired(valid_until):
            return self._answer(reply, Refused("UNKNOWN_ORDER" if order is None else "TOO_LATE", "no"))
        if order.status is not ReportStatus.WORKING:
            return self._answer(reply, Refused("TOO_LATE_TO_CANCEL", "no"))
        order.status, order.was_cancelled = ReportStatus.CANCELED, True
        self._show(order)
        if self._happens(self.faults.late_fill):
            # It was executed before the cancel came, and is booked after it.
            self._later(self._within(3.0), self._book, order, self._part(order))
        return self._answer(reply, Accepted(order.broker_id))

    def find(self, order: VenueOrder | None) -> OrderReport | None:
        """The order as a look-up shows it: as it is now, or was a moment ago."""
        if order is None:
            return None
        if not order.was_missed and self._happens(self.faults.blind):
            order.was_missed = True
            return None
        before = asyncio.get_running_loop().time() - self._within(self.profile.lag_max)
        return next((report for at, report in reversed(order.shown) if at <= before), None)

    def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """What the account holds by what counts of every fill."""
        held: dict[Symbol, list[Decimal]] = {}
        for order in (order for order in self.orders.values() if order.account_id == account_id):
            side = 1 if order.order_side is OrderSide.BUY else -1
            held.setdefault(order.symbol, []).extend(side * fill.quantity for fill in order.standing)
        return [BrokerPosition(symbol=symbol, quantity=exact_total(parts)) for symbol, parts in held.items()]

    def balances(self, account_id: AccountId) -> Balances:
        """The cash of the account, which began with none."""
        paid = [
            EXACT.multiply(fill.quantity, fill.price) * (-1 if order.order_side is OrderSide.BUY else 1)
            for order in self.orders.values()
            if order.account_id == account_id
            for fill in order.standing
        ]
        return Balances(currency="USD", cash=exact_total(paid), as_of=self.clock())

    def find_order(self, name: OrderName) -> VenueOrder | None:
        """The order by what this broker understands of a name; of several the latest."""
        named = [o for o in self.orders.values() if self.profile.keeps_ids and o.client_id == name.client_order_id]
        named += [self.orders[broker_id] for broker_id in name.broker_order_ids if broker_id in self.orders]
        return named[-1] if named else None

    def writes_of(self, order_id: str) -> list[Write]:
        """Every command about an order that left for the broker."""
        return self.writes.get(order_id, [])

    # ---- the inside

    def _refusal(self, client_id: str, valid_until: datetime) -> str | None:
        if self._is_expired(valid_until):
            return "TOO_LATE"
        taken = self._ids.get(client_id)
        if taken is not None and asyncio.get_running_loop().time() - taken <= self.profile.id_seconds:
            return DUPLICATE_ID
        return "NO_MONEY" if self._happens(self.faults.refused) else None

    def _is_expired(self, valid_until: datetime) -> bool:
        return self.profile.enforces_valid_until and self.clock() > valid_until

    def _begin_trading(self, order: VenueOrder) -> None:
        """Draw what the market will do with it."""
        is_market = order.order_type is OrderType.MARKET
        fills = self.chance.randint(1, 3) if is_market else self.chance.choice((0, 0, 1, 2, 3))
        span = 1.0 if is_market else 8.0
        whole = is_market or self._happens(0.5)
        for place in range(fills):
            is_last = whole and place == fills - 1
            self._later(span * (place + self.chance.random()) / 3, self._trade, order, is_last)

    def _trade(self, order: VenueOrder, is_last: bool) -> None:
        if order.status is not ReportStatus.WORKING:
            return
        rest = order.terms.quantity - order.filled
        self._book(order, rest if is_last else self._part(order))

    def _part(self, order: VenueOrder) -> Decimal:
        rest = int(order.terms.quantity - order.filled)
        return Decimal(self.chance.randint(1, rest)) if rest > 0 else Decimal(0)

    def _book(self, order: VenueOrder, quantity: Decimal) -> None:
        if quantity <= 0:
            return
        fill = BrokerExecution(
            execution_id=f"{order.broker_id}-{len(order.fills) + 1}",
            quantity=quantity,
            price=PRICE,
            executed_at=self.clock(),
            fee=fee(quantity, PRICE),
        )
        order.fills.append(fill)
        if order.filled >= order.terms.quantity:
            order.status, order.was_full = ReportStatus.FILLED, True
        self._show(order, (fill,))
        if self._happens(self.faults.changed):
            self._later(self._within(3.0), self._change, order, fill)

    def _change(self, order: VenueOrder, fill: BrokerExecution) -> None:
        """Take a fill back, or correct it."""
        self._tell_change(order, fill, busted=self._happens(0.5))

    def _tell_change(self, order: VenueOrder, fill: BrokerExecution, *, busted: bool) -> None:
        change = ExecutionChange(
            execution_id=fill.execution_id,
            revision=1,
            quantity=Decimal(0) if busted else fill.quantity,
            price=fill.price if busted else fill.price + 1,
            fee=None if busted else fee(fill.quantity, fill.price) * 2,
        )
        order.changes.append(change)
        if order.status is ReportStatus.FILLED and order.filled < order.terms.quantity:
            order.status = ReportStatus.CANCELED if order.was_cancelled else ReportStatus.WORKING
        self._show(order, (), (change,))

    def _show(
        self, order: VenueOrder, fills: tuple[BrokerExecution, ...] = (), changes: tuple[ExecutionChange, ...] = ()
    ) -> None:
        """Write the book, and tell everybody who listens: at once or late, once or twice."""
        self.note(f"broker: {order.origin} {order.broker_id} {order.status} {order.filled}/{order.terms.quantity}")
        order.shown.append((asyncio.get_running_loop().time(), order.report(tuple(order.fills), tuple(order.changes))))
        for deliver in self.listeners.values():
            for _ in range(1 + self._happens(self.faults.repeated)):
                delay = self._within(LATENCY_SECONDS)
                if self._happens(self.faults.reordered):
                    delay += self._within(2.0)
                self._later(delay, deliver, order.account_id, order.report(fills, changes))

    def _answer(self, reply: Reply, answer: Outcome | Exception) -> None:
        """Back to whoever waits, unless the answer is lost or one that the adapter's table does not list."""
        if self._happens(self.faults.unanswered):
            return
        if self._happens(self.faults.unlisted):
            answer = Unknown("400 E17")
        self._later(self._within(LATENCY_SECONDS), settle, reply, answer)

    def _later(self, delay: float, call: Callable[..., object], *arguments: object) -> None:
        loop = asyncio.get_running_loop()
        self.busy_until = max(self.busy_until, loop.time() + delay)
        loop.call_later(delay, call, *arguments, context=self.outside)

    def _within(self, seconds: float) -> float:
        return self.chance.random() * seconds

    def _happens(self, rate: float) -> bool:
        return rate > 0 and self.chance.random() < rate


def settle(reply: Reply, answer: Outcome | Exception) -> None:
    """Answer a request that still waits."""
    if reply.done():
        return
    if isinstance(answer, Exception):
        reply.set_exception(answer)
    else:
        reply.set_result(answer)

"""An exchange that keeps its orders in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from openbell_exchange.decisions import (
    DUPLICATE_ID,
    Refusal,
    cancel_refusal,
    order_refusal,
    replace_refusal,
)
from openbell_exchange.history import Fill, History, Member, Step
from openbell_exchange.listings import shipped_symbols
from openbell_exchange.matching import (
    MarketOrder,
    Match,
    Quote,
    after,
    fill_rest,
    match,
    reference_price,
    replaced,
)
from openbell_exchange.standings import Standing
from openbell_exchange.terms import OrderSide, OrderSpec, ReportStatus, Symbol, Terms
from openbell_exchange.updates import Update, changes_of, updates_of

_TICK = timedelta(microseconds=1)


class OrderUpdate(NamedTuple):
    """One update of an order: its account, the order's number, and the number of the update."""

    account_id: UUID
    order_number: int
    number: int


@dataclass(slots=True)
class _Order:
    number: int
    account_id: UUID
    symbol: Symbol
    market: MarketOrder
    status: ReportStatus
    members: list[Member]
    steps: list[Step] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)

    def history(self) -> History:
        return History(
            number=self.number,
            account_id=self.account_id,
            symbol=self.symbol,
            side="buy" if self.market.side is OrderSide.BUY else "sell",
            order_type=self.market.spec.order_type,
            members=tuple(self.members),
            steps=tuple(self.steps),
            fills=tuple(self.fills),
        )


@dataclass(slots=True)
class _Account:
    # Without working orders.
    owned: Standing = field(default_factory=lambda: Standing(Decimal(0), Decimal(0), {}))
    orders: list[_Order] = field(default_factory=list)
    # The order with an id, and how often it was replaced before it had it.
    ids: dict[str, tuple[int, int]] = field(default_factory=dict)


class MemoryExchange:
    """Every method does all or raises Refusal; `on_update` is called with each update, in order."""

    def __init__(self, on_update: Callable[[OrderUpdate], None]) -> None:
        self._on_update = on_update
        self._accounts: dict[UUID, _Account] = {}
        self._orders: list[_Order] = []
        self._quotes: dict[Symbol, Quote] = {}
        self._updates = 0
        self._now = datetime.now(UTC)

    def submit(
        self,
        account_id: UUID,
        client_order_id: str,
        symbol: Symbol,
        side: OrderSide,
        spec: OrderSpec,
        *,
        fills: bool = True,
    ) -> int:
        """Accept an order, fill what can be filled at once, and return its number; unless it fills, it rests."""
        account = self._account(account_id)
        if client_order_id in account.ids:
            raise Refusal(DUPLICATE_ID, "an order with this client_order_id exists")
        market = MarketOrder(side=side, spec=spec)
        matched = match(market, self.quote(symbol))
        self._require_means(account_id, symbol, market, matched)
        if not fills:
            matched = Match(status=ReportStatus.WORKING, triggered=market.triggered)
        now = self._next_time()
        order = _Order(
            number=len(self._orders) + 1,
            account_id=account_id,
            symbol=symbol,
            market=market,
            status=ReportStatus.WORKING,
            members=[_member(client_order_id, spec.terms, now)],
        )
        self._orders.append(order)
        account.orders.append(order)
        account.ids[client_order_id] = order.number, 0
        first = Update(order_number=order.number, status=ReportStatus.WORKING, filled_quantity=Decimal(0))
        self._apply(order, matched, [first, *updates_of(order.number, market, matched)], now)
        return order.number

    def replace(self, number: int, client_order_id: str, terms: Terms) -> None:
        """Change a working order, and fill what can be filled now."""
        order = self._orders[number - 1]
        refusal = replace_refusal(order.status, order.market.filled, order.market.spec.order_type, terms)
        if refusal is not None:
            raise refusal
        account = self._account(order.account_id)
        if client_order_id in account.ids:
            raise Refusal(DUPLICATE_ID, "a replacement with this client_order_id exists")
        market = replaced(order.market, terms)
        matched = match(market, self.quote(order.symbol))
        self._require_means(order.account_id, order.symbol, market, matched, except_number=number)
        now = self._next_time()
        account.ids[client_order_id] = number, len(order.members)
        order.members.append(_member(client_order_id, terms, now))
        order.market = market
        changed = Update(order_number=number, status=ReportStatus.WORKING, filled_quantity=market.filled)
        self._apply(order, matched, [changed, *changes_of(number, market, matched, len(order.fills))], now)

    def cancel(self, number: int) -> None:
        order = self._orders[number - 1]
        refusal = cancel_refusal(order.status, repeats_cancels=False)
        if refusal is not None:
            raise refusal
        canceled = Match(status=ReportStatus.CANCELED, triggered=order.market.triggered)
        update = Update(order_number=number, status=canceled.status, filled_quantity=order.market.filled)
        self._apply(order, canceled, [update], self._next_time())

    def fill_rest(self, number: int) -> None:
        """Fill what is left of an order at the market's price, also after it was canceled."""
        order = self._orders[number - 1]
        market = order.market
        if order.status not in {ReportStatus.WORKING, ReportStatus.CANCELED}:
            return
        matched = fill_rest(market, self.quote(order.symbol).price)
        self._apply(order, matched, updates_of(number, market, matched, len(order.fills)), self._next_time())

    def set_price(self, symbol: Symbol, quote: Quote) -> None:
        """Resting orders trigger and fill."""
        self._quotes[symbol] = quote
        for order in self._orders:
            if order.symbol == symbol:
                self.match_rest(order.number)

    def match_rest(self, number: int) -> None:
        """Trigger and fill an order that rests, if its price allows it."""
        order = self._orders[number - 1]
        if order.status is ReportStatus.WORKING:
            matched = match(order.market, self.quote(order.symbol))
            changes = changes_of(number, order.market, matched, len(order.fills))
            self._apply(order, matched, changes, self._next_time())

    def quote(self, symbol: Symbol) -> Quote:
        return self._quotes.get(symbol) or Quote(reference_price(symbol))

    def named(self, account_id: UUID, client_order_id: str) -> tuple[int, int] | None:
        return self._account(account_id).ids.get(client_order_id)

    def history(self, number: int) -> History | None:
        return self._orders[number - 1].history() if 1 <= number <= len(self._orders) else None

    def list_orders(self, account_id: UUID) -> list[History]:
        return [order.history() for order in self._account(account_id).orders]

    def position(self, account_id: UUID, symbol: Symbol) -> Decimal:
        return self._account(account_id).owned.holding(symbol, self.quote(symbol).price).quantity

    def standing(self, account_id: UUID, except_number: int = 0) -> Standing:
        """What the account has; for a replace, except_number excludes the original order."""
        account = self._account(account_id)
        standing = account.owned.at_prices(self.quote)
        for order in account.orders:
            if order.status is ReportStatus.WORKING and order.number != except_number:
                holding = standing.holding(order.symbol, self.quote(order.symbol).price)
                works = Match(status=ReportStatus.WORKING, triggered=order.market.triggered)
                standing = standing.after(holding, order.market, works)
        return standing

    def _require_means(
        self, account_id: UUID, symbol: Symbol, market: MarketOrder, matched: Match, except_number: int = 0
    ) -> None:
        refusal = order_refusal(
            self.standing(account_id, except_number),
            symbol,
            self.quote(symbol).price,
            market,
            matched,
            is_listed=symbol in shipped_symbols() or symbol in self._quotes,
            shorting=False,
            any_tick=False,
        )
        if refusal is not None:
            raise refusal

    def _apply(self, order: _Order, matched: Match, updates: list[Update], now: datetime) -> None:
        account = self._account(order.account_id)
        holding = account.owned.holding(order.symbol, self.quote(order.symbol).price)
        # Whatever is left of the order is not owned.
        account.owned = account.owned.after(holding, order.market, replace(matched, status=ReportStatus.FILLED))
        order.market = after(order.market, matched)
        order.status = matched.status if updates else order.status
        for update in updates:
            self._updates += 1
            order.steps.append(Step(self._updates, now, update.status, update.ordinal, None))
            if update.ordinal is not None:
                assert update.quantity is not None
                assert update.price is not None
                order.fills.append(Fill(update.ordinal, update.quantity, update.price, now, {}))
            self._on_update(OrderUpdate(order.account_id, order.number, self._updates))

    def _account(self, account_id: UUID) -> _Account:
        return self._accounts.setdefault(account_id, _Account())

    def _next_time(self) -> datetime:
        """Later than every time before."""
        self._now = max(datetime.now(UTC), self._now + _TICK)
        return self._now


def _member(client_order_id: str, terms: Terms, began_at: datetime) -> Member:
    return Member(
        client_order_id=client_order_id,
        began_at=began_at,
        total=terms.quantity,
        limit_price=terms.limit_price,
        stop_price=terms.stop_price,
        time_in_force=terms.time_in_force,
    )

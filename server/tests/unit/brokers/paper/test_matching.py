"""The paper broker's matching rules."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_exchange.matching import (
    AUCTIONS,
    LOT,
    Fill,
    MarketOrder,
    Match,
    Quote,
    after,
    end,
    match,
    reference_price,
    replaced,
    unsupported_reason,
)
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderSpec, OrderType, TimeInForce

REFERENCE = Decimal("50.00")


def an_order(
    order_type: OrderType,
    side: OrderSide = OrderSide.BUY,
    *,
    limit: str | None = None,
    stop: str | None = None,
    time_in_force: TimeInForce = TimeInForce.DAY,
    quantity: str = "10",
    filled: str = "0",
    triggered: bool = False,
) -> MarketOrder:
    spec = OrderSpec(
        order_type=order_type,
        quantity=Decimal(quantity),
        limit_price=None if limit is None else Decimal(limit),
        stop_price=None if stop is None else Decimal(stop),
        time_in_force=time_in_force,
    )
    return MarketOrder(side=side, spec=spec, filled=Decimal(filled), triggered=triggered)


def matched(order_type: OrderType, side: OrderSide = OrderSide.BUY, size: str | None = None, **what: Any) -> Match:
    return match(an_order(order_type, side, **what), Quote(REFERENCE, None if size is None else Decimal(size)))


def test_a_market_order_fills_at_the_reference_price() -> None:
    outcome = matched(OrderType.MARKET)
    assert outcome.status is ReportStatus.FILLED
    assert outcome.fills == (Fill(Decimal(10), REFERENCE),)


@pytest.mark.parametrize(
    ("side", "limit"),
    [(OrderSide.BUY, "51"), (OrderSide.BUY, "50"), (OrderSide.SELL, "49"), (OrderSide.SELL_SHORT, "50")],
)
def test_a_marketable_limit_fills_at_the_better_price(side: OrderSide, limit: str) -> None:
    assert matched(OrderType.LIMIT, side, limit=limit).fills == (Fill(Decimal(10), REFERENCE),)


@pytest.mark.parametrize(
    ("side", "limit"), [(OrderSide.BUY, "49.99"), (OrderSide.SELL, "50.01"), (OrderSide.SELL_SHORT, "51")]
)
def test_a_limit_that_is_not_marketable_rests(side: OrderSide, limit: str) -> None:
    outcome = matched(OrderType.LIMIT, side, limit=limit)
    assert outcome.status is ReportStatus.WORKING
    assert outcome.fills == ()


@pytest.mark.parametrize(
    ("side", "stop", "status"),
    [
        (OrderSide.BUY, "50", ReportStatus.FILLED),
        (OrderSide.BUY, "50.01", ReportStatus.WORKING),
        (OrderSide.SELL, "50", ReportStatus.FILLED),
        (OrderSide.SELL, "49.99", ReportStatus.WORKING),
    ],
)
def test_a_stop_triggers_when_the_reference_reaches_it(side: OrderSide, stop: str, status: ReportStatus) -> None:
    outcome = matched(OrderType.STOP, side, stop=stop)
    assert outcome.status is status
    assert outcome.triggered is (status is ReportStatus.FILLED)


def test_a_triggered_stop_limit_rests_until_its_limit_is_marketable() -> None:
    outcome = matched(OrderType.STOP_LIMIT, stop="49", limit="48")
    assert (outcome.status, outcome.triggered) == (ReportStatus.WORKING, True)


def test_a_stop_limit_stays_triggered_when_the_price_goes_back() -> None:
    assert matched(OrderType.STOP_LIMIT, stop="60", limit="60").status is ReportStatus.WORKING
    assert matched(OrderType.STOP_LIMIT, stop="60", limit="60", triggered=True).status is ReportStatus.FILLED


@pytest.mark.parametrize("time_in_force", [TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL])
def test_an_order_for_now_or_never_ends_when_it_cannot_fill(time_in_force: TimeInForce) -> None:
    assert matched(OrderType.LIMIT, limit="49", time_in_force=time_in_force).status is ReportStatus.EXPIRED
    assert matched(OrderType.LIMIT, limit="50", time_in_force=time_in_force).status is ReportStatus.FILLED


@pytest.mark.parametrize("time_in_force", [TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL])
def test_a_stop_waits_for_its_trigger_and_is_for_now_or_never_then(time_in_force: TimeInForce) -> None:
    stop = an_order(OrderType.STOP_LIMIT, stop="51", limit="51", quantity="10", time_in_force=time_in_force)
    assert match(stop, Quote(REFERENCE)).status is ReportStatus.WORKING
    assert match(stop, Quote(Decimal(51))).status is ReportStatus.FILLED
    assert match(stop, Quote(Decimal(52))).status is ReportStatus.EXPIRED


def test_more_than_a_thousand_fills_in_two_executions_that_add_up() -> None:
    assert [fill.quantity for fill in matched(OrderType.MARKET, quantity="1000").fills] == [Decimal(1000)]
    assert [fill.quantity for fill in matched(OrderType.MARKET, quantity="1000.5").fills] == [
        Decimal(1000),
        Decimal("0.5"),
    ]


@pytest.mark.parametrize(
    ("time_in_force", "status", "filled"),
    [
        (TimeInForce.DAY, ReportStatus.WORKING, ["4"]),
        (TimeInForce.GOOD_TILL_CANCEL, ReportStatus.WORKING, ["4"]),
        (TimeInForce.EXT, ReportStatus.WORKING, ["4"]),
        (TimeInForce.IMMEDIATE_OR_CANCEL, ReportStatus.EXPIRED, ["4"]),
        (TimeInForce.FILL_OR_KILL, ReportStatus.EXPIRED, []),
        (TimeInForce.AT_OPEN, ReportStatus.WORKING, []),
        (TimeInForce.AT_CLOSE, ReportStatus.WORKING, []),
    ],
)
@pytest.mark.parametrize("order_type", [OrderType.MARKET, OrderType.LIMIT])
def test_of_a_step_an_order_takes_what_is_there_and_its_time_in_force_decides_about_the_rest(
    order_type: OrderType, time_in_force: TimeInForce, status: ReportStatus, filled: list[str]
) -> None:
    limit = "50" if order_type is OrderType.LIMIT else None
    outcome = matched(order_type, size="4", limit=limit, time_in_force=time_in_force)
    assert (outcome.status, [str(fill.quantity) for fill in outcome.fills]) == (status, filled)


def test_an_order_fills_across_steps_at_the_price_of_each() -> None:
    order, fills = an_order(OrderType.LIMIT, limit="51", quantity="10"), list[tuple[str, str]]()
    for price, size in (("50", "4"), ("52", "9"), ("51", "5"), ("49", "9")):
        outcome = match(order, Quote(Decimal(price), Decimal(size)))
        fills += [(str(fill.quantity), str(fill.price)) for fill in outcome.fills]
        order = after(order, outcome)
    assert fills == [("4", "50"), ("5", "51"), ("1", "49")]
    assert outcome.status is ReportStatus.FILLED


def test_a_replace_keeps_what_filled_and_what_triggered() -> None:
    order = an_order(OrderType.STOP_LIMIT, stop="60", limit="60", filled="4", triggered=True)
    changed = replaced(order, an_order(OrderType.STOP_LIMIT, stop="70", limit="49", quantity="12").spec.terms)
    assert (changed.remaining, changed.triggered) == (Decimal(8), True)
    assert not match(changed, Quote(REFERENCE)).fills
    assert [fill.quantity for fill in match(changed, Quote(Decimal(49))).fills] == [8]


@pytest.mark.parametrize("time_in_force", sorted(AUCTIONS))
def test_an_auction_fills_an_order_whole_at_its_price_or_ends_it(time_in_force: TimeInForce) -> None:
    order = an_order(OrderType.LIMIT, limit="50", quantity="2500", time_in_force=time_in_force)
    assert end(order, REFERENCE) == Match(
        status=ReportStatus.FILLED, fills=(Fill(LOT, REFERENCE), Fill(Decimal(1500), REFERENCE)), triggered=False
    )
    assert end(order, Decimal("50.01")) == Match(status=ReportStatus.EXPIRED, triggered=False)


@pytest.mark.parametrize("time_in_force", [TimeInForce.DAY, TimeInForce.EXT])
def test_the_end_of_a_day_ends_an_order_even_if_its_price_is_there(time_in_force: TimeInForce) -> None:
    order = an_order(OrderType.LIMIT, limit="50", filled="4", time_in_force=time_in_force)
    assert end(order, REFERENCE) == Match(status=ReportStatus.EXPIRED, triggered=False)


def test_only_orders_without_a_stop_wait_for_an_auction() -> None:
    stops = {OrderType.STOP: {"stop": "1"}, OrderType.STOP_LIMIT: {"stop": "1", "limit": "1"}}
    prices: dict[OrderType, dict[str, str]] = {OrderType.MARKET: {}, OrderType.LIMIT: {"limit": "1"}, **stops}
    refused = {
        (kind, each)
        for kind in OrderType
        for each in TimeInForce
        if unsupported_reason(an_order(kind, time_in_force=each, **prices[kind]).spec)  # type: ignore[arg-type]
    }
    assert refused == {(kind, each) for kind in stops for each in AUCTIONS}


PRICES = st.integers(4_900, 5_100).map(lambda cents: Decimal(cents).scaleb(-2))
QUANTITIES = st.integers(1, 3_000).map(Decimal)
QUOTES = st.builds(Quote, PRICES, st.none() | QUANTITIES)


@st.composite
def orders(draw: st.DrawFn) -> MarketOrder:
    order_type = draw(st.sampled_from(OrderType))
    spec = OrderSpec(
        order_type=order_type,
        quantity=draw(QUANTITIES),
        limit_price=draw(PRICES) if order_type in {OrderType.LIMIT, OrderType.STOP_LIMIT} else None,
        stop_price=draw(PRICES) if order_type in {OrderType.STOP, OrderType.STOP_LIMIT} else None,
        time_in_force=draw(st.sampled_from(TimeInForce)),
    )
    return MarketOrder(side=draw(st.sampled_from(OrderSide)), spec=spec)


def is_reached(order: MarketOrder, price: Decimal) -> bool:
    stop = order.spec.stop_price
    return stop is None or (price >= stop if order.side is OrderSide.BUY else price <= stop)


@given(orders(), st.lists(QUOTES, min_size=1, max_size=12))
def test_whatever_the_market_does_an_order_gets_what_it_asked_for_and_no_more(
    order: MarketOrder, quotes: list[Quote]
) -> None:
    seen: list[Decimal] = []
    status = ReportStatus.WORKING
    for quote in quotes:
        outcome = match(order, quote)
        seen.append(quote.price)
        limit = order.spec.limit_price
        for fill in outcome.fills:
            assert fill.price == quote.price
            assert limit is None or (fill.price <= limit if order.side is OrderSide.BUY else fill.price >= limit)
            assert any(is_reached(order, price) for price in seen)
            assert quote.size is None or fill.quantity <= quote.size
        order, before, status = after(order, outcome), order.filled, outcome.status
        assert order.filled <= order.spec.quantity
        assert (status is ReportStatus.FILLED) == (order.filled == order.spec.quantity)
        if order.spec.time_in_force is TimeInForce.FILL_OR_KILL:
            assert order.filled in {0, order.spec.quantity}
        if order.spec.time_in_force in {TimeInForce.FILL_OR_KILL, TimeInForce.IMMEDIATE_OR_CANCEL}:
            assert order.triggered == (status is not ReportStatus.WORKING)
        if order.spec.time_in_force in AUCTIONS:
            assert (order.filled, status) == (before, ReportStatus.WORKING)
        if status is not ReportStatus.WORKING:
            return


def test_reference_prices_are_fixed_and_between_10_and_500_with_two_places() -> None:
    prices = [reference_price(Symbol(f"S{number}")) for number in range(1000)]
    assert all(Decimal("10.00") <= price <= Decimal("500.00") for price in prices)
    assert all(price.as_tuple().exponent == -2 for price in prices)
    assert len(set(prices)) > 900
    assert reference_price(Symbol("AAPL")) == Decimal("472.14")

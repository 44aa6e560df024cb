"""The paper broker's matching rules."""

from decimal import Decimal

import pytest

from openbell_server.brokers.paper.matching import Fill, Match, match, reference_price
from openbell_server.domain.broker_orders import ReportStatus
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders import OrderSide, OrderSpec, OrderType, TimeInForce

REFERENCE = Decimal("50.00")


def matched(
    order_type: OrderType,
    side: OrderSide = OrderSide.BUY,
    *,
    limit: str | None = None,
    stop: str | None = None,
    time_in_force: TimeInForce = TimeInForce.DAY,
    quantity: str = "10",
    triggered: bool = False,
) -> Match:
    spec = OrderSpec(
        order_type=order_type,
        quantity=Decimal(quantity),
        limit_price=None if limit is None else Decimal(limit),
        stop_price=None if stop is None else Decimal(stop),
        time_in_force=time_in_force,
    )
    return match(side, spec, REFERENCE, triggered=triggered)


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


def test_more_than_a_thousand_fills_in_two_executions_that_add_up() -> None:
    assert [fill.quantity for fill in matched(OrderType.MARKET, quantity="1000").fills] == [Decimal(1000)]
    assert [fill.quantity for fill in matched(OrderType.MARKET, quantity="1000.5").fills] == [
        Decimal(1000),
        Decimal("0.5"),
    ]


def test_reference_prices_are_fixed_and_between_10_and_500_with_two_places() -> None:
    prices = [reference_price(Symbol(f"S{number}")) for number in range(1000)]
    assert all(Decimal("10.00") <= price <= Decimal("500.00") for price in prices)
    assert all(price.as_tuple().exponent == -2 for price in prices)
    assert len(set(prices)) > 900
    assert reference_price(Symbol("AAPL")) == Decimal("472.14")

"""The exchange in memory keeps the same rules as the market that it is made of."""

from decimal import Decimal
from uuid import UUID

import pytest

from openbell_exchange.decisions import Refusal
from openbell_exchange.matching import Quote, reference_price
from openbell_exchange.memory import MemoryExchange, OrderUpdate
from openbell_exchange.terms import OrderSide, OrderSpec, OrderType, ReportStatus, Symbol, Terms, TimeInForce

ACCOUNT = UUID(int=1)
AAPL = Symbol("AAPL")
PRICE = reference_price(AAPL)


class Bench:
    def __init__(self) -> None:
        self.updates: list[OrderUpdate] = []
        self.exchange = MemoryExchange(self.updates.append)

    def submit(self, name: str, quantity: int, side: OrderSide = OrderSide.BUY, limit: Decimal | None = None) -> int:
        spec = OrderSpec(
            order_type=OrderType.MARKET if limit is None else OrderType.LIMIT,
            quantity=Decimal(quantity),
            limit_price=limit,
            time_in_force=TimeInForce.GOOD_TILL_CANCEL,
        )
        return self.exchange.submit(ACCOUNT, name, AAPL, side, spec)

    def status(self, number: int) -> ReportStatus:
        history = self.exchange.history(number)
        assert history is not None
        return history.steps[-1].status

    @property
    def position(self) -> Decimal:
        return self.exchange.position(ACCOUNT, AAPL)


def test_a_market_order_fills_at_once_and_is_paid() -> None:
    bench = Bench()
    number = bench.submit("a", 10)
    assert (bench.status(number), bench.position) == (ReportStatus.FILLED, Decimal(10))
    standing = bench.exchange.standing(ACCOUNT)
    assert standing.flow == -10 * PRICE - standing.fees
    assert [update.number for update in bench.updates] == [1, 2]
    history = bench.exchange.history(number)
    assert history is not None
    assert [(fill.ordinal, fill.quantity, fill.price) for fill in history.fills] == [(1, Decimal(10), PRICE)]


def test_a_sale_is_taken_from_the_position() -> None:
    bench = Bench()
    bench.submit("a", 10)
    bench.submit("b", 4, OrderSide.SELL)
    assert bench.position == 6


def test_an_id_is_accepted_once_for_good() -> None:
    bench = Bench()
    bench.submit("a", 10)
    with pytest.raises(Refusal) as refused:
        bench.submit("a", 10)
    assert refused.value.code == "duplicate_client_order_id"
    assert bench.position == 10


def test_what_an_account_does_not_hold_it_cannot_sell_twice() -> None:
    bench = Bench()
    bench.submit("a", 10)
    bench.submit("b", 10, OrderSide.SELL, PRICE + 1)
    with pytest.raises(Refusal) as refused:
        bench.submit("c", 1, OrderSide.SELL, PRICE + 1)
    assert refused.value.code == "insufficient_position"


def test_a_resting_order_fills_when_its_price_comes() -> None:
    bench = Bench()
    number = bench.submit("a", 10, limit=PRICE - 1)
    assert bench.status(number) is ReportStatus.WORKING
    bench.exchange.set_price(AAPL, Quote(PRICE - 2))
    assert (bench.status(number), bench.position) == (ReportStatus.FILLED, Decimal(10))


def test_a_replaced_order_has_its_new_terms_and_both_ids() -> None:
    bench = Bench()
    number = bench.submit("a", 10, limit=PRICE - 1)
    terms = Terms(quantity=Decimal(20), limit_price=PRICE + 1, time_in_force=TimeInForce.GOOD_TILL_CANCEL)
    bench.exchange.replace(number, "b", terms)
    assert bench.position == 20
    assert [bench.exchange.named(ACCOUNT, name) for name in ("a", "b", "c")] == [(number, 0), (number, 1), None]


def test_a_canceled_order_ends_and_can_still_fill_if_the_market_was_faster() -> None:
    bench = Bench()
    number = bench.submit("a", 10, limit=PRICE - 1)
    bench.exchange.cancel(number)
    assert bench.status(number) is ReportStatus.CANCELED
    with pytest.raises(Refusal) as refused:
        bench.exchange.cancel(number)
    assert refused.value.code == "order_closed"
    bench.exchange.fill_rest(number)
    assert (bench.status(number), bench.position) == (ReportStatus.FILLED, Decimal(10))
    bench.exchange.fill_rest(number)
    assert bench.position == 10

"""Values and collars against fractions, which never round: the same verdict, whatever the digits."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.controls.evaluate import evaluate
from openbell_server.domain.controls.facts import Facts, Gate
from openbell_server.domain.orders.order_terms import EXACT, OrderSide
from support.builders.control_commands import NOW, a_book, a_rule, asks, knows, priced, share
from support.builders.control_oracle import Collared, Valued, disagreements, only_line, scaled, written

# As many digits as an order may have on either side of the point, and often few, so that edges are met.
NUMBERS = st.one_of(
    st.integers(1, 200).map(lambda cents: scaled(cents, 2)),
    st.integers(1, 10**36 - 1).map(lambda units: scaled(units, 18)),
)
PERCENTS = st.one_of(st.integers(0, 10_000).map(lambda parts: scaled(parts, 2)), st.just("0"))
SIDES = st.sampled_from(OrderSide)


@given(SIDES, st.sampled_from(["limit", "stop", "market"]), *[NUMBERS] * 5, PERCENTS)
def test_a_value_is_judged_as_fractions_judge_it(
    side: OrderSide, kind: str, quantity: str, price: str, multiplier: str, rate: str, limit: str, buffer: str
) -> None:
    order = Valued(
        side=side, kind=kind, quantity=quantity, price=price, multiplier=multiplier, rate=rate, buffer=buffer
    )
    # The limit as drawn is seldom near: the value itself, where it can be written, is the edge.
    for bound in {limit, *written(order.value)}:
        line = order.judged(bound)
        assert Fraction(str(line.observed)) == order.value
        assert line.refuses is (order.value > Fraction(bound))
        assert Fraction(str(line.headroom)) == Fraction(bound) - order.value
        if line.would_pass is not None and "quantity of at most" in line.would_pass:
            most = Fraction(line.would_pass.rsplit(" ", 1)[1])
            assert most * order.one <= Fraction(bound)
            assert most < Fraction(quantity)


@given(SIDES, NUMBERS, NUMBERS, PERCENTS, PERCENTS, st.none() | PERCENTS, st.sampled_from(["limit", "stop"]))
def test_a_collar_is_judged_as_fractions_judge_it(
    side: OrderSide, price: str, reference: str, up: str, down: str, passive: str | None, kind: str
) -> None:
    collar = Collared(side=side, kind=kind, reference=reference, up=up, down=down, passive=passive)
    for tried in {price, *(each for edge in collar.band for each in written(edge))}:
        assert collar.judged(tried).refuses is not collar.passes(tried)


def test_many_random_orders_at_their_edges_are_judged_as_fractions_judge_them() -> None:
    compared, wrong = disagreements(200, seed=7)
    assert compared > 1_000
    assert wrong == []


@given(NUMBERS, NUMBERS, PERCENTS)
def test_a_spread_is_judged_as_fractions_judge_it(bid: str, width: str, percent: str) -> None:
    ask = EXACT.add(Decimal(bid), Decimal(width))
    facts = knows(price=priced(bid, bid=Decimal(bid), ask=ask))
    parameters = {"up_percent": "1", "down_percent": "1", "spread_percent": percent}
    line = only_line("PRICE_COLLAR", parameters, asks(), facts)
    middle = (Fraction(bid) + Fraction(ask)) / 2
    assert line.refuses is (Fraction(width) > middle * Fraction(percent) / 100)


@given(st.lists(st.integers(0, 3_000_000), max_size=30), st.integers(1, 10), st.integers(1, 2_000))
def test_no_stretch_of_a_window_sees_more_than_its_limit_accepted(gaps: list[int], count: int, window: int) -> None:
    parameters = {"count": count, "window_millis": window}
    rule = a_rule("RATE_ORDERS", parameters)
    judged: list[Any] = []
    passed: list[Any] = []
    now = NOW
    for gap in gaps:
        now += timedelta(microseconds=gap)
        facts = Facts(now=now, judged={(rule.scope, rule.subject): judged[:count]})
        [line] = evaluate(a_book(rule), asks(), facts, Gate.ACCEPT)
        within = [time for time in judged if now - time < timedelta(milliseconds=window)]
        assert line.refuses is (len(within) >= count)
        if not line.refuses:
            passed.append(now)
        judged.insert(0, now)
    for start in passed:
        assert sum(start <= time < start + timedelta(milliseconds=window) for time in passed) <= count


@given(NUMBERS, NUMBERS)
def test_a_step_is_judged_as_fractions_judge_it_and_its_neighbours_fit(price: str, tick: str) -> None:
    facts = knows(instrument=share(tick=Decimal(tick), lot=Decimal(tick)))
    for code, command in (("TICK", asks(limit=price)), ("LOT", asks(quantity=price))):
        line = only_line(code, {}, command, facts)
        assert line.refuses is (Fraction(price) % Fraction(tick) != 0)
        if line.would_pass is not None:
            neighbours = [Fraction(word) for word in line.would_pass.split() if word[0].isdigit()]
            assert neighbours
            assert all(near % Fraction(tick) == 0 for near in neighbours)
            assert min(abs(near - Fraction(price)) for near in neighbours) < Fraction(tick)

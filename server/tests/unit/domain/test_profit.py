"""Cost and profit of a position, by examples and against the definition in fractions."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.money.profit import (
    PERIOD,
    Adjustment,
    Book,
    CostMethod,
    OutOfOrder,
    Trade,
    in_order,
    period_of,
)
from oracle.profit import Fill, answer

START = datetime(2026, 3, 2, 14, 30, tzinfo=UTC)
AVERAGE, FIFO = CostMethod.AVERAGE, CostMethod.FIFO


def these(*values: object) -> list[object]:
    """For comparisons of decimals with whole numbers."""
    return [*values]


def trade(number: int, quantity: str, price: str | None, fee: str | None = "0") -> Trade:
    return Trade(
        trade_id=f"t{number:03}",
        traded_at=START + timedelta(minutes=number),
        quantity=Decimal(quantity),
        price=None if price is None else Decimal(price),
        fee=None if fee is None else Decimal(fee),
    )


def adjustment(number: int, quantity: str, average: str | None) -> Adjustment:
    return Adjustment(
        trade_id=f"t{number:03}",
        traded_at=START + timedelta(minutes=number),
        quantity=Decimal(quantity),
        average_price=None if average is None else Decimal(average),
    )


def book(*entries: Trade | Adjustment) -> Book:
    made = Book()
    made.add(entries)
    return made


def test_a_sale_closes_units_at_average_cost_or_at_the_cost_of_the_oldest() -> None:
    made = book(trade(1, "10", "100"), trade(2, "10", "110"), trade(3, "-10", "120"))
    assert these(made.total.realized(AVERAGE), made.total.realized(FIFO)) == [150, 200]
    assert these(made.quantity, made.cost_by(AVERAGE), made.cost_by(FIFO)) == [10, 1050, 1100]


def test_a_short_position_gains_when_it_is_bought_back_lower() -> None:
    made = book(trade(1, "-10", "100"), trade(2, "4", "90"))
    assert these(made.total.realized(AVERAGE), made.quantity, made.cost_by(FIFO)) == [40, -6, -600]


def test_a_trade_through_zero_closes_and_opens() -> None:
    made = book(trade(1, "10", "100"), trade(2, "-15", "101"))
    assert these(made.total.realized(FIFO), made.quantity, made.cost_by(AVERAGE)) == [10, -5, -505]


def test_a_rounded_part_of_the_cost_leaves_the_remainder_with_the_position() -> None:
    made = book(trade(1, "3", "33.333333333333"), trade(2, "-1", "40"))
    before, left = Decimal("99.999999999999"), made.cost_by(AVERAGE)
    assert left is not None
    assert made.total.realized(AVERAGE) == 40 - (before - left)


def test_a_trade_before_the_last_one_is_refused() -> None:
    made = book(trade(2, "1", "1"))
    for late in (trade(1, "1", "1"), trade(2, "1", "1")):
        with pytest.raises(OutOfOrder):
            made.add([late])


def test_units_without_a_price_make_the_cost_unknown_until_the_position_is_flat() -> None:
    made = book(trade(1, "5", "10"), trade(2, "5", None), trade(3, "-4", "20"))
    assert these(made.quantity, made.cost_by(AVERAGE), made.cost_by(FIFO), made.total.unknown) == [6, None, None, 2]
    made.add([trade(4, "-6", "20"), trade(5, "2", "7")])
    assert these(made.cost_by(AVERAGE), made.cost_by(FIFO), made.total.realized(AVERAGE)) == [14, 14, 0]


def test_an_adjustment_takes_over_the_average_price_of_the_broker() -> None:
    made = book(adjustment(1, "10", "50"), trade(2, "-4", "60"))
    assert these(made.total.unknown, made.total.realized(FIFO), made.cost_by(AVERAGE)) == [0, 40, 300]
    made.add([adjustment(3, "6", "25")])
    assert these(made.quantity, made.cost_by(FIFO), made.total.unknown) == [12, 300, 1]


def test_an_adjustment_without_an_average_price_makes_the_cost_unknown() -> None:
    assert book(adjustment(1, "10", None)).cost_by(AVERAGE) is None


def test_fees_are_added_up_and_missing_ones_counted() -> None:
    made = book(trade(1, "1", "10", "0.25"), trade(2, "1", "10", None), trade(3, "-2", "10", "-0.05"))
    assert these(made.total.fees, made.total.without_fee) == [Decimal("0.20"), 1]


@pytest.mark.parametrize("zone_minutes", [0, 330, 345, -210])
def test_a_period_never_spans_two_days_of_a_zone(zone_minutes: int) -> None:
    midnight = datetime(2026, 3, 2, tzinfo=UTC) - timedelta(minutes=zone_minutes)
    assert period_of(midnight) == midnight
    assert period_of(midnight - timedelta(microseconds=1)) == midnight - PERIOD


NUMBERS = st.decimals(min_value=Decimal("0.0001"), max_value=1000, places=4)
TRADES = st.tuples(
    st.integers(0, 3000), NUMBERS, st.booleans(), st.one_of(st.none(), NUMBERS, NUMBERS, NUMBERS, NUMBERS), NUMBERS
)


@given(st.lists(TRADES, max_size=40), st.integers(0, 40))
def test_cost_and_profit_are_as_defined_in_any_two_parts(
    drawn: list[tuple[int, Decimal, bool, Decimal | None, Decimal]], cut: int
) -> None:
    entries = [
        Trade(
            trade_id=f"t{number:03}",
            traded_at=START + timedelta(seconds=at),
            quantity=size if is_buy else -size,
            price=price,
            fee=fee,
        )
        for number, (at, size, is_buy, price, fee) in enumerate(drawn)
    ]
    expected = answer(
        [
            Fill(
                int(each.traded_at.timestamp()),
                each.trade_id,
                Fraction(each.quantity),
                None if each.price is None else Fraction(each.price),
                Fraction(each.fee or 0),
            )
            for each in entries
        ],
        int(PERIOD.total_seconds()),
    )
    ordered = list(in_order(entries))
    made = Book()
    figures = made.add(ordered[:cut])
    for period, each in made.add(ordered[cut:]).items():
        if period in figures:
            figures[period].add(each)
        else:
            figures[period] = each
    assert these(made.quantity, made.total.unknown) == [expected.quantity, expected.unknown]
    assert [made.cost_by(AVERAGE), made.cost_by(FIFO)] == [expected.average_cost, expected.fifo_cost]
    assert {
        int(period.timestamp()): tuple(map(Fraction, (each.realized_average, each.realized_fifo, each.fees)))
        for period, each in figures.items()
    } == expected.by_period

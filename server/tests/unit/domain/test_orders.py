"""Exact decimals and order specs: what is taken is taken as written, everything else is refused."""

from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_exchange.terms import InvalidTerms
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.orders.order_terms import OrderSpec, OrderType, TimeInForce, exact_decimal

REFUSED = (
    "|NaN|nan|sNaN|Infinity|-Infinity|inf|1e5|1E5|1e-5|-1|+1|-0|--1| 1|1 |1\t|1\n|\n1|1\0|1_0|1,000|1.000,5|0x10|0b1"
    "|1/2|１|１.５|٣|१|²|½|01|00|00.5|007|.5|5.|.|1.2.3|1..2|1.5f|$1|1%|1e|e1|(1)|None|true|0|0.0|0.000000000000000000"
    "|1234567890123456789|0.1234567890123456789|1.0000000000000000000"
)
TAKEN = [
    "1",
    "10",
    "0.5",
    "1.50",
    "0.000000000000000001",
    "999999999999999999.999999999999999999",
    "123456789012345678.123456789012345678",
]


@pytest.mark.parametrize("text", REFUSED.split("|"))
def test_what_is_no_plain_positive_decimal_is_refused(text: str) -> None:
    with pytest.raises(InvalidCommand) as refused:
        exact_decimal(text, "/quantity")
    assert refused.value.errors[0].pointer == "/quantity"


@pytest.mark.parametrize("text", TAKEN)
def test_a_plain_decimal_is_taken_digit_for_digit(text: str) -> None:
    assert format(exact_decimal(text, "quantity"), "f") == text


@given(st.text(alphabet="0123456789.+-eE_ \n١１", max_size=40))
def test_whatever_is_taken_reads_back_as_written(text: str) -> None:
    try:
        number = exact_decimal(text, "quantity")
    except InvalidCommand:
        return
    assert format(number, "f") == text
    assert number > 0


@pytest.mark.parametrize(
    ("order_type", "limit", "stop"), list(product(OrderType, [None, Decimal(1)], [None, Decimal(2)]))
)
def test_a_price_is_present_exactly_where_the_kind_has_one(
    order_type: OrderType, limit: Decimal | None, stop: Decimal | None
) -> None:
    fits = {"MARKET": (False, False), "LIMIT": (True, False), "STOP": (False, True), "STOP_LIMIT": (True, True)}

    def build() -> OrderSpec:
        return OrderSpec(
            order_type=order_type,
            quantity=Decimal(1),
            limit_price=limit,
            stop_price=stop,
            time_in_force=TimeInForce.DAY,
        )

    if fits[order_type] == (limit is not None, stop is not None):
        assert build().limit_price == limit
    else:
        with pytest.raises(InvalidTerms):
            build()

"""Fees and buying power at the paper broker."""

from decimal import Decimal

import pytest

from openbell_exchange.money import Holding, buying_power, fee, only_closes
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import OrderSide

FIFTY = Decimal(50)


def holding(**numbers: int) -> Holding:
    return Holding(symbol=Symbol("AAPL"), price=FIFTY, **{name: Decimal(number) for name, number in numbers.items()})


@pytest.mark.parametrize(
    ("quantity", "price", "expected"),
    [
        ("1000", "50", "1"),
        ("0.5", "50", "0.0005"),
        # A penny stock: a thousandth of the value is less.
        ("1000", "0.10", "0.1"),
        ("123456789012345678.123456789012345678", "1", "123456789012345.678123456789012345678"),
    ],
)
def test_a_fee_is_a_tenth_of_a_cent_for_a_share_but_no_more_than_a_thousandth_of_the_value(
    quantity: str, price: str, expected: str
) -> None:
    assert fee(Decimal(quantity), Decimal(price)) == Decimal(expected)


@pytest.mark.parametrize(
    ("numbers", "tied"),
    [
        ({}, 0),
        ({"quantity": 10}, 0),
        ({"buying": 3, "buying_value": 120}, 120),
        ({"buying": 3, "buying_quantity": 3}, 150),
        ({"quantity": 10, "selling": 10}, 0),
        ({"quantity": 10, "selling": 12}, 100),
        # Short: the proceeds are in the cash, and as much again is held.
        ({"quantity": -10}, 1000),
        ({"quantity": -10, "selling": 2}, 1100),
    ],
)
def test_what_is_short_or_working_ties_cash(numbers: dict[str, int], tied: int) -> None:
    assert holding(**numbers).tied == tied
    assert buying_power(Decimal(5000), [holding(**numbers), holding()]) == 5000 - tied


@pytest.mark.parametrize(
    ("side", "numbers", "closes"),
    [
        (OrderSide.SELL, {"quantity": 10, "selling": 10}, True),
        (OrderSide.SELL, {"quantity": 10, "selling": 11}, False),
        (OrderSide.SELL_SHORT, {"selling": 1}, False),
        (OrderSide.BUY, {"quantity": -10, "buying": 10}, True),
        (OrderSide.BUY, {"quantity": -10, "buying": 11}, False),
        (OrderSide.BUY, {"quantity": 10, "buying": 1}, False),
    ],
)
def test_orders_that_only_close_are_told_from_others(side: OrderSide, numbers: dict[str, int], closes: bool) -> None:
    assert only_closes(side, holding(**numbers)) is closes

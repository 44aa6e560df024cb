"""Order specs: exact numbers in, exact strings out."""

from decimal import Decimal

import pytest

from openbell import Limit, Market, Stop, StopLimit
from openbell.intents.orders import Number, OrderSpec, spec_of


@pytest.mark.parametrize(
    ("spec", "wire"),
    [
        (Market(10), {"Market": {"quantity": "10"}}),
        (Market("0.10", time_in_force="DAY"), {"Market": {"quantity": "0.10", "time_in_force": "DAY"}}),
        (Limit(1, price="187.50"), {"Limit": {"quantity": "1", "price": "187.50"}}),
        (Limit(1, "187.50"), {"Limit": {"quantity": "1", "price": "187.50"}}),
        (StopLimit(1, "5", "4.9"), {"StopLimit": {"quantity": "1", "stop_price": "5", "price": "4.9"}}),
        (spec_of(10), {"Market": {"quantity": "10"}}),
        (spec_of("0.5"), {"Market": {"quantity": "0.5"}}),
        (spec_of(Limit(1, 2)), {"Limit": {"quantity": "1", "price": "2"}}),
        (Stop(1, stop_price=Decimal("1E+2")), {"Stop": {"quantity": "1", "stop_price": "100"}}),
        (
            StopLimit("2", stop_price="5", price="4.9"),
            {"StopLimit": {"quantity": "2", "stop_price": "5", "price": "4.9"}},
        ),
    ],
)
def test_a_spec_is_one_key_with_decimal_strings(spec: OrderSpec, wire: dict[str, dict[str, str]]) -> None:
    assert spec.to_wire() == wire


def test_a_float_is_refused_with_the_reason() -> None:
    with pytest.raises(TypeError, match=r"price must not be a float: 187\.1 has no exact decimal value"):
        Limit(1, price=187.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [True, None, b"1"])
def test_what_is_no_number_is_refused(number: object) -> None:
    with pytest.raises(TypeError, match="quantity must be a string, an int or a Decimal"):
        Market(number)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "number", ["", "+1", "--1", "-", "1e5", "NaN", " 1", "1\n", "01", "1.", "1_0", "٣", "1" * 19, Decimal("NaN")]
)
def test_a_number_the_platform_would_refuse_is_refused_before_it_is_sent(number: Number) -> None:
    with pytest.raises(ValueError, match="quantity must be a plain decimal"):
        Market(number)


@pytest.mark.parametrize("number", [0, "0", "0.00", "-0", "-1", -5, Decimal("-0.5")])
def test_zero_or_less_is_refused(number: Number) -> None:
    with pytest.raises(ValueError, match="greater than zero"):
        Market(number)

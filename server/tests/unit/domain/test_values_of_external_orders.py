"""What the fills of an order that is not ours are worth, from what its broker reports of them."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from openbell_server.domain.orders.broker_reports import (
    BrokerExecution,
    ExecutionChange,
    OrderDescription,
    OrderReport,
    ReportStatus,
)
from openbell_server.domain.orders.external_orders import (
    ExternalOrder,
    ExternalStatus,
    merge_report,
    position_change,
    value_of_change,
)
from openbell_server.domain.orders.order_terms import OrderSide
from support.builders.tenant import a_report, an_execution, described

WORKING = ReportStatus.WORKING
FIRST, SECOND = an_execution(1, 5, 2), an_execution(2, 3, 4)


def a_total(filled: int, average: str | None = None, fills: Sequence[BrokerExecution] = ()) -> OrderReport:
    """A report of a total, with some executions or none."""
    report = a_report(WORKING, fills, client_order_id="theirs")
    return replace(report, filled_quantity=Decimal(filled), average_price=None if average is None else Decimal(average))


def merged(*reports: OrderReport, side: OrderSide = OrderSide.BUY) -> tuple[ExternalOrder, list[Decimal | None]]:
    """The order after reports, and the value of each change of the position."""
    order, values = None, []
    for report in reports:
        description = described(report).description
        assert description is not None
        after = merge_report(order, report, replace(description, order_side=side))
        if position_change(order, after):
            values.append(value_of_change(order, after, report))
        order = after
    assert order is not None
    return order, values


@pytest.mark.parametrize(
    ("reports", "value", "changes"),
    [
        # All executions, or the new ones only.
        ((a_total(5, fills=[FIRST]), a_total(8, fills=[FIRST, SECOND])), 22, [10, 12]),
        ((a_total(5, fills=[FIRST]), a_total(8, fills=[SECOND])), 22, [10, 12]),
        ((a_total(5, fills=[FIRST]), a_total(5, fills=[FIRST])), 10, [10]),
        # Executions count before the average, which the broker may have rounded.
        ((a_total(5, "2.01", [FIRST]), a_total(8, "2.76", [SECOND])), 22, [10, 12]),
        ((a_total(5, "2"), a_total(8, "2.75")), 22, [10, 12]),
        ((a_total(5, "2"), a_total(5, "2.01")), 10, [10]),
        ((a_total(0),), 0, []),
        # An execution is missing: the total is unknown until all are listed, a change whose fills are named is not.
        ((a_total(8, fills=[SECOND]),), None, [None]),
        ((a_total(5), a_total(8, fills=[SECOND])), None, [None, 12]),
        ((a_total(8, fills=[SECOND]), a_total(5, fills=[FIRST])), None, [None]),
        ((a_total(8, fills=[SECOND]), a_total(8, fills=[FIRST, SECOND])), 22, [None]),
        # An outdated report with an average of fewer fills.
        ((a_total(8, fills=[FIRST, SECOND]), a_total(5, "9")), 22, [22]),
    ],
)
def test_the_value_is_that_of_the_executions_or_of_the_average_or_unknown(
    reports: Sequence[OrderReport], value: int | None, changes: list[int | None]
) -> None:
    for side, sign in ((OrderSide.BUY, 1), (OrderSide.SELL, -1)):
        order, values = merged(*reports, side=side)
        assert order.filled_value == value
        assert values == [None if change is None else sign * change for change in changes]


def test_a_bust_takes_the_value_back_and_a_correction_without_its_executions_makes_it_unknown() -> None:
    busted = ExecutionChange(execution_id="e2", revision=1, quantity=Decimal(0), price=Decimal(4))
    dearer = replace(busted, quantity=Decimal(3), price=Decimal(5))
    whole = a_total(8, fills=[FIRST, SECOND])
    order, values = merged(whole, replace(whole, filled_quantity=Decimal(5), changes=(busted,)))
    assert (order.filled_value, values) == (Decimal(10), [Decimal(22), Decimal(-12)])
    order, values = merged(whole, replace(whole, changes=(dearer,)))
    assert (order.filled_value, values) == (Decimal(25), [Decimal(22)])
    order, values = merged(whole, replace(a_total(8), changes=(dearer,)))
    assert (order.filled_value, values) == (None, [Decimal(22)])


def test_an_adopted_order_takes_its_value_back_and_is_worth_nothing_from_then_on() -> None:
    order, _ = merged(a_total(5, fills=[FIRST]), side=OrderSide.SELL)
    adopted = replace(order, status=ExternalStatus.ADOPTED, filled_quantity=Decimal(0), filled_value=Decimal(0))
    assert (position_change(order, adopted), value_of_change(order, adopted, None)) == (Decimal(5), Decimal(10))
    description = described(a_total(8)).description
    assert isinstance(description, OrderDescription)
    again = merge_report(adopted, a_total(8, fills=[FIRST, SECOND]), description)
    assert (again.filled_quantity, again.filled_value) == (Decimal(0), Decimal(0))


def test_values_are_exact_for_numbers_with_all_their_digits() -> None:
    quantity, price = Decimal("999999999999999999.999999999999999999"), Decimal("999999999999999999.999999999999999998")
    report = replace(a_total(0, fills=[replace(FIRST, quantity=quantity, price=price)]), filled_quantity=quantity)
    order, values = merged(report, side=OrderSide.SELL)
    exact = Decimal("999999999999999999999999999999999997.000000000000000000000000000000000002")
    assert values == [exact.copy_negate()]
    assert order.filled_value == exact
    assert order.average_price == price
    assert position_change(None, order) == quantity.copy_negate()


@pytest.mark.parametrize(
    ("quantity", "value", "average"),
    [
        ("8", "22", "2.75"),
        ("10", "1000", "100"),
        ("2", "0.000000000000000002", "0.000000000000000001"),
        # One more decimal than fits.
        ("2", "0.000000000000000001", "0"),
        ("3", "2", "0.6666666667"),
        ("3", "0.0000000001", "0"),
        ("0.7", "0.1", "0.1428571429"),
        ("0", "0", None),
        ("3", None, None),
    ],
)
def test_the_average_price_is_exact_with_eighteen_decimals_or_rounded_to_ten(
    quantity: str, value: str | None, average: str | None
) -> None:
    order, _ = merged(a_total(0))
    order = replace(order, filled_quantity=Decimal(quantity), filled_value=None if value is None else Decimal(value))
    assert (None if order.average_price is None else f"{order.average_price:f}") == average

"""Executions of brokers that tell totals only: whatever comes twice, late or never, they add up to the totals."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.orders.broker_reports import OrderReport, ReportStatus
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_reports import changes_nothing, reported_executions
from openbell_server.domain.orders.order_terms import EXACT, exact_total
from support.brokers.order_model import NOW, Asked, Intent
from support.builders.tenant import a_report, some_terms

SMALLEST = Decimal("1e-18")
prices = st.decimals(Decimal("0.01"), Decimal(10_000), places=4)
quantities = st.decimals(0, 10**6, places=9)
averages = st.decimals(Decimal("1e-9"), 10**9, places=9)
Fills = list[tuple[int, Decimal]]


def totals(filled: Decimal | int, average: Decimal | int | str, broker_order_id: str = "b1") -> OrderReport:
    return replace(
        a_report(ReportStatus.WORKING),
        broker_order_id=broker_order_id,
        filled_quantity=Decimal(filled),
        average_price=Decimal(average),
    )


def an_intent(*reports: OrderReport) -> Intent:
    intent = Intent(Order(terms=some_terms(10_000, "1.50")), [Asked(ActionType.CREATE)])
    for report in reports:
        intent.report(report)
    return intent


def told_after(fills: Fills, places: int) -> list[OrderReport]:
    """What a broker that rounds its averages tells after each fill."""
    reports, filled, value = [], Decimal(0), Decimal(0)
    for quantity, price in fills:
        filled, value = filled + quantity, EXACT.add(value, quantity * price)
        average = EXACT.quantize(EXACT.divide(value, filled), Decimal(1).scaleb(-places))
        reports.append(totals(filled, average))
    return reports


@given(
    st.lists(st.tuples(st.integers(1, 1_000), prices), min_size=1, max_size=8),
    st.integers(8, 18),
    st.randoms(use_true_random=False),
)
def test_reports_in_any_order_come_to_the_broker_s_quantity_and_value(
    fills: Fills, places: int, chance: Random
) -> None:
    reports = told_after(fills, places)
    *earlier, last = reports
    heard = [report for report in earlier if chance.random() < 0.8]
    seen = [*heard, last, *(report for report in reports if chance.random() < 0.5)]
    chance.shuffle(seen)
    intent = an_intent(*seen)
    assert intent.order.filled_quantity == last.filled_quantity
    assert last.average_price is not None
    value = EXACT.multiply(last.filled_quantity, last.average_price)
    assert abs(EXACT.subtract(intent.order.filled_value, value)) <= EXACT.multiply(last.filled_quantity, SMALLEST)
    assert exact_total(fill.quantity for fill in intent.executions.values()) == last.filled_quantity


@given(st.lists(st.tuples(quantities, averages, st.sampled_from(["b1", "b2"])), max_size=12))
def test_whatever_totals_are_told_the_most_of_them_counts_at_prices_above_nothing(
    told: list[tuple[Decimal, Decimal, str]],
) -> None:
    intent = an_intent(*(totals(*each) for each in told))
    assert intent.order.filled_quantity == max([Decimal(0), *(filled for filled, _, _ in told)])
    assert all(fill.price > 0 and fill.quantity > 0 for fill in intent.executions.values())
    assert exact_total(fill.quantity for fill in intent.executions.values()) == intent.order.filled_quantity


def test_an_execution_is_named_by_the_order_and_its_total_however_that_is_written() -> None:
    first = an_intent(totals(10, 2))
    assert [*first.executions] == ["b1:10"]
    assert [*an_intent(totals(Decimal("1E+1"), 2), totals(Decimal("10.00"), 2)).executions] == ["b1:10"]


def test_what_is_new_has_the_price_that_makes_the_average_true() -> None:
    intent = an_intent(totals(4, "1.25"), totals(10, "1.40"))
    assert [(fill.quantity, fill.price) for fill in intent.executions.values()] == [
        (Decimal(4), Decimal("1.25")),
        (Decimal(6), Decimal("1.5")),
    ]


def test_a_total_over_a_chain_of_replaced_orders_goes_on_from_the_one_before() -> None:
    intent = an_intent(totals(4, 1, "b1"), totals(6, 2, "b2"), totals(4, 1, "b1"))
    assert {name: int(fill.quantity) for name, fill in intent.executions.items()} == {"b1:4": 4, "b2:6": 2}


def test_an_average_that_leaves_no_price_for_what_is_new_is_its_price() -> None:
    intent = an_intent(totals(1_000, "5.00"), totals(1_001, "4.99"))
    assert intent.executions["b1:1001"].price == Decimal("4.99")


def test_a_quantity_without_a_price_is_not_counted_and_not_guessed_at() -> None:
    assert reported_executions(Order(terms=some_terms(10)), totals(4, 0), NOW) == ()


def test_an_execution_was_made_when_the_broker_says_so_else_when_it_was_learned_of() -> None:
    order, report = Order(terms=some_terms(10)), totals(4, 1)
    earlier = NOW - timedelta(hours=1)
    assert reported_executions(order, report, NOW)[0].executed_at == NOW
    assert reported_executions(order, replace(report, as_of=earlier), NOW)[0].executed_at == earlier


def test_totals_that_were_counted_tell_nothing_new_and_higher_ones_do() -> None:
    order = an_intent(totals(4, "1.25")).order
    assert changes_nothing(order, totals(4, "1.25"))
    assert not changes_nothing(order, totals(5, "1.25"))

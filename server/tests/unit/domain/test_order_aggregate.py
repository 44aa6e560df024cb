"""The order as facts: reports in any order and any number give the same order, fills count once, an end is final."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.orders.broker_reports import BrokerExecution, OrderReport, ReportStatus
from openbell_server.domain.orders.order_aggregate import (
    Certainty,
    Closed,
    CloseReason,
    CommandAnswered,
    Order,
    OutcomeUnknown,
    Pending,
    ReplaceAnswered,
    Standing,
    advance,
    status,
)
from openbell_server.domain.orders.order_reports import apply_report, counted_with
from openbell_server.domain.orders.order_terms import Terms
from support.builders.tenant import a_report, an_execution, exact_sum, some_terms

ENDS = (ReportStatus.FILLED, ReportStatus.CANCELED, ReportStatus.EXPIRED, ReportStatus.REJECTED)
quantities = st.decimals("0.000000000000000001", "999999999999999999.999999999999999999", places=18)


@dataclass(frozen=True, slots=True)
class Story:
    """What happened to an order at its broker, as the reports that tell of it."""

    quantity: Decimal
    fills: tuple[BrokerExecution, ...]
    reports: tuple[OrderReport, ...]

    def follow(self, reports: Sequence[OrderReport]) -> list[Order]:
        """The order after each report; a report that counts more than it tells is answered by asking the broker."""
        seen: set[str] = set()
        order = Order(terms=some_terms(self.quantity))
        orders = []
        for report in reports:
            order = _apply(order, report, seen)
            if report.filled_quantity > order.filled_quantity:
                order = _apply(order, a_report(self.reports[-1].status, self.fills), seen)
            orders.append(order)
        return orders


def reported(
    order: Order, report: OrderReport, unseen: Sequence[BrokerExecution], in_flight: Terms | None = None
) -> Order:
    return apply_report(order, report, counted_with(order, unseen), in_flight)


def _apply(order: Order, report: OrderReport, seen: set[str]) -> Order:
    unseen = [fill for fill in report.executions if fill.execution_id not in seen]
    seen.update(fill.execution_id for fill in unseen)
    return reported(order, report, unseen)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    sizes = draw(st.lists(quantities, max_size=4))
    fills = tuple(an_execution(number, size, draw(quantities)) for number, size in enumerate(sizes))
    whole = bool(fills) and draw(st.booleans())
    with localcontext(prec=200):
        quantity = exact_sum(fills) if whole else exact_sum(fills) + draw(quantities)
    last = ReportStatus.FILLED if whole else draw(st.sampled_from([ReportStatus.WORKING, *ENDS[1:]]))
    reports = []
    for count in range(len(fills) + 1):
        told = fills[:count] if draw(st.booleans()) else fills[max(0, count - 1) : count]
        reports.append(a_report(ReportStatus.WORKING, fills[:count], told))
    reports.append(a_report(last, fills, fills if draw(st.booleans()) else ()))
    return Story(quantity, fills, tuple(reports))


@given(stories(), st.data())
def test_any_shuffle_with_copies_gives_the_same_order(story: Story, data: st.DataObject) -> None:
    copies = data.draw(st.lists(st.sampled_from(story.reports), max_size=6))
    shuffled = data.draw(st.permutations([*story.reports, *copies]))
    assert story.follow(shuffled)[-1] == story.follow(story.reports)[-1]


@given(stories(), st.data())
def test_filled_is_the_exact_sum_of_the_executions_each_counted_once(story: Story, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(story.reports * 2))
    order = story.follow(shuffled)[-1]
    with localcontext(prec=200):
        value = sum((fill.quantity * fill.price for fill in story.fills), Decimal(0))
    assert (order.filled_quantity, order.filled_value) == (exact_sum(story.fills), value)


@given(stories(), st.data())
def test_a_closed_order_never_reopens_and_leaves_nothing(story: Story, data: st.DataObject) -> None:
    orders = story.follow(data.draw(st.permutations(story.reports * 2)))
    standings = [order.standing for order in orders]
    first = standings.index(Standing.CLOSED) if Standing.CLOSED in standings else len(standings)
    assert set(standings[first:]) <= {Standing.CLOSED}
    for order in orders:
        with localcontext(prec=200):
            left = story.quantity - order.filled_quantity
        assert order.leaves_quantity == (left if order.standing is Standing.WORKING else 0)
        assert (order.close_reason is None) == (order.standing is not Standing.CLOSED)


@given(stories())
def test_the_average_price_lies_between_the_lowest_and_the_highest(story: Story) -> None:
    average = story.follow(story.reports)[-1].average_price
    if not story.fills:
        assert average is None
        return
    prices = [fill.price for fill in story.fills]
    assert average is not None
    with localcontext(prec=200):
        assert min(prices) - Decimal("1e-9") <= average <= max(prices) + Decimal("1e-9")


def test_an_average_price_is_rounded_to_nine_places() -> None:
    order = Order(terms=some_terms(Decimal(3)), filled_quantity=Decimal(3), filled_value=Decimal(10))
    assert order.average_price == Decimal("3.333333333")


def test_an_order_that_waits_for_its_broker_may_still_fill_whole() -> None:
    assert Order(terms=some_terms(Decimal(7))).leaves_quantity == 7
    assert advance(Order(terms=some_terms(Decimal(7))), OutcomeUnknown()).leaves_quantity == 7


def test_more_fills_than_were_asked_for_are_counted_and_leave_nothing() -> None:
    order = reported(
        Order(terms=some_terms(Decimal(1))),
        a_report(ReportStatus.WORKING, [an_execution(1, Decimal(2))]),
        [an_execution(1, Decimal(2))],
    )
    assert (order.filled_quantity, order.leaves_quantity, order.close_reason) == (
        Decimal(2),
        Decimal(0),
        CloseReason.FILLED,
    )


def test_fills_that_reach_the_quantity_close_the_order_whatever_the_report_says() -> None:
    fills = [an_execution(1, 1), an_execution(2, 2)]
    order = reported(Order(terms=some_terms(Decimal(3))), a_report(ReportStatus.WORKING, fills), fills)
    assert (order.standing, order.close_reason) == (Standing.CLOSED, CloseReason.FILLED)


def test_a_fill_that_comes_after_a_cancel_is_counted() -> None:
    canceled = reported(Order(terms=some_terms(Decimal(3))), a_report(ReportStatus.CANCELED), [])
    late = an_execution(1, Decimal(1))
    order = reported(canceled, a_report(ReportStatus.CANCELED, [late]), [late])
    assert (order.filled_quantity, order.close_reason) == (Decimal(1), CloseReason.CANCELED)


def test_an_end_that_counts_unseen_fills_waits_for_them() -> None:
    fill = an_execution(1, Decimal(1))
    order = reported(Order(terms=some_terms(Decimal(3))), a_report(ReportStatus.CANCELED, [fill], told=[]), [])
    assert order.standing is Standing.WORKING


def test_a_report_answers_a_create_in_doubt_but_not_a_cancel_in_doubt() -> None:
    fresh = advance(Order(terms=some_terms(Decimal(3))), OutcomeUnknown())
    assert reported(fresh, a_report(ReportStatus.WORKING), []).certainty is Certainty.CONFIRMED
    cancelling = Order(
        terms=some_terms(Decimal(3)), standing=Standing.WORKING, pending=Pending.CANCEL, certainty=Certainty.UNKNOWN
    )
    told = reported(cancelling, a_report(ReportStatus.WORKING), [])
    assert (told.pending, told.certainty) == (Pending.CANCEL, Certainty.UNKNOWN)
    assert advance(told, Closed(CloseReason.CANCELED)).certainty is Certainty.CONFIRMED
    assert advance(told, CommandAnswered()).pending is Pending.NONE


# pending, certainty, close reason, filled → the word to show, highest precedence first.
STATUS = [
    ("NEW", "UNKNOWN", None, 0, "UNKNOWN"),
    ("NEW", "UNKNOWN", None, 1, "UNKNOWN"),
    ("CANCEL", "CONFIRMED", None, 0, "PENDING_CANCEL"),
    ("CANCEL", "UNKNOWN", None, 1, "PENDING_CANCEL"),
    ("REPLACE", "CONFIRMED", None, 1, "PENDING_REPLACE"),
    ("REPLACE", "UNKNOWN", None, 0, "PENDING_REPLACE"),
    ("NEW", "CONFIRMED", None, 0, "PENDING_NEW"),
    ("NONE", "CONFIRMED", "FILLED", 2, "FILLED"),
    ("NONE", "CONFIRMED", "CANCELED", 1, "CANCELED"),
    ("NONE", "CONFIRMED", "EXPIRED", 1, "EXPIRED"),
    ("NONE", "CONFIRMED", "REJECTED", 1, "REJECTED"),
    ("NONE", "CONFIRMED", "SKIPPED", 0, "SKIPPED"),
    ("NONE", "CONFIRMED", "FAILED", 0, "FAILED"),
    ("NONE", "CONFIRMED", "RECONCILED_OUT", 0, "RECONCILED_OUT"),
    ("NONE", "CONFIRMED", None, 1, "PARTIALLY_FILLED"),
    ("NONE", "UNKNOWN", None, 1, "PARTIALLY_FILLED"),
    ("NONE", "CONFIRMED", None, 0, "NEW"),
]


@pytest.mark.parametrize(("pending", "certainty", "reason", "filled", "word"), STATUS)
def test_the_status_follows_the_precedence_of_the_design(
    pending: str, certainty: str, reason: str | None, filled: int, word: str
) -> None:
    order = Order(
        terms=some_terms(Decimal(2)),
        filled_quantity=Decimal(filled),
        standing=Standing.CLOSED if reason else Standing.WORKING,
        close_reason=CloseReason(reason) if reason else None,
        pending=Pending(pending),
        certainty=Certainty(certainty),
    )
    assert status(order) == word


def test_every_close_reason_is_in_the_table() -> None:
    assert {row[2] for row in STATUS if row[2]} == {reason.value for reason in CloseReason}


OLD, NEW = some_terms(3, "1.50"), some_terms(5, "1.75")
REPLACING = Order(terms=OLD, standing=Standing.WORKING, pending=Pending.REPLACE, broker_order_ids=("b1",))


def test_an_order_that_is_full_by_its_old_quantity_only_waits_for_the_replace_in_flight() -> None:
    fills = [an_execution(1, 3)]
    order = reported(REPLACING, a_report(ReportStatus.WORKING, fills), fills, NEW)
    assert (order.standing, order.filled_quantity) == (Standing.WORKING, Decimal(3))
    assert advance(order, ReplaceAnswered(NEW)).leaves_quantity == 2
    assert advance(order, ReplaceAnswered(OLD)).close_reason is CloseReason.FILLED


def test_a_replace_to_a_lower_quantity_in_flight_does_not_end_an_order_early() -> None:
    fills = [an_execution(1, 2)]
    order = reported(REPLACING, a_report(ReportStatus.WORKING, fills), fills, some_terms(2))
    assert order.standing is Standing.WORKING
    assert advance(order, ReplaceAnswered(some_terms(2))).close_reason is CloseReason.FILLED


@pytest.mark.parametrize("ended", ENDS)
def test_the_end_of_an_order_shows_whether_a_replace_in_flight_came_first(ended: ReportStatus) -> None:
    for shown, expected in ((NEW, NEW), (OLD, OLD), (None, OLD)):
        order = reported(REPLACING, a_report(ended, terms=shown), [], NEW)
        assert (order.standing, order.terms) == (Standing.CLOSED, expected)


@pytest.mark.parametrize("shown", [OLD, NEW, None])
def test_what_a_working_order_shows_replaces_nothing_by_itself(shown: Terms | None) -> None:
    order = reported(REPLACING, a_report(ReportStatus.WORKING, terms=shown), [], NEW)
    assert order == REPLACING


def test_a_settled_replace_leaves_a_cancel_behind_it_pending() -> None:
    waiting = advance(replace(REPLACING, pending=Pending.CANCEL), OutcomeUnknown())
    assert advance(waiting, ReplaceAnswered(NEW)) == replace(
        REPLACING, terms=NEW, terms_version=2, pending=Pending.CANCEL
    )
    doubtful = advance(REPLACING, OutcomeUnknown())
    assert advance(doubtful, ReplaceAnswered(NEW)) == replace(
        REPLACING, terms=NEW, terms_version=2, pending=Pending.NONE
    )


def test_a_replace_never_reopens_an_order() -> None:
    ended = advance(REPLACING, Closed(CloseReason.CANCELED))
    assert advance(ended, ReplaceAnswered(NEW)) == replace(ended, terms=NEW, terms_version=2)


def test_a_replaced_order_fills_by_its_new_quantity() -> None:
    order = advance(REPLACING, ReplaceAnswered(NEW))
    fills = [an_execution(1, 3), an_execution(2, 2)]
    assert reported(order, a_report(ReportStatus.WORKING, fills[:1]), fills[:1]).leaves_quantity == 2
    assert reported(order, a_report(ReportStatus.WORKING, fills), fills).close_reason is CloseReason.FILLED


def test_an_order_whose_replace_waits_for_an_answer_is_pending_replace() -> None:
    assert status(REPLACING) == status(advance(REPLACING, OutcomeUnknown())) == "PENDING_REPLACE"

"""Orders that replaced each other are one order: its fills are the sum, its quantity a total, its terms the last."""

from decimal import Decimal

import msgspec
import pytest

from openbell_server.brokers.alpaca import chains
from openbell_server.brokers.alpaca.chains import Chain, Place, Places, order_report
from openbell_server.brokers.alpaca.wire import AlpacaOrder, Fill
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_aggregate import Order, ReplaceAnswered, SeenAtBroker, Standing, advance
from openbell_server.domain.orders.order_reports import apply_report, counted_with
from openbell_server.domain.orders.order_terms import Terms, TimeInForce
from support.brokers.alpaca_orders import an_order, fill_json, replaced

FIRST = msgspec.convert(replaced("A", by="B", filled_qty="3"), AlpacaOrder)
LAST = an_order("B", replaces="A", qty="7", filled_qty="2", limit_price="91", client_order_id="second")
CHAIN = Chain((FIRST, LAST))


def fills(*told_fills: dict[str, str]) -> dict[str, list[Fill]]:
    found: dict[str, list[Fill]] = {}
    for each in told_fills:
        found.setdefault(each["order_id"], []).append(msgspec.convert(each, Fill))
    return found


def asked(quantity: int, limit_price: int) -> Terms:
    return Terms(quantity=Decimal(quantity), limit_price=Decimal(limit_price), time_in_force=TimeInForce.DAY)


def test_a_chain_is_told_as_one_order() -> None:
    report = CHAIN.report(
        fills(fill_json("A", "3", "3"), fill_json("B", "2", "2", price="91"), fill_json("C", "9", "9"))
    )
    assert (report.client_order_id, report.broker_order_id) == ("our-A", "B")
    assert report.filled_quantity == 5
    assert report.terms == asked(10, 91)
    assert {fill.execution_id: int(fill.quantity) for fill in report.executions} == {"A:3": 3, "B:2": 2}
    assert report.description is not None
    assert report.status is ReportStatus.WORKING


def test_fills_that_are_not_listed_yet_are_counted_all_the_same() -> None:
    report = CHAIN.report(fills(fill_json("A", "3", "3")))
    assert (int(report.filled_quantity), len(report.executions)) == (5, 1)


def test_what_is_told_of_a_replacement_counts_for_more_than_what_its_answer_promised() -> None:
    """One share more filled while the replace was on its way, so that the total is eleven and not ten."""
    order = advance(Order(terms=asked(10, 90)), SeenAtBroker("A"))
    order = advance(order, ReplaceAnswered(asked(10, 91)))
    grown = Chain((FIRST, an_order("B", replaces="A", qty="8", limit_price="91")))
    after = apply_report(order, grown.report({}), counted_with(order, ()))
    assert after.terms == asked(11, 91)


def test_a_replacement_that_was_refused_after_all_gives_the_old_terms_back() -> None:
    order = advance(Order(terms=asked(10, 90)), SeenAtBroker("A"))
    order = advance(order, ReplaceAnswered(asked(20, 91)))
    full = Chain((an_order("A", filled_qty="10", status="filled"),), frozenset({"B"}))
    report = full.report(fills(fill_json("A", "10", "10")))
    after = apply_report(order, report, counted_with(order, report.executions))
    assert (after.terms, after.standing) == (asked(10, 90), Standing.CLOSED)


def test_old_news_of_an_earlier_order_of_the_chain_changes_neither_terms_nor_standing() -> None:
    places = Places()
    places.remember(CHAIN)
    place = places.of(FIRST)
    assert place is not None
    order = advance(Order(terms=asked(10, 90)), SeenAtBroker("A"))
    after = apply_report(order, CHAIN.report({}), counted_with(order, ()))
    again = apply_report(after, order_report(FIRST, place, ()), counted_with(after, ()))
    assert again == after


def test_the_order_to_change_is_the_last_of_the_chain_however_its_ids_came() -> None:
    places = Places()
    assert places.newest(["A", "B"]) == "B"
    places.remember(CHAIN)
    assert places.newest(["B", "A"]) == "B"
    # An answer told of it, and no report yet.
    assert places.newest(["A", "B", "C"]) == "C"
    places.remember(Chain((FIRST, LAST), frozenset({"C"})))
    assert places.newest(["A", "B", "C"]) == "B"


def test_an_order_that_says_it_was_replaced_tells_where_the_next_one_stands() -> None:
    places = Places()
    places.notify(FIRST, Place("our-A", 1, Decimal(0)))
    assert places.of(LAST) == Place("our-A", 2, Decimal(3))


def test_an_order_that_replaces_another_has_no_place_before_that_is_known() -> None:
    assert Places().of(LAST) is None
    assert Places().of(an_order("A")) == Place("our-A", 1, Decimal(0))


def test_places_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "PLACES_MAX", 2)
    places = Places()
    places.remember(CHAIN)
    for number in range(2):
        places.notify(an_order(f"X{number}"), Place("x", 1, Decimal(0)))
    assert places.of(LAST) is None

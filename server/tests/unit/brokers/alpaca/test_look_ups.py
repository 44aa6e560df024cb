"""Looking orders up: chains read to both ends, lists complete or not at all, every fill of every order of a chain."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from openbell_server.brokers.alpaca import account as limits
from openbell_server.brokers.alpaca.look_ups import CHAIN_MAX, ChainBroken, find, look_at, orders_since, rest_of
from openbell_server.brokers.http_client import ListBrokenOff
from openbell_server.domain.orders.broker_reports import OrderName, OrderReport, ReportStatus
from support.brokers.alpaca_orders import Books, an_account, fill_json, order_json, replaced

SINCE = datetime(2026, 1, 2, tzinfo=UTC)
OLD = "2025-12-24T15:00:00Z"
THREE = (
    replaced("A", by="B", filled_qty="3"),
    replaced("B", by="C", replaces="A", qty="7", filled_qty="1"),
    order_json("C", replaces="B", qty="6", filled_qty="2", status="partially_filled"),
)
FILLS = [
    fill_json("A", "3", "3", 1),
    fill_json("B", "1", "1", 2),
    fill_json("C", "2", "2", 3),
    fill_json("Z", "1", "1", 4),
]


def found(books: Books, *broker_order_ids: str) -> OrderReport | None:
    account = an_account()
    name = OrderName(client_order_id="our-A", broker_order_ids=broker_order_ids)
    return books.run(account, find(account, name))


def listed(books: Books) -> list[OrderReport]:
    account = an_account()
    return books.run(account, orders_since(account, SINCE))


def told(report: OrderReport | None) -> tuple[object, ...]:
    assert report is not None
    assert report.terms is not None
    executions = [fill.execution_id for fill in report.executions]
    return report.client_order_id, report.broker_order_id, report.terms.quantity, report.filled_quantity, executions


WHOLE = ("our-A", "C", 10, 6, ["A:3", "B:1", "C:2"])


def test_an_order_is_followed_to_the_last_that_replaced_it() -> None:
    report = found(Books([*THREE], FILLS))
    assert told(report) == WHOLE
    assert report is not None
    assert report.terms_version == 5


def test_any_order_of_a_chain_leads_to_the_whole() -> None:
    for order_id in ("A", "B", "C"):
        account = an_account()
        assert told(Books([*THREE], FILLS).run(account, look_at(account, order_id))) == WHOLE


def test_the_rest_of_a_chain_is_asked_for_once_where_its_place_is_known_and_walked_to_where_not() -> None:
    books, account = Books([*THREE]), an_account()
    for ids, questions in ((["A", "B", "C"], 3), (["A", "B", "C"], 1), (["A"], 3)):
        books.asked.clear()
        order, filled = books.run(account, rest_of(account, ids))
        assert (order.id, int(filled), len(books.asked)) == ("C", 6, questions)


def test_only_the_brokers_own_word_says_that_an_order_is_not_there() -> None:
    assert found(Books()) is None


def test_a_chain_is_listed_once_with_orders_from_before_the_list() -> None:
    books = Books(
        [THREE[0] | {"submitted_at": OLD}, THREE[1] | {"submitted_at": OLD}, THREE[2], order_json("X")], FILLS
    )
    reports = listed(books)
    assert [told(report) for report in reports] == [WHOLE, ("our-X", "X", 10, 0, [])]
    asked = next(request for request in books.asked if request.url.path.endswith("FILL"))
    assert asked.url.params["after"] < OLD


def test_an_order_that_was_replaced_while_the_list_was_read_is_read_again() -> None:
    books = Books([order_json("A"), order_json("B", replaces="A", qty="7")], later={"A": replaced("A", by="B")})
    assert [told(report)[:3] for report in listed(books)] == [("our-A", "B", 7)]


def test_a_replacement_that_is_not_in_force_yet_is_no_order() -> None:
    books = Books(
        [order_json("A", status="pending_replace"), order_json("B", replaces="A", qty="7", status="accepted")]
    )
    (report,) = listed(books)
    assert told(report)[:3] == ("our-A", "A", 10)
    assert report.terms_version == 1


def test_a_replacement_that_was_refused_counts_as_a_change_and_its_order_stays() -> None:
    books = Books([order_json("A"), order_json("B", replaces="A", qty="7", status="rejected")])
    (report,) = listed(books)
    for shown in (report, found(books, "A", "B")):
        assert told(shown)[:3] == ("our-A", "A", 10)
        assert shown is not None
        assert (shown.terms_version, shown.status) == (3, ReportStatus.WORKING)


def test_pages_of_orders_are_read_to_the_end_each_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ORDERS_PAGE", 3)
    times = ["2026-01-02T15:00:00Z", "2026-01-02T15:00:01Z", "2026-01-02T15:00:01Z", "2026-01-02T15:00:02Z"]
    orders = [order_json(f"N{number}", submitted_at=time) for number, time in enumerate(times)]
    assert [report.broker_order_id for report in listed(Books(orders, page=3))] == ["N0", "N1", "N2", "N3"]


def test_a_list_that_does_not_move_on_is_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ORDERS_PAGE", 2)
    books = Books([order_json("A"), order_json("B"), order_json("C")], page=2)
    with pytest.raises(ListBrokenOff):
        listed(books)
    assert len(books.asked) == 2


def test_fills_are_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FILLS_PAGE", 1)
    assert told(found(Books([*THREE], FILLS, page=1))) == WHOLE


def test_a_list_of_fills_without_an_end_is_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FILLS_PAGE", 1)
    monkeypatch.setattr(limits, "FILL_PAGES_MAX", 2)
    with pytest.raises(ListBrokenOff):
        found(Books([*THREE], FILLS, page=1))


def test_a_chain_that_goes_round_or_on_for_ever_is_no_chain() -> None:
    ring = [replaced("A", by="B", replaces="B"), replaced("B", by="A", replaces="A")]
    with pytest.raises(ChainBroken):
        found(Books(ring))
    ids = ["A", *(f"N{number}" for number in range(CHAIN_MAX + 1))]
    with pytest.raises(ChainBroken):
        found(Books([replaced(order_id, by=then) for order_id, then in pairwise(ids)]))


def test_an_order_that_another_names_and_nobody_has_breaks_the_chain() -> None:
    with pytest.raises(ChainBroken):
        found(Books([replaced("A", by="B")]))


def test_several_options_at_once_are_left_out() -> None:
    legs = order_json("L", order_class="mleg", symbol=None, side=None)
    assert [report.broker_order_id for report in listed(Books([legs, order_json("A")]))] == ["A"]


def test_the_list_begins_a_little_before_the_time_asked_for() -> None:
    books = Books([order_json("A", submitted_at=SINCE.isoformat())])
    assert len(listed(books)) == 1
    assert datetime.fromisoformat(books.asked[0].url.params["after"]) > SINCE - timedelta(seconds=1)

"""What the stream says, in our words: one bad message costs a question, never the stream."""

import asyncio
from typing import Any

import msgspec
import pytest

from openbell_server.application.ports.broker import FeedItem
from openbell_server.brokers.alpaca.account import AlpacaAccount
from openbell_server.brokers.alpaca.stream import AccountStream
from openbell_server.domain.orders.broker_reports import OrderReport, ReportStatus
from support.brokers.alpaca_orders import ACCOUNT, Books, an_account, fill_json, order_json, replaced

AT = "2026-01-02T15:00:02.5Z"
GAP = (ACCOUNT, None)


def message(event: str, order: dict[str, Any], **more: object) -> bytes:
    said = {"stream": "trade_updates", "data": {"event": event, "order": order, "timestamp": AT, **more}}
    return msgspec.json.encode(said)


def heard(books: Books, *messages: bytes | str, account: AlpacaAccount | None = None) -> list[FeedItem]:
    account = account or an_account()
    queue: asyncio.Queue[FeedItem] = asyncio.Queue()
    stream = AccountStream(account, queue.put)

    async def notify() -> None:
        for each in messages:
            await stream._receive(each)

    books.run(account, notify())
    return [queue.get_nowait() for _ in range(queue.qsize())]


def reports(books: Books, *messages: bytes | str) -> list[OrderReport]:
    told = []
    for item in heard(books, *messages):
        assert item is not None
        assert item[1] is not None
        told.append(item[1])
    return told


def test_a_fill_is_told_with_the_name_that_the_activities_give_it() -> None:
    order = order_json("A", filled_qty="4", status="partially_filled")
    (report,) = reports(Books(), message("partial_fill", order, qty="4", price="89.5"))
    (fill,) = report.executions
    assert (fill.execution_id, str(fill.quantity), str(fill.price)) == ("A:4", "4", "89.5")
    assert (report.status, int(report.filled_quantity)) == (ReportStatus.WORKING, 4)


def test_a_replacement_is_told_as_its_first_order_with_all_that_filled() -> None:
    books = Books()
    told = reports(
        books,
        message("replaced", replaced("A", by="B", filled_qty="3")),
        message("new", order_json("B", replaces="A", qty="7", limit_price="91")),
        message("fill", order_json("B", replaces="A", qty="7", filled_qty="7", status="filled"), qty="7", price="91"),
    )
    assert {report.client_order_id for report in told} == {"our-A"}
    assert [report.broker_order_id for report in told] == ["A", "B", "B"]
    assert [report.filled_quantity for report in told] == [3, 3, 10]
    assert [report.terms.quantity for report in told if report.terms] == [10, 10, 10]
    assert [report.terms_version for report in told] == [1, 3, 3]
    assert [report.status for report in told] == [ReportStatus.WORKING, ReportStatus.WORKING, ReportStatus.FILLED]
    assert not books.asked


def test_what_an_unknown_order_replaces_is_asked_for_first() -> None:
    books = Books([replaced("A", by="B", filled_qty="3"), order_json("B", replaces="A", qty="7")])
    (report,) = reports(books, message("new", order_json("B", replaces="A", qty="7")))
    assert (report.client_order_id, int(report.filled_quantity)) == ("our-A", 3)


def test_a_replacement_is_not_told_of_while_the_old_order_still_counts() -> None:
    books = Books([order_json("A", status="pending_replace"), order_json("B", replaces="A", qty="7")])
    assert heard(books, message("pending_new", order_json("B", replaces="A", qty="7"))) == []


def test_a_refused_replacement_is_told_as_what_became_of_the_old_order() -> None:
    refused = order_json("B", replaces="A", qty="17", status="rejected")
    books = Books([order_json("A", status="filled", filled_qty="10"), refused], [fill_json("A", "10", "10")])
    (report,) = reports(books, message("rejected", refused))
    assert (report.broker_order_id, report.status, report.terms_version) == ("A", ReportStatus.FILLED, 3)


@pytest.mark.parametrize(
    "event", ["an_event_of_tomorrow", "restated", "order_replace_rejected", "order_cancel_rejected"]
)
def test_after_an_event_that_nobody_knows_the_order_is_asked_for(event: str) -> None:
    books = Books([order_json("A", status="canceled")])
    (report,) = reports(books, message(event, order_json("A")))
    assert report.status is ReportStatus.CANCELED


def test_a_fill_without_its_numbers_is_asked_for() -> None:
    order = order_json("A", filled_qty="4")
    (report,) = reports(Books([order], [fill_json("A", "4", "4")]), message("partial_fill", order))
    assert [fill.execution_id for fill in report.executions] == ["A:4"]


def test_an_update_that_cannot_be_read_is_asked_for_by_the_order_it_names() -> None:
    broken = order_json("A", filled_qty="many")
    (report,) = reports(Books([order_json("A", status="expired")]), message("new", broken))
    assert report.status is ReportStatus.EXPIRED


@pytest.mark.parametrize(
    "garbled",
    [b"", b"{", b"\xff\xff", "nonsense", b"[]", b'{"stream": "trade_updates"}', message("new", {"id": "../etc"})],
)
def test_a_message_that_names_no_order_is_a_gap_and_the_next_one_is_heard(garbled: bytes | str) -> None:
    told = heard(Books(), garbled, message("new", order_json("A")))
    assert told[0] == GAP
    assert told[1] is not None
    assert told[1][1] is not None


def test_an_order_that_cannot_be_asked_for_now_is_a_gap() -> None:
    assert heard(Books(), message("new", order_json("B", replaces="A"))) == [GAP]


def test_other_streams_are_passed_over() -> None:
    assert heard(Books(), b'{"stream": "account_updates", "data": {"id": 1}}') == []

"""Alpaca's words: exact to the last digit, read past what is not known, never guessed into an end."""

from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest

from openbell_server.brokers.alpaca.wire import (
    ORDER_TYPES,
    SIDES,
    TIMES_IN_FORCE,
    AlpacaOrder,
    PositionBody,
    QuotesBody,
    execution_id,
)
from openbell_server.brokers.http_client import decimal_text
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, Terms, TimeInForce
from support.brokers.alpaca_orders import an_order, order_json

LONG = "123456789012345678.123456789012345678"


def test_numbers_are_exact_to_eighteen_places_both_ways() -> None:
    order = an_order("A", qty=LONG, filled_qty="0.000000000000000001", limit_price=LONG)
    assert order.terms(Decimal(0)) == Terms(
        quantity=Decimal(LONG), limit_price=Decimal(LONG), time_in_force=TimeInForce.DAY
    )
    assert order.filled == Decimal("0.000000000000000001")
    assert decimal_text(Decimal("1E-18")) == "0.000000000000000001"
    assert decimal_text(Decimal(LONG)) == LONG


@pytest.mark.parametrize("text", ["1e3", "NaN", "Infinity", "-1", "", "1.", "0x1", 1.5])
def test_a_number_that_is_not_a_plain_decimal_is_refused(text: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        an_order("A", filled_qty=text)


def test_prices_that_come_as_numbers_are_exact_too() -> None:
    said = b'{"quotes": {"AAPL": {"t": "2026-01-02T15:00:00.123456789Z", "bp": 0.1, "ap": 173.123456789012345678}}}'
    quote = msgspec.json.decode(said, type=QuotesBody).quotes["AAPL"]
    assert (quote.bid, quote.ask) == (Decimal("0.1"), Decimal("173.123456789012345678"))


def test_a_time_with_nanoseconds_is_read_and_one_without_a_zone_is_not() -> None:
    assert an_order("A").taken_at == datetime(2026, 1, 2, 15, tzinfo=UTC)
    with pytest.raises(msgspec.ValidationError):
        an_order("A", submitted_at="2026-01-02T15:00:00")


@pytest.mark.parametrize("order_id", ["", "../account", "a b", "x" * 65])
def test_an_id_that_does_not_fit_a_path_is_refused(order_id: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        an_order(order_id)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("filled", ReportStatus.FILLED),
        ("canceled", ReportStatus.CANCELED),
        ("expired", ReportStatus.EXPIRED),
        ("rejected", ReportStatus.REJECTED),
        ("done_for_day", ReportStatus.DONE_FOR_DAY),
        ("replaced", ReportStatus.WORKING),
        ("pending_cancel", ReportStatus.WORKING),
        ("pending_replace", ReportStatus.WORKING),
        ("stopped", ReportStatus.WORKING),
        ("a_word_of_tomorrow", ReportStatus.WORKING),
    ],
)
def test_only_the_known_ends_are_ends(word: str, status: ReportStatus) -> None:
    assert an_order("A", status=word).report_status is status


def test_every_kind_side_and_time_in_force_has_a_word_that_reads_back() -> None:
    for kind, word in ORDER_TYPES.items():
        assert an_order("A", type=word).order_type is kind
    for time_in_force, word in TIMES_IN_FORCE.items():
        terms = an_order("A", time_in_force=word).terms(Decimal(0))
        assert terms is not None
        assert terms.time_in_force is time_in_force
    assert set(ORDER_TYPES) == set(OrderType)
    assert set(SIDES) == set(OrderSide)


def test_an_order_over_an_amount_of_money_has_no_terms_of_ours() -> None:
    assert an_order("A", qty=None, notional="500").terms(Decimal(0)) is None
    assert an_order("A", time_in_force="gtd").terms(Decimal(0)) is None


def test_an_order_is_read_past_what_nobody_knows_and_not_without_what_it_must_say() -> None:
    assert msgspec.convert(order_json("A", hops=[1], nested={"x": None}), AlpacaOrder).id == "A"
    for name in ("id", "client_order_id", "status", "filled_qty", "created_at"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({key: v for key, v in order_json("A").items() if key != name}, AlpacaOrder)


def test_a_fill_has_one_name_however_its_count_is_written() -> None:
    assert {execution_id("A", Decimal(text)) for text in ("10", "10.0", "1E1", "10.000000000")} == {"A:10"}
    assert execution_id("A", Decimal(LONG)) == f"A:{LONG}"


def test_a_short_position_is_read_with_its_sign() -> None:
    assert msgspec.convert({"symbol": "A", "qty": "-4.5", "side": "short"}, PositionBody).qty == "-4.5"

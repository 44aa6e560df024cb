"""How Tradier's words become ours: lists that are none, exact numbers, ends and what is no end."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.brokers.http_client import UnreadableAnswer, decoded
from openbell_server.brokers.tradier.wire import (
    BalancesBody,
    OrdersBody,
    PositionsBody,
    ProfileBody,
    QuotesBody,
    TradierOrder,
)
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide, OrderType

ORDER = (
    '{"id": 7, "status": "open", "create_date": "2026-11-02T15:30:01.123Z", "exec_quantity": 0.0,'
    ' "avg_fill_price": 0.0, "symbol": "BRK/B", "side": "sell_short", "type": "stop_limit", "class": "equity",'
    ' "tag": "our-id", "leg": [{"id": 8}]}'
)


def order(**changes: Any) -> TradierOrder:
    """With raw JSON in the place of some values."""
    text = ORDER
    for name, raw in changes.items():
        text = text.replace(f'"{name}": ', f'"was": 0, "{name}": {raw}, "was": ', 1)
    return decoded(text.encode(), TradierOrder)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ('{"orders": "null"}', 0),
        ('{"orders": null}', 0),
        ('{"orders": {"order": %s}}', 1),
        ('{"orders": {"order": [%s]}}', 1),
        ('{"orders": {"order": [%s, %s]}}', 2),
    ],
)
def test_a_list_of_one_is_itself_and_none_is_a_word(body: str, count: int) -> None:
    told = decoded(body.replace("%s", ORDER).encode(), OrdersBody).as_list()
    assert [each.id for each in told] == [7] * count


def test_any_other_word_is_no_empty_list() -> None:
    for body in (b'{"orders": "none"}', b'{"orders": ""}', b'{"orders": {}}', b"{}"):
        with pytest.raises(UnreadableAnswer):
            decoded(body, OrdersBody)


def test_other_lists_have_the_same_form() -> None:
    position, account = b'{"symbol": "AAPL", "quantity": -4.0}', b'{"account_number": "VA1", "status": "active"}'
    assert decoded(b'{"positions": "null"}', PositionsBody).as_list() == []
    assert len(decoded(b'{"positions": {"position": %b}}' % position, PositionsBody).as_list()) == 1
    assert len(decoded(b'{"positions": {"position": [%b, %b]}}' % (position, position), PositionsBody).as_list()) == 2
    assert len(decoded(b'{"profile": {"account": %b}}' % account, ProfileBody).accounts()) == 1
    assert len(decoded(b'{"profile": {"account": [%b, %b]}}' % (account, account), ProfileBody).accounts()) == 2
    assert decoded(b'{"quotes": {"unmatched_symbols": {"symbol": "X"}}}', QuotesBody).as_list() == []


def test_numbers_are_exact_to_eighteen_places_and_were_never_floats() -> None:
    told = order(exec_quantity="123456789012345678.000000000000000001", avg_fill_price="0.123456789012345678").report()
    assert told.filled_quantity == Decimal("123456789012345678.000000000000000001")
    assert told.average_price == Decimal("0.123456789012345678")


@pytest.mark.parametrize("raw", ["-1", "1e400", "1e18", "1e-400", "0.1234567890123456789", '"NaN"', '"Infinity"'])
def test_a_number_that_cannot_be_reckoned_with_is_trouble(raw: str) -> None:
    with pytest.raises(UnreadableAnswer):
        order(exec_quantity=raw)


@pytest.mark.parametrize("raw", ['"2026-11-02T15:30:01"', '"0001-01-01T00:00:00+14:00"', "0"])
def test_a_time_that_nothing_could_keep_is_trouble(raw: str) -> None:
    with pytest.raises(UnreadableAnswer):
        order(create_date=raw)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("filled", ReportStatus.FILLED),
        ("canceled", ReportStatus.CANCELED),
        ("expired", ReportStatus.EXPIRED),
        ("rejected", ReportStatus.REJECTED),
        ("error", ReportStatus.REJECTED),
        ("open", ReportStatus.WORKING),
        ("pending", ReportStatus.WORKING),
        ("partially_filled", ReportStatus.WORKING),
        ("a_word_of_tomorrow", ReportStatus.WORKING),
    ],
)
def test_only_words_that_are_known_end_an_order(word: str, status: ReportStatus) -> None:
    told = order(status=f'"{word}"')
    assert told.report().status is status
    assert told.has_ended is (status is not ReportStatus.WORKING)


def test_an_order_is_told_with_its_totals_and_no_execution() -> None:
    told = order(exec_quantity="4.00000000", avg_fill_price="49.75000000").report()
    assert (told.client_order_id, told.broker_order_id, told.executions) == ("our-id", "7", ())
    assert (told.filled_quantity, told.average_price) == (Decimal(4), Decimal("49.75"))
    assert told.description is not None
    assert (told.description.symbol, told.description.order_side) == ("BRK/B", OrderSide.SELL_SHORT)
    assert told.description.order_type is OrderType.STOP_LIMIT
    assert told.description.accepted_at == datetime(2026, 11, 2, 15, 30, 1, 123000, UTC)


def test_nothing_has_no_average_price() -> None:
    assert order().report().average_price is None


def test_an_order_of_others_that_we_have_no_words_for_is_told_without_a_description() -> None:
    assert order(type='"debit"').report().description is None
    covered = order(side='"buy_to_cover"').report().description
    assert covered is not None
    assert covered.order_side is OrderSide.BUY


@pytest.mark.parametrize(
    ("kind", "parts", "power"),
    [
        ("cash", {"cash": {"cash_available": 4343.38}}, Decimal("4343.38")),
        ("margin", {"margin": {"stock_buying_power": -1.5}}, Decimal("-1.5")),
        ("pdt", {"pdt": {"stock_buying_power": 25000}}, Decimal(25000)),
        # The part of another type is not this account's.
        ("cash", {"margin": {"stock_buying_power": 1}}, None),
        ("pdt", {"margin": {"stock_buying_power": 1}}, None),
        ("unknown", {"margin": {"stock_buying_power": 1}}, None),
    ],
)
def test_the_buying_power_is_that_of_the_type_of_the_account(
    kind: str, parts: dict[str, object], power: Decimal | None
) -> None:
    money = {"account_number": "VA1", "account_type": kind, "total_cash": -6.5, "total_equity": 17.36, **parts}
    read = decoded(json.dumps({"balances": money}), BalancesBody).balances
    assert (read.total_cash, read.total_equity, read.buying_power) == (Decimal("-6.5"), Decimal("17.36"), power)

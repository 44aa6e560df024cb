"""What `openbell watch` shows of an account, event by event."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from openbell import BrokerOrder, BrokerPosition, BrokerTrade, Client, Event, Primed
from openbell.cli import app
from openbell.cli.blotter import blotter
from openbell.events.mirror import Book

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})
NOW = datetime(2026, 11, 2, 14, 30, tzinfo=UTC)


def event(number: int, **told: Any) -> Event:
    return Event(account_id="a", account_seq=number, prev_seq=number - 1, resume_token="t", occurred_at=NOW, **told)


def order(status: str = "NEW", pending: str = "NONE") -> BrokerOrder:
    return BrokerOrder(
        intent_id="i-1",
        symbol="AAPL[/]",
        order_side="BUY",
        order_type="LIMIT",
        quantity=Decimal(5),
        limit_price=Decimal("187.50"),
        time_in_force="DAY",
        status=status,
        pending=pending,
        certainty="CONFIRMED",
        filled_quantity=Decimal(0),
        leaves_quantity=Decimal(5),
    )


TRADE = BrokerTrade(
    intent_id="i-1",
    execution_id="e",
    symbol="AAPL[/]",
    order_side="BUY",
    kind="BUST",
    quantity=Decimal(5),
    price=Decimal("187.40"),
    executed_at=NOW,
    cumulative_quantity=Decimal(5),
    leaves_quantity=Decimal(0),
    position=Decimal(12),
)
EVENTS = [
    event(7, broker_position=BrokerPosition(symbol="AAPL[/]", quantity=Decimal(7), updated_at=NOW)),
    event(7, broker_order=order()),
    event(7, primed=Primed(orders=1, positions=1)),
    event(8, broker_order=order(pending="PENDING_CANCEL")),
    event(9, broker_trade=TRADE),
    event(10, broker_order=order("FILLED")),
]


def shown(events: list[Event]) -> str:
    book, console = Book(), Console(width=140, record=True, force_terminal=False)
    for each in events:
        book.apply(each)
    console.print(blotter(book, [each.broker_trade for each in events if each.broker_trade is not None]))
    return console.export_text()


def test_open_orders_positions_and_trades_are_shown_as_they_stand() -> None:
    primed, waits, traded = shown(EVENTS[:3]), shown(EVENTS[:4]), shown(EVENTS)
    assert "BUY 5 AAPL[/] LIMIT 187.50  NEW " in primed
    assert "NONE" not in primed
    assert "NEW, PENDING_CANCEL" in waits
    assert "AAPL[/]  7" in waits
    assert ("BUY 5 AAPL[/] BUST" in traded, "AAPL[/]  12" in traded, "NEW" in traded) == (True, True, False)


@pytest.fixture
def _followed(monkeypatch: pytest.MonkeyPatch) -> None:
    def events(_: Client, **options: Any) -> Iterator[Event]:
        assert options["start"] == "PRIMED"
        return iter(EVENTS)

    monkeypatch.setattr(Client, "events", events)


@pytest.mark.usefixtures("_followed")
def test_json_is_the_whole_book_after_every_change_from_when_it_is_whole() -> None:
    lines = [json.loads(line) for line in RUN.invoke(app, ["watch", "--json"]).stdout.splitlines()]
    assert [line["account_seq"] for line in lines] == [7, 8, 9, 10]
    assert [len(line["orders"]) for line in lines] == [1, 1, 1, 0]
    assert lines[-1]["positions"] == {"AAPL[/]": "12"}


@pytest.mark.usefixtures("_followed")
def test_what_is_no_terminal_is_told_what_to_do_instead() -> None:
    refused = RUN.invoke(app, ["watch"])
    assert (refused.exit_code, "events tail --from primed" in refused.output) == (2, True)

"""What the examples decide, where no running platform shows it for sure."""

import runpy
from decimal import Decimal
from types import SimpleNamespace
from typing import NoReturn

import pytest

from openbell import NotFinal
from support.builders.ledger_books import create
from support.environment.doc_blocks import ROOT


class FillsWhileOneLooks:
    """An account with an order that works when it is asked for orders, and has filled by the next question."""

    def orders(self, **_: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(intent_id="1", symbol="AAPL", order_side="BUY", leaves_quantity=Decimal(30))]

    def wait(self, *_: object) -> None:
        """It has filled."""

    def positions(self) -> SimpleNamespace:
        return SimpleNamespace(data=[SimpleNamespace(symbol="AAPL", quantity=Decimal(30))])


def test_the_bot_counts_an_order_that_fills_while_it_looks_once() -> None:
    missing = runpy.run_path(str(ROOT / "examples/bot.py"))["missing"]
    assert missing(FillsWhileOneLooks(), {"AAPL": Decimal(30)}) == {}


class OrderRests(FillsWhileOneLooks):
    """The same account with an order that does not end."""

    def wait(self, *_: object) -> NoReturn:
        raise NotFinal("still NEW", action=create("1", 1))


def test_the_bot_names_the_order_that_rests_and_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    missing = runpy.run_path(str(ROOT / "examples/bot.py"))["missing"]
    with pytest.raises(SystemExit, match=r"BUY 30 AAPL still works.* openbell intents cancel 1"):
        missing(OrderRests(), {"AAPL": Decimal(40)})
    assert "BUY 30 AAPL: waiting up to 30 s" in capsys.readouterr().out


def test_the_bot_does_not_wait_for_orders_of_other_symbols() -> None:
    missing = runpy.run_path(str(ROOT / "examples/bot.py"))["missing"]
    assert missing(OrderRests(), {"MSFT": Decimal(5)}) == {"MSFT": Decimal(5)}

"""What the examples decide, where no running platform shows it for sure."""

import runpy
from decimal import Decimal
from types import SimpleNamespace

from support.environment.doc_blocks import ROOT


class FillsWhileOneLooks:
    """An account with an order that works when it is asked for orders, and has filled by the next question."""

    def orders(self, **_: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(intent_id="1", symbol="AAPL", order_side="BUY", leaves_quantity=Decimal(30))]

    def wait(self, _: str) -> None:
        """It has filled."""

    def positions(self) -> SimpleNamespace:
        return SimpleNamespace(data=[SimpleNamespace(symbol="AAPL", quantity=Decimal(30))])


def test_the_bot_counts_an_order_that_fills_while_it_looks_once() -> None:
    missing = runpy.run_path(str(ROOT / "examples/bot.py"))["missing"]
    assert missing(FillsWhileOneLooks(), {"AAPL": Decimal(30)}) == {}

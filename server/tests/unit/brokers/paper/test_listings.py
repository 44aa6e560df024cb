"""The paper broker's symbols, and what a mistyped one may stand for."""

import pytest

from openbell_exchange.listings import nearest_symbols, shipped_symbols, unlisted_text
from openbell_server.domain.identifiers import Symbol, canonical_symbol


def test_every_shipped_symbol_is_canonical_and_has_a_name() -> None:
    shipped = shipped_symbols()
    assert len(shipped) > 700
    assert all(canonical_symbol(symbol) == symbol and name for symbol, name in shipped.items())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("APPL", "AAPL"),
        ("AAPLL", "AAPL"),
        ("APAL", "AAPL"),
        ("AAL1", "AAL"),
        ("TESLA", "TSLA"),
        ("APPLE", "AAPL"),
        ("MICROSOFT", "MSFT"),
        ("GOOGLE", "GOOGL"),
        ("BRK/B", "BRK.B"),
        ("BRKB", "BRK.B"),
    ],
)
def test_a_typing_mistake_or_a_company_s_name_leads_to_its_symbol(typed: str, meant: str) -> None:
    assert nearest_symbols(Symbol(typed))[0] == meant


def test_the_best_known_symbols_are_named_and_at_most_three() -> None:
    assert unlisted_text(Symbol("APPL")) == "APPL is not listed here; did you mean AAPL, APP, PPL?"
    assert len(nearest_symbols(Symbol("AAA"))) == 3


def test_a_symbol_that_resembles_nothing_gets_no_suggestion() -> None:
    assert unlisted_text(Symbol("ZZZZ")) == "ZZZZ is not listed here, and no listed symbol is similar"

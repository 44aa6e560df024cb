"""The symbols that are listed, and which of them a mistyped symbol may stand for."""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final

from openbell_exchange.terms import Symbol

_SUGGESTIONS_MAX: Final = 3


@lru_cache(maxsize=1)
def shipped_symbols() -> Mapping[Symbol, str]:
    """Names by symbol, the best known first."""
    lines = files(__package__).joinpath("symbols.txt").read_text(encoding="utf-8").splitlines()
    return {Symbol(symbol): name for symbol, _, name in (line.partition(" ") for line in lines) if symbol != "#"}


def unlisted_text(symbol: Symbol) -> str:
    """Why an order for an unlisted symbol is refused, with the nearest listed symbols."""
    nearest = nearest_symbols(symbol)
    if not nearest:
        return f"{symbol} is not listed here, and no listed symbol is similar"
    return f"{symbol} is not listed here; did you mean {', '.join(nearest)}?"


def nearest_symbols(symbol: Symbol) -> list[Symbol]:
    """Listed symbols that are one typing mistake away, or else those whose name begins with this text."""
    shipped = shipped_symbols()
    mistyped = [listed for listed in shipped if _is_one_mistake(symbol, listed)]
    named = [listed for listed, name in shipped.items() if name.upper().startswith(symbol)]
    return (mistyped or named)[:_SUGGESTIONS_MAX]


def _is_one_mistake(text: str, other: str) -> bool:
    """Whether one character is missing, added or wrong, or two neighbours are swapped."""
    while text and other and text[0] == other[0]:
        text, other = text[1:], other[1:]
    while text and other and text[-1] == other[-1]:
        text, other = text[:-1], other[:-1]
    is_swapped = len(text) == 2 and text == other[::-1]
    return is_swapped or (len(text) <= 1 and len(other) <= 1)

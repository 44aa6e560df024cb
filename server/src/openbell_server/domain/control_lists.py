"""Controls of what may be traded: lists of symbols, and sides."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from openbell_server.domain.control_exposure import reducible
from openbell_server.domain.control_facts import Asked, Facts, Need
from openbell_server.domain.control_kinds import NOTHING, ControlKind, found
from openbell_server.domain.control_parameters import Parameters
from openbell_server.domain.control_rules import Rule
from openbell_server.domain.findings import Comparison, Finding, Scope
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders import OrderSide

SYMBOLS_MAX: Final = 10_000
# A receipt has a list of up to so many whole; of a longer one it has what decided, the length and a digest.
SYMBOLS_SHOWN_MAX: Final = 50
_LIST_SHAPE: Final = '{"list": "deny" | "allow_only", "symbols": ["AAPL", …]}, at most 10000 of up to 32 characters'
_SIDE_SHAPE: Final = '{"sides"?: ["BUY" | "SELL" | "SELL_SHORT", …], "no_short"?: true | false}, at least one of them'
_SYMBOL_LENGTH_MAX: Final = 32


class ListKind(StrEnum):
    """What being on a list means."""

    DENY = "deny"
    ALLOW_ONLY = "allow_only"


@dataclass(frozen=True, slots=True)
class SymbolList:
    """Symbols that may not be traded, or the only ones that may; an empty list of those allows none."""

    kind: ListKind
    symbols: frozenset[str]

    def respelled(self, canonical: Callable[[str], Symbol | None]) -> "SymbolList":
        """The list as the broker of an account spells it: whichever way an entry was written, it is the same symbol.

        An entry that is no symbol there allows nothing, and what it denies nobody can ask for.
        """
        spelled: set[str] = set()
        for entry in self.symbols:
            symbol = canonical(entry)
            if symbol is not None:
                spelled.add(symbol)
            elif self.kind is ListKind.DENY:
                spelled.add(entry.upper())
        return replace(self, symbols=frozenset(spelled))


def _decode_list(parameters: Mapping[str, Any]) -> SymbolList:
    read = Parameters(parameters, _LIST_SHAPE).only({"list", "symbols"})
    symbols = read.texts("symbols", 0, SYMBOLS_MAX)
    if not all(text.isascii() for text in symbols):
        raise read.refusal("symbols", "symbols of plain characters")
    # As in a path, %2F is a slash.
    plain = frozenset(text.strip().upper().replace("%2F", "/") for text in symbols)
    if not all(0 < len(symbol) <= _SYMBOL_LENGTH_MAX for symbol in plain):
        raise read.refusal("symbols", "symbols of 1 to 32 plain characters")
    return SymbolList(read.one_of("list", ListKind), plain)


def _list_scopes(symbols: SymbolList) -> frozenset[Scope]:
    least = Scope.PLATFORM if symbols.kind is ListKind.DENY else Scope.KEY
    return frozenset({Scope.ORGANIZATION, Scope.ACCOUNT, least})


# Rule books are kept between commands, so a long list is digested once.
@lru_cache(maxsize=256)
def _digest(symbols: frozenset[str]) -> str:
    """SHA-256 of the symbols in order, a line each without an end to the last."""
    return hashlib.sha256("\n".join(sorted(symbols)).encode()).hexdigest()


def _judge_list(rule: Rule, asked: Asked, _: Facts) -> Finding:
    assert isinstance(rule.parameters, SymbolList)
    symbols, symbol = rule.parameters.symbols, asked.symbol
    denies, is_listed = rule.parameters.kind is ListKind.DENY, asked.symbol in rule.parameters.symbols
    inputs = {"list": str(rule.parameters.kind)}
    if len(symbols) <= SYMBOLS_SHOWN_MAX:
        limit = sorted(symbols)
    else:
        limit = [str(symbol)] if is_listed else []
        inputs |= {"symbols": str(len(symbols)), "symbols_sha256": _digest(symbols)}
    return found(
        rule,
        Comparison.NONE_OF if denies else Comparison.ONE_OF,
        limit,
        symbol,
        passes=is_listed is not denies,
        would_pass=(
            f"a symbol that is not on the list; {symbol} once it is taken off"
            if denies
            else f"a symbol of the list; {symbol} once it is put there"
        ),
        inputs=inputs,
    )


@dataclass(frozen=True, slots=True)
class Sides:
    """The sides that may be asked for, and whether a position may go below nothing."""

    sides: frozenset[OrderSide]
    no_short: bool = False

    @property
    def allowed(self) -> list[str]:
        """What may be asked for at all, in one order."""
        return [
            str(side)
            for side in OrderSide
            if side in self.sides and not (self.no_short and side is OrderSide.SELL_SHORT)
        ]


def _decode_sides(parameters: Mapping[str, Any]) -> Sides:
    read = Parameters(parameters, _SIDE_SHAPE).only(set(), {"sides", "no_short"})
    if not parameters:
        raise read.refusal()
    sides = frozenset(OrderSide)
    if "sides" in parameters:
        texts = read.texts("sides", 1, len(OrderSide))
        if not set(texts) <= set(OrderSide):
            raise read.refusal("sides", f"some of {', '.join(OrderSide)}")
        sides = frozenset(OrderSide(text) for text in texts)
    return Sides(sides, read.optional("no_short", read.flag, default=False))


def _sells_what_is_held(sides: Sides, asked: Asked) -> bool:
    return sides.no_short and asked.order_side is OrderSide.SELL and OrderSide.SELL in sides.sides


def _sides_needs(sides: Sides, asked: Asked) -> frozenset[Need]:
    return frozenset({Need.EXPOSURE}) if _sells_what_is_held(sides, asked) else NOTHING


def _judge_sides(rule: Rule, asked: Asked, facts: Facts) -> Finding:
    assert isinstance(rule.parameters, Sides)
    if _sells_what_is_held(rule.parameters, asked):
        return reducible(rule, asked, facts)
    allowed = rule.parameters.allowed
    return found(
        rule,
        Comparison.ONE_OF,
        allowed,
        asked.order_side,
        passes=asked.order_side in allowed,
        would_pass=f"a {' or '.join(allowed)}" if allowed else "nothing passes until other sides are allowed",
    )


RESTRICTED: Final = ControlKind(
    code="RESTRICTED",
    decode=_decode_list,
    judge=_judge_list,
    scopes=frozenset({Scope.PLATFORM, Scope.ORGANIZATION, Scope.ACCOUNT, Scope.KEY}),
    scopes_of=_list_scopes,
)
SIDE_NOT_ALLOWED: Final = ControlKind(
    code="SIDE_NOT_ALLOWED", decode=_decode_sides, judge=_judge_sides, needs=_sides_needs
)

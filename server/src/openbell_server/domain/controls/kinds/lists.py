"""Limits on what may be traded: lists of symbols, and sides."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Facts, Need
from openbell_server.domain.controls.findings import Comparison, Finding, Scope
from openbell_server.domain.controls.kind import NOTHING, ControlKind, found
from openbell_server.domain.controls.kinds.exposure import reducible
from openbell_server.domain.controls.parameters import FLAG, Form, Shape, choice, some_of, texts
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, fewer, higher, incomparable, more
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import OrderSide

SYMBOLS_MAX: Final = 10_000
# A receipt shows up to 50 symbols; of a longer list it shows the symbol that decided, the length and a digest.
SYMBOLS_SHOWN_MAX: Final = 50
_SYMBOL_LENGTH_MAX: Final = 32


class ListKind(StrEnum):
    """Whether listed symbols are denied or the only ones allowed."""

    DENY = "DENY"
    ALLOW_ONLY = "ALLOW_ONLY"


@dataclass(frozen=True, slots=True)
class SymbolList:
    """Symbols that may not be traded, or the only ones that may; an empty ALLOW_ONLY list allows none."""

    list: ListKind
    symbols: frozenset[str]

    @property
    def denied(self) -> frozenset[str]:
        return self.symbols if self.list is ListKind.DENY else frozenset()

    @property
    def allowed(self) -> frozenset[str]:
        return self.symbols if self.list is ListKind.ALLOW_ONLY else frozenset()

    def respelled(self, canonical: Callable[[str], Symbol | None]) -> "SymbolList":
        """The list in the spelling of the account's broker.

        An entry that is no symbol there is dropped from an ALLOW_ONLY list and stays in a DENY list.
        """
        spelled: set[str] = set()
        for entry in self.symbols:
            symbol = canonical(entry)
            if symbol is not None:
                spelled.add(symbol)
            elif self.list is ListKind.DENY:
                spelled.add(entry.upper())
        return replace(self, symbols=frozenset(spelled))


def _symbols(value: object, _: str) -> frozenset[str]:
    symbols = texts(value, 0, SYMBOLS_MAX)
    # As in a URL path, %2F is a slash.
    plain = frozenset(text.strip().upper().replace("%2F", "/") for text in symbols)
    if not all(text.isascii() for text in symbols) or not all(0 < len(each) <= _SYMBOL_LENGTH_MAX for each in plain):
        raise ValueError
    return plain


def _list_scopes(symbols: SymbolList) -> frozenset[Scope]:
    least = Scope.PLATFORM if symbols.list is ListKind.DENY else Scope.KEY
    return frozenset({Scope.ORGANIZATION, Scope.ACCOUNT, least})


# Rule books are cached between commands, so the digest of a long list is cached too.
@lru_cache(maxsize=256)
def _digest(symbols: frozenset[str]) -> str:
    """SHA-256 of the sorted symbols, joined by newlines."""
    return hashlib.sha256("\n".join(sorted(symbols)).encode()).hexdigest()


def _judge_list(rule: Rule, command: CommandFacts, _: Facts) -> Finding:
    assert isinstance(rule.parameters, SymbolList)
    symbols, symbol = rule.parameters.symbols, command.symbol
    denies, is_listed = rule.parameters.list is ListKind.DENY, command.symbol in rule.parameters.symbols
    inputs = {"list": str(rule.parameters.list)}
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
    sides: frozenset[OrderSide] = frozenset(OrderSide)
    no_short: bool = False

    @property
    def allowed(self) -> list[str]:
        """The allowed sides, in a fixed order."""
        return [
            str(side)
            for side in OrderSide
            if side in self.sides and not (self.no_short and side is OrderSide.SELL_SHORT)
        ]


def _sells_what_is_held(sides: Sides, command: CommandFacts) -> bool:
    return sides.no_short and command.order_side is OrderSide.SELL and OrderSide.SELL in sides.sides


def _sides_needs(sides: Sides, command: CommandFacts) -> frozenset[Need]:
    return frozenset({Need.EXPOSURE}) if _sells_what_is_held(sides, command) else NOTHING


def _judge_sides(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    assert isinstance(rule.parameters, Sides)
    if _sells_what_is_held(rule.parameters, command):
        return reducible(rule, command, facts)
    allowed = rule.parameters.allowed
    return found(
        rule,
        Comparison.ONE_OF,
        allowed,
        command.order_side,
        passes=command.order_side in allowed,
        would_pass=f"a {' or '.join(allowed)}" if allowed else "nothing passes until other sides are allowed",
    )


_SYMBOLS: Final = Form(
    shown='["AAPL", …]',
    must_be=f"a list of at most {SYMBOLS_MAX} symbols of 1 to {_SYMBOL_LENGTH_MAX} plain characters",
    schema={"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": SYMBOLS_MAX},
    read=_symbols,
)
RESTRICTED: Final = ControlKind(
    code="RESTRICTED",
    summary="Refuses a symbol that is on a DENY list, or not on an ALLOW_ONLY list.",
    shape=Shape(SymbolList, {"list": choice(ListKind), "symbols": _SYMBOLS}),
    judge=_judge_list,
    scopes=frozenset({Scope.PLATFORM, Scope.ORGANIZATION, Scope.ACCOUNT, Scope.KEY}),
    scopes_of=_list_scopes,
    tightens=by_parameter(list=incomparable, denied=more, allowed=fewer),
)
SIDE_NOT_ALLOWED: Final = ControlKind(
    code="SIDE_NOT_ALLOWED",
    summary="Refuses other sides; with no_short also a SELL_SHORT, and a SELL of more than is held.",
    shape=Shape(Sides, {"sides": some_of(OrderSide, frozenset), "no_short": FLAG}, any_of=("sides", "no_short")),
    counts=True,
    judge=_judge_sides,
    needs=_sides_needs,
    tightens=by_parameter(sides=fewer, no_short=higher),
)

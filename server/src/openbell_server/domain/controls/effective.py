"""The rules in force at a place, as the evaluation of a command there would use them."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from openbell_server.domain.controls.catalogue import PLACES
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.kinds.times import Deadline, MaxAge
from openbell_server.domain.controls.loosening import is_stricter
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.identifiers import Symbol

_WIDTHS: Final = {scope: place for place, scope in enumerate(Scope)}
_NO_SYMBOL: Final = Symbol("")


@dataclass(frozen=True, slots=True)
class EffectiveRule:
    rule: Rule
    # No other rule of its code that refuses, and applies wherever this one does, is stricter.
    is_strictest: bool


def effective_rules(
    book: RuleBook, symbol: Symbol | None, api_key_id: str | None, now: datetime
) -> list[EffectiveRule]:
    """The widest scope first. Without a symbol, of every symbol; without a key, of no key."""
    found = [
        rule
        for rule in (*book.rules, *book.unreadable)
        if rule.applies(symbol or rule.symbol or _NO_SYMBOL, api_key_id, now)
        and not _is_silent(rule, symbol, api_key_id, now)
    ]
    refusing: defaultdict[tuple[str, Symbol | None], list[Rule]] = defaultdict(list)
    for rule in found:
        # A rule that cannot be read has no parameters to compare.
        if rule.mode is Mode.HARD and rule.parameters is not None:
            refusing[rule.code, rule.symbol].append(rule)

    def is_strictest(rule: Rule) -> bool:
        beside = [each for of in {None, rule.symbol or symbol} for each in refusing[rule.code, of]]
        return rule.mode is Mode.HARD and not any(is_stricter(each, rule) for each in beside)

    found.sort(key=lambda rule: (_WIDTHS[rule.scope], rule.symbol or "", PLACES.get(rule.code, len(PLACES))))
    return [EffectiveRule(rule, is_strictest(rule)) for rule in found]


def _is_silent(rule: Rule, symbol: Symbol | None, api_key_id: str | None, now: datetime) -> bool:
    """Deadlines are of requests; a default is silent where somebody set a rule of its code."""
    parameters = rule.parameters
    if isinstance(parameters, MaxAge):
        return parameters.yields(symbol or _NO_SYMBOL, api_key_id, now)
    return isinstance(parameters, Deadline)

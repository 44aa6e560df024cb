"""Judge a command by every rule that speaks about it: all are evaluated, all are reported."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from openbell_server.domain.control_facts import Asked, Facts, Gate, Need
from openbell_server.domain.control_rules import Rule, RuleBook
from openbell_server.domain.controls_catalogue import CATALOGUE, PLACES
from openbell_server.domain.findings import Comparison, Finding, Mode, Scope, Verdict, Word
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import OrderSide

_ANEW: Final = "once the rule is set anew"
_WIDTHS: Final = {scope: place for place, scope in enumerate(Scope)}


def exemption(asked: Asked) -> str | None:
    """Why no rule may refuse a command; None where rules judge it."""
    if asked.action_type is ActionType.CANCEL:
        return "CANCEL"
    if asked.action_type is ActionType.REPLACE and not raises_risk(asked):
        return "REDUCES_RISK"
    return None


def raises_risk(asked: Asked) -> bool:
    """Whether a REPLACE asks for more, for a price that fills sooner, for another trigger, or for another life."""
    before, after = asked.before, asked.terms
    assert before is not None, "a REPLACE changes an order"
    if after.quantity > before.quantity or after.time_in_force is not before.time_in_force:
        return True
    if after.stop_price != before.stop_price:
        return True
    if after.limit_price is None or before.limit_price is None:
        return False
    if asked.order_side is OrderSide.BUY:
        return after.limit_price > before.limit_price
    return after.limit_price < before.limit_price


def speaking(book: RuleBook, asked: Asked, gate: Gate) -> list[Rule]:
    """The rules that speak about a command at a gate, some of them now and others later."""
    if exemption(asked) is not None:
        return []
    return [
        rule
        for rule in book.rules
        if gate in CATALOGUE[rule.code].gates and rule.speaks_about(asked.symbol, asked.key_id)
    ]


def applicable(book: RuleBook, asked: Asked, now: datetime, gate: Gate) -> list[Rule]:
    """The rules that speak about a command at a gate now, in the order of the catalogue, the widest scope first."""
    return in_order([rule for rule in speaking(book, asked, gate) if rule.is_in_force(now)])


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """As a receipt lists them."""
    return sorted(rules, key=lambda rule: (PLACES[rule.code], _WIDTHS[rule.scope]))


def needs(rules: list[Rule], asked: Asked) -> frozenset[Need]:
    """What must be known to judge the command by these rules."""
    return frozenset().union(*(needs_of(rule, asked) for rule in rules))


def needs_of(rule: Rule, asked: Asked) -> frozenset[Need]:
    """What must be known to judge the command by one of them."""
    return CATALOGUE[rule.code].needs(rule.parameters, asked)


def evaluate(book: RuleBook, asked: Asked, facts: Facts, gate: Gate) -> list[Finding]:
    """Every rule's word on the command."""
    return told(book, words(applicable(book, asked, facts.now, gate), book, asked, facts))


def words(rules: Iterable[Rule], book: RuleBook, asked: Asked, facts: Facts) -> list[Word]:
    """The word of those that apply, where somebody knows them already."""
    said = [word for rule in rules if (word := CATALOGUE[rule.code].judge(rule, asked, facts)) is not None]
    if book.unreadable and exemption(asked) is None:
        said += [_unread(rule) for rule in book.unreadable if rule.applies(asked.symbol, asked.key_id, facts.now)]
    return said


def told(book: RuleBook, words: Iterable[Word]) -> list[Finding]:
    """Words as they are read."""
    findings = [word.tell() for word in words]
    if book.is_watched_only:
        return [replace(finding, verdict=Verdict.WOULD_REFUSE) if finding.refuses else finding for finding in findings]
    return findings


def _unread(rule: Rule) -> Finding:
    """Nobody can say what the rule asks for, so nothing passes it."""
    return Finding(
        code=rule.code,
        scope=rule.scope,
        mode=rule.mode,
        verdict=Verdict.REFUSED if rule.mode is Mode.HARD else Verdict.WOULD_REFUSE,
        comparison=Comparison.EQUALS,
        limit=None,
        observed=None,
        control_version=rule.version,
        would_pass=_ANEW,
        missing="parameters that can be read",
    )

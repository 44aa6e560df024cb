"""Judge a command by every rule that speaks about it: all are evaluated, all are reported."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from openbell_server.domain.control_facts import Asked, Facts, Gate, Need
from openbell_server.domain.control_rules import Rule, RuleBook
from openbell_server.domain.controls_catalogue import CATALOGUE, PLACES
from openbell_server.domain.findings import Finding, Scope, Verdict
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import OrderSide

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


def applicable(book: RuleBook, asked: Asked, now: datetime, gate: Gate) -> list[Rule]:
    """The rules that speak about a command at a gate, in the order of the catalogue, the widest scope first."""
    if exemption(asked) is not None:
        return []
    rules = [
        rule
        for rule in book.rules
        if gate in CATALOGUE[rule.code].gates and rule.applies(asked.symbol, asked.key_id, now)
    ]
    return sorted(rules, key=lambda rule: (PLACES[rule.code], _WIDTHS[rule.scope]))


def needs(rules: list[Rule], asked: Asked) -> frozenset[Need]:
    """What must be known to judge the command by these rules."""
    return frozenset().union(*(CATALOGUE[rule.code].needs(rule.parameters, asked) for rule in rules))


def evaluate(book: RuleBook, asked: Asked, facts: Facts, gate: Gate) -> list[Finding]:
    """Every rule's word on the command."""
    findings = [
        finding
        for rule in applicable(book, asked, facts.now, gate)
        if (finding := CATALOGUE[rule.code].judge(rule, asked, facts)) is not None
    ]
    if book.is_watched_only:
        return [replace(finding, verdict=Verdict.WOULD_REFUSE) if finding.refuses else finding for finding in findings]
    return findings

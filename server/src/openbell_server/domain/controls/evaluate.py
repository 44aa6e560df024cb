"""Evaluate a command by every rule that applies to it; all results are reported."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from openbell_server.domain.controls.catalogue import CATALOGUE, PLACES
from openbell_server.domain.controls.facts import CommandFacts, Facts, Gate, Need
from openbell_server.domain.controls.findings import Comparison, Finding, Mode, RuleResult, Scope, Verdict
from openbell_server.domain.controls.kinds.repeats import without_forbidden_override
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType

_STOPS: Final = frozenset({OrderType.STOP, OrderType.STOP_LIMIT})
_ANEW: Final = "once the rule is set anew"
_WIDTHS: Final = {scope: place for place, scope in enumerate(Scope)}


def exemption(command: CommandFacts) -> str | None:
    """Why no rule may refuse a command; None where rules apply."""
    if command.action_type is ActionType.CANCEL:
        return "CANCEL"
    if command.action_type is ActionType.REPLACE and not command.protects and not raises_risk(command):
        return "REDUCES_RISK"
    return None


def may_protect(command: CommandFacts) -> bool:
    """Whether the position decides if a command is exempt."""
    return (
        command.action_type is ActionType.REPLACE
        and command.order_type in _STOPS
        and command.order_side is not OrderSide.SELL_SHORT
    )


def with_position(command: CommandFacts, position: Decimal | None) -> CommandFacts:
    """The command, marked if it changes a stop order that protects the position; an unknown position counts as that."""
    if not may_protect(command):
        return command
    reduces = position is None or (position < 0 if command.order_side is OrderSide.BUY else position > 0)
    return replace(command, protects=reduces)


def raises_risk(command: CommandFacts) -> bool:
    """Whether a REPLACE raises the quantity, uses a more aggressive price, or changes the trigger or time in force."""
    before, after = command.before, command.terms
    assert before is not None, "a REPLACE changes an order"
    if after.quantity > before.quantity or after.time_in_force is not before.time_in_force:
        return True
    if after.stop_price != before.stop_price:
        return True
    if after.limit_price is None or before.limit_price is None:
        return False
    if command.order_side is OrderSide.BUY:
        return after.limit_price > before.limit_price
    return after.limit_price < before.limit_price


def applicable_rules(book: RuleBook, command: CommandFacts, gate: Gate) -> list[Rule]:
    """The rules that match a command at a gate, also those not in force now."""
    if exemption(command) is not None:
        return []
    return [
        rule
        for rule in book.rules
        if gate in CATALOGUE[rule.code].gates and rule.matches(command.symbol, command.api_key_id)
    ]


def applicable(book: RuleBook, command: CommandFacts, now: datetime, gate: Gate) -> list[Rule]:
    """The rules in force that match a command at a gate, in catalogue order, the widest scope first."""
    return in_order([rule for rule in applicable_rules(book, command, gate) if rule.is_in_force(now)])


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """Sort rules as a receipt lists them."""
    return sorted(rules, key=lambda rule: (PLACES[rule.code], _WIDTHS[rule.scope]))


def needs(rules: list[Rule], command: CommandFacts) -> frozenset[Need]:
    return frozenset().union(*(needs_of(rule, command) for rule in rules))


def needs_of(rule: Rule, command: CommandFacts) -> frozenset[Need]:
    return CATALOGUE[rule.code].needs(rule.parameters, command)


def evaluate(book: RuleBook, command: CommandFacts, facts: Facts, gate: Gate) -> list[Finding]:
    return apply_shadow_mode(book, evaluate_rules(applicable(book, command, facts.now, gate), book, command, facts))


def evaluate_rules(rules: Sequence[Rule], book: RuleBook, command: CommandFacts, facts: Facts) -> list[RuleResult]:
    """Evaluate rules that are known to apply, and refuse by rules that cannot be read."""
    command = without_forbidden_override(rules, command)
    results = [result for rule in rules if (result := CATALOGUE[rule.code].judge(rule, command, facts)) is not None]
    if book.unreadable and exemption(command) is None:
        results += [
            _unread(rule) for rule in book.unreadable if rule.applies(command.symbol, command.api_key_id, facts.now)
        ]
    return results


def apply_shadow_mode(book: RuleBook, results: Iterable[RuleResult]) -> list[Finding]:
    """The findings; where the organization only watches its rules, refusals become WOULD_REFUSE."""
    findings = [result.finding() for result in results]
    if book.is_watched_only:
        return [replace(finding, verdict=Verdict.WOULD_REFUSE) if finding.refuses else finding for finding in findings]
    return findings


def _unread(rule: Rule) -> Finding:
    """A rule with unreadable parameters refuses everything that it matches."""
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

"""The rules in force at a place: which of them, in which order, and which is the strictest."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.effective import effective_rules
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.kinds.times import rules_by_default
from openbell_server.domain.controls.rules import OnMissing, Rule
from openbell_server.domain.identifiers import Symbol
from support.builders.control_commands import NOW, a_book, a_rule

AAPL = Symbol("AAPL")


def limit(quantity: str, scope: Scope = Scope.ACCOUNT, **other: Any) -> Rule:
    of: dict[str, Any] = {}
    if scope is Scope.SYMBOL:
        of = {"symbol": AAPL}
    elif scope is Scope.KEY:
        of = {"api_key_id": "k"}
    return replace(a_rule("QTY_MAX", {"quantity": quantity}), scope=scope, **{**of, **other})


def marked(*rules: Rule, symbol: Symbol | None = AAPL, api_key_id: str | None = None) -> list[tuple[Scope, bool]]:
    found = effective_rules(a_book(*rules), symbol, api_key_id, NOW)
    return [(each.rule.scope, each.is_strictest) for each in found]


def test_equal_rules_are_both_the_strictest() -> None:
    assert marked(limit("5"), limit("5", Scope.ORGANIZATION)) == [(Scope.ORGANIZATION, True), (Scope.ACCOUNT, True)]


def test_a_rule_that_denies_what_it_cannot_evaluate_is_stricter() -> None:
    rules = limit("5", on_missing=OnMissing.DENY), limit("5", Scope.ORGANIZATION, on_missing=OnMissing.ALLOW)
    assert marked(*rules) == [(Scope.ORGANIZATION, False), (Scope.ACCOUNT, True)]


@pytest.mark.parametrize(("api_key_id", "scopes"), [(None, []), ("k", [Scope.KEY]), ("other", [])])
def test_a_rule_of_a_key_is_in_force_for_that_key(api_key_id: str | None, scopes: list[Scope]) -> None:
    assert [scope for scope, _ in marked(limit("5", Scope.KEY), api_key_id=api_key_id)] == scopes


def test_what_applies_later_or_no_longer_is_not_in_force() -> None:
    later, before = NOW + timedelta(seconds=1), NOW
    assert marked(limit("5", applies_from=later), limit("6", applies_until=before)) == []
    assert marked(limit("5", applies_from=before), limit("6", Scope.SYMBOL, applies_until=later)) == [
        (Scope.ACCOUNT, True),
        (Scope.SYMBOL, False),
    ]


def test_a_default_is_silent_where_a_rule_replaces_it_and_only_there() -> None:
    own = replace(a_rule("STALE_ORDER", {"max_age_millis": 90_000}), scope=Scope.SYMBOL, symbol=AAPL)
    book = a_book(own, *rules_by_default(Environment.LIVE, [own]))
    shown = [
        [each.rule.version for each in effective_rules(book, symbol, None, NOW)] for symbol in (AAPL, None, Symbol("B"))
    ]
    assert shown == [[own.version], [None, own.version], [None]]


def test_a_rule_that_cannot_be_read_is_listed_and_refuses() -> None:
    unread = replace(limit("5", Scope.ORGANIZATION), code="OF_A_LATER_VERSION", parameters=None)
    book = replace(a_book(limit("5")), unreadable=(unread,))
    found = effective_rules(book, AAPL, None, NOW)
    assert [(each.rule.code, each.is_strictest) for each in found] == [("OF_A_LATER_VERSION", True), ("QTY_MAX", True)]


def test_a_shadow_rule_is_never_the_strictest_and_does_not_hide_one() -> None:
    assert marked(limit("1", mode=Mode.SHADOW), limit("5", Scope.ORGANIZATION)) == [
        (Scope.ORGANIZATION, True),
        (Scope.ACCOUNT, False),
    ]

"""The worst case of a key is an upper bound by the rules that hold until it expires."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.api_keys import ApiKeyRecord
from openbell_server.domain.agents.sentences import sentences
from openbell_server.domain.agents.worst_case import AccountFacts, WorstCase, worst_case
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.kinds.completed import completed
from openbell_server.domain.controls.rules import OnMissing, Rule, RuleBook
from openbell_server.domain.identifiers import AccountId

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
ACCOUNT, OTHER = AccountId(UUID(int=1)), AccountId(UUID(int=2))
KEY = ApiKeyRecord(
    id=UUID(int=7),
    key_id="ab0cdefghij1",
    name="agent",
    environment=Environment.PAPER,
    permissions=("intent:edit", "intent:read"),
    own_orders_only=True,
    account_ids=(ACCOUNT,),
    disabled=False,
    revoked_at=None,
    expires_at=datetime(2026, 1, 8, tzinfo=UTC),
    created_at=NOW,
)
USD = {"value": "1000", "currency": "USD"}


def a_rule(code: str, parameters: dict[str, Any], scope: Scope = Scope.KEY, **more: Any) -> Rule:
    facts: dict[str, Any] = {
        "code": code,
        "scope": scope,
        "subject": str(KEY.id) if scope is Scope.KEY else "",
        "symbol": None,
        "api_key_id": str(KEY.id) if scope is Scope.KEY else None,
        "parameters": CATALOGUE[code].decode(parameters),
        "mode": Mode.HARD,
        "on_missing": OnMissing.DENY,
        "version": 1,
    }
    return completed(Rule(**facts | more), "UTC", ())


def case_of(*rules: Rule, key: ApiKeyRecord = KEY, accepted: str = "0", **book: Any) -> WorstCase:
    facts = [
        AccountFacts(
            account_id=account_id,
            book=RuleBook(organization_epoch=1, account_epoch=1, rules=rules, **book),
            closed_by=None,
            accepted={(rule.scope, rule.subject, "USD"): Decimal(accepted) for rule in rules},
            losses={},
        )
        for account_id in key.account_ids or ()
    ]
    return worst_case(key, NOW, facts, has_more_accounts=False)


def test_the_strictest_rule_of_all_scopes_is_the_limit() -> None:
    wider = a_rule("NOTIONAL_MAX", USD | {"value": "900"}, Scope.ORGANIZATION)
    [(_, account)] = case_of(a_rule("NOTIONAL_MAX", USD), wider).accounts
    [value] = account.order_values
    assert (value.value, value.scope) == (Decimal(900), Scope.ORGANIZATION)


def test_a_day_counts_once_with_what_is_left_and_once_for_each_later_date_before_the_key_expires() -> None:
    [day] = case_of(a_rule("DAY_NOTIONAL_MAX", USD), accepted="0.1").days
    assert (day.left_today, day.later_days) == (Decimal("999.9"), 2)
    assert day.left_in_all == Decimal("2999.9")
    [endless] = case_of(a_rule("DAY_NOTIONAL_MAX", USD), key=replace(KEY, expires_at=None)).days
    assert endless.left_in_all is None


def test_two_accounts_share_the_day_of_their_key_and_add_up_their_own() -> None:
    both = replace(KEY, account_ids=(ACCOUNT, OTHER))
    [shared] = case_of(a_rule("DAY_NOTIONAL_MAX", USD), key=both).days
    [own] = case_of(a_rule("DAY_NOTIONAL_MAX", USD, Scope.ACCOUNT), key=both).days
    assert (shared.left_today, own.left_today) == (Decimal(1000), Decimal(2000))


def test_a_rule_that_ends_before_the_key_is_no_limit() -> None:
    for_a_day = a_rule("NOTIONAL_MAX", USD, applies_until=NOW + timedelta(days=1))
    [(_, account)] = case_of(for_a_day).accounts
    assert account.order_values == ()
    looser = a_rule("NOTIONAL_MAX", USD | {"value": "5000"}, applies_from=NOW + timedelta(days=1))
    [(_, account)] = case_of(for_a_day, looser).accounts
    assert [each.value for each in account.order_values] == [Decimal(5000)]


@pytest.mark.parametrize(
    "more", [{"mode": Mode.SHADOW}, {"api_key_id": "another", "subject": "another"}, {"symbol": "AAPL"}]
)
def test_what_does_not_refuse_every_order_of_the_key_is_no_limit(more: dict[str, Any]) -> None:
    [(_, account)] = case_of(a_rule("NOTIONAL_MAX", USD, **more)).accounts
    assert account.order_values == ()


def test_where_the_organization_only_records_refusals_nothing_is_limited() -> None:
    [(_, account)] = case_of(a_rule("NOTIONAL_MAX", USD), is_watched_only=True).accounts
    assert account.order_values == ()


def test_a_limit_that_lets_pass_what_has_no_price_is_called_one_with_a_price() -> None:
    case = case_of(a_rule("NOTIONAL_MAX", USD, on_missing=None), a_rule("DAY_NOTIONAL_MAX", USD, on_missing=None))
    [(_, account)] = case.accounts
    assert (account.order_values, account.day_values, len(account.order_values_with_price)) == ((), (), 1)
    assert "One order is worth at most 1000 USD while a price is known, and unlimited without one." in sentences(case)


def test_a_key_that_may_loosen_is_not_limited_by_rules_of_accounts() -> None:
    rules = a_rule("NOTIONAL_MAX", USD, Scope.ACCOUNT), a_rule("QTY_MAX", {"quantity": "5"})
    loosens = replace(KEY, permissions=(*KEY.permissions, "control:edit:paper", "control:loosen"))
    [(_, account)] = case_of(*rules, key=loosens).accounts
    assert (account.order_values, account.quantity) == ((), Decimal(5))


def test_symbols_are_those_on_every_list_and_on_no_denying_one() -> None:
    only = a_rule("RESTRICTED", {"list": "ALLOW_ONLY", "symbols": ["AAPL", "MSFT", "TSLA"]})
    deny = a_rule("RESTRICTED", {"list": "DENY", "symbols": ["TSLA"]}, Scope.PLATFORM)
    [(_, account)] = case_of(only, deny).accounts
    assert account.symbols == ("AAPL", "MSFT")
    [(_, account)] = case_of(deny).accounts
    assert (account.symbols, account.denied_symbols) == (None, ("TSLA",))


def test_a_minute_counts_as_many_windows_as_cover_it() -> None:
    [(_, account)] = case_of(a_rule("RATE_ORDERS", {"count": 3, "window_millis": 25_000})).accounts
    assert account.orders_per_minute == 9


def test_every_kind_of_limit_is_a_sentence_and_its_absence_too() -> None:
    text = " ".join(
        sentences(
            case_of(
                a_rule("SIDE_NOT_ALLOWED", {"no_short": True}),
                a_rule("OPEN_ORDERS_MAX", {"count": 4}),
                a_rule("POSITION_MAX", {"quantity": "7"}),
                a_rule("LOSS_MAX", USD),
            )
        )
    )
    for part in ("buy, sell (no more than is held)", "has 4 open", "at most 7 units", "lost more than 1000 USD"):
        assert part in text
    assert "It cannot cancel or replace orders of others. It cannot loosen any limit." in text
    assert "unlimited" in " ".join(sentences(case_of()))

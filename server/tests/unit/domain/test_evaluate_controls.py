"""All rules together: every scope speaks, the strictest wins, and what lowers risk is never refused."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.catalogue import CATALOGUE, PLACES, SETTABLE, checked_parameters
from openbell_server.domain.controls.evaluate import applicable, evaluate, exemption, needs, with_position
from openbell_server.domain.controls.facts import STATEFUL, CommandFacts, Facts, Gate, Need
from openbell_server.domain.controls.findings import Mode, Scope, Verdict
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import TimeInForce
from support.builders.control_cases import CASES
from support.builders.control_commands import BUY, NOW, SELL, SHORT, a_book, a_rule, asks, changes, holds, judge, knows

HALTED = {"status": "HALTED"}
# One that refuses the command below, of every kind that refuses without knowing more than it.
REFUSING: Mapping[str, Mapping[str, Any]] = {
    "SWITCH": HALTED,
    "SYMBOL_DISABLED": {"manually_disabled": True},
    "RESTRICTED": {"list": "ALLOW_ONLY", "symbols": []},
    "SIDE_NOT_ALLOWED": {"sides": ["SELL"]},
    "OUTSIDE_TRADING_WINDOW": {"trading_end": "00:00:01", "timezone": "UTC"},
    "QTY_MAX": {"quantity": "1"},
    "QTY_MIN": {"quantity": "1000"},
    "NOTIONAL_MAX": {"value": "1", "currency": "USD"},
    "TICK": {"tick": "7"},
    "LOT": {"lot": "7"},
}
COMMAND = asks(limit="100")


def everything(mode: Mode = Mode.HARD) -> list[Rule]:
    return [a_rule(code, parameters, mode=mode) for code, parameters in REFUSING.items()]


def test_every_rule_that_refuses_is_reported_in_the_order_of_the_catalogue() -> None:
    lines = evaluate(a_book(*reversed(everything())), COMMAND, knows(), Gate.ACCEPT)
    assert [line.code for line in lines] == ["HALTED", *list(REFUSING)[1:]]
    assert all(line.refuses for line in lines)


def test_the_catalogue_is_in_the_order_of_receipts() -> None:
    assert list(CATALOGUE) == [
        *("SWITCH", "SYMBOL_DISABLED", "RESTRICTED", "SIDE_NOT_ALLOWED"),
        *("OUTSIDE_TRADING_WINDOW", "MARKET_CLOSED", "STALE_ORDER"),
        *("QTY_MAX", "QTY_MIN", "NOTIONAL_MAX", "DAY_NOTIONAL_MAX", "TICK", "LOT", "PRICE_COLLAR"),
        *("DUPLICATE", "RATE_ORDERS", "OPEN_ORDERS_MAX", "POSITION_MAX", "GROSS_MAX", "BUYING_POWER"),
        *("SELF_MATCH", "LOSS_MAX"),
    ]
    assert list(PLACES.values()) == list(range(len(CATALOGUE)))


def test_rules_of_one_kind_are_listed_from_the_widest_scope_to_the_narrowest() -> None:
    rules = [a_rule("QTY_MAX", {"quantity": "100"}, scope=scope) for scope in reversed(Scope)]
    lines = evaluate(a_book(*rules), COMMAND, knows(), Gate.ACCEPT)
    assert [line.scope for line in lines] == list(Scope)


@pytest.mark.parametrize("strict", Scope)
def test_the_strictest_scope_wins_whichever_it_is(strict: Scope) -> None:
    rules = [a_rule("QTY_MAX", {"quantity": "5" if scope is strict else "100"}, scope=scope) for scope in Scope]
    lines = evaluate(a_book(*rules), COMMAND, knows(), Gate.ACCEPT)
    assert [line.scope for line in lines if line.refuses] == [strict]


@given(st.dictionaries(st.sampled_from(list(Scope)), st.integers(1, 20), min_size=1), st.integers(1, 20))
def test_a_command_passes_exactly_when_it_passes_the_lowest_limit(limits: dict[Scope, int], quantity: int) -> None:
    rules = [a_rule("QTY_MAX", {"quantity": str(limit)}, scope=scope) for scope, limit in limits.items()]
    lines = evaluate(a_book(*rules), asks(quantity=str(quantity)), knows(), Gate.ACCEPT)
    assert any(line.refuses for line in lines) is (quantity > min(limits.values()))


@given(st.lists(st.sampled_from([*everything(), a_rule("QTY_MAX", {"quantity": "100"})]), unique=True), st.data())
def test_no_rule_loosens_another(rules: list[Rule], data: st.DataObject) -> None:
    fewer = data.draw(st.lists(st.sampled_from(rules), unique=True)) if rules else []
    refused = {line.code for line in evaluate(a_book(*fewer), COMMAND, knows(), Gate.ACCEPT) if line.refuses}
    assert refused <= {line.code for line in evaluate(a_book(*rules), COMMAND, knows(), Gate.ACCEPT) if line.refuses}


def test_an_active_switch_below_does_not_open_what_is_halted_above() -> None:
    rules = [a_rule("SWITCH", HALTED, scope=Scope.PLATFORM), a_rule("SWITCH", {"status": "ACTIVE"}, scope=Scope.KEY)]
    lines = evaluate(a_book(*rules), COMMAND, knows(), Gate.DOOR)
    assert [(line.scope, line.refuses) for line in lines] == [(Scope.PLATFORM, True), (Scope.KEY, False)]


def test_rules_of_another_symbol_or_key_or_time_say_nothing() -> None:
    for other in (
        {"symbol": Symbol("MSFT")},
        {"api_key_id": "ob_other"},
        {"applies_from": NOW + timedelta(microseconds=1)},
        {"applies_until": NOW},
    ):
        assert evaluate(a_book(a_rule("QTY_MAX", {"quantity": "1"}, **other)), COMMAND, knows(), Gate.ACCEPT) == []


CHEAPER = changes(asks(limit="99"), quantity="10", limit="100")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (asks(action_type=ActionType.CANCEL), "CANCEL"),
        (CHEAPER, "REDUCES_RISK"),
        (changes(asks(quantity="9", limit="100"), quantity="10", limit="100"), "REDUCES_RISK"),
        (changes(asks(SELL, limit="101"), quantity="10", limit="100"), "REDUCES_RISK"),
        (changes(asks(limit="100"), quantity="10", limit="100"), "REDUCES_RISK"),
    ],
)
def test_what_lowers_risk_meets_no_rule(command: CommandFacts, why: str) -> None:
    assert exemption(command) == why
    for gate in Gate:
        assert evaluate(a_book(*everything()), command, Facts(now=NOW), gate) == []


@pytest.mark.parametrize(
    "command",
    [
        changes(asks(quantity="11", limit="100"), quantity="10", limit="100"),
        changes(asks(quantity="9", limit="100.01"), quantity="10", limit="100"),
        changes(asks(SELL, quantity="9", limit="99.99"), quantity="10", limit="100"),
        replace(changes(asks(stop="5"), quantity="10"), before=replace(asks(stop="6").terms)),
        replace(CHEAPER, terms=replace(CHEAPER.terms, time_in_force=TimeInForce.GOOD_TILL_CANCEL)),
    ],
)
def test_a_replace_that_may_raise_risk_meets_every_rule(command: CommandFacts) -> None:
    assert exemption(command) is None
    assert evaluate(a_book(a_rule("SWITCH", HALTED)), command, knows(), Gate.DOOR)[0].refuses


def test_what_counts_commands_speaks_where_they_are_accepted_only() -> None:
    rules = [a_rule("DUPLICATE", {}), a_rule("RATE_ORDERS", {"count": 1, "window_millis": 1})]
    assert applicable(a_book(*rules), COMMAND, NOW, Gate.ACCEPT) == rules
    assert applicable(a_book(*rules), COMMAND, NOW, Gate.DOOR) == []


def test_a_rule_asks_for_no_more_than_it_needs() -> None:
    def needed(code: str, parameters: Mapping[str, Any], command: CommandFacts = COMMAND) -> set[Need]:
        return set(needs([a_rule(code, parameters)], command))

    reduce_only = {"status": "REDUCE_ONLY"}
    assert needed("SWITCH", HALTED) == set()
    assert needed("SWITCH", reduce_only) == {Need.EXPOSURE}
    assert needed("SIDE_NOT_ALLOWED", {"no_short": True}) == set()
    assert needed("SIDE_NOT_ALLOWED", {"no_short": True}, asks(SELL)) == {Need.EXPOSURE}
    assert needed("NOTIONAL_MAX", {"value": "1", "currency": "USD"}) == {Need.INSTRUMENT}
    for unbounded in (asks(), asks(stop="1"), asks(SELL, limit="1"), asks(SHORT, limit="1", stop="1")):
        assert needed("NOTIONAL_MAX", {"value": "1", "currency": "USD"}, unbounded) == {Need.INSTRUMENT, Need.PRICE}
    assert needed("TICK", {}, asks()) == set()
    assert needed("PRICE_COLLAR", {"up_percent": "1", "down_percent": "1"}) == {Need.PRICE}
    assert needed("DUPLICATE", {}) == {Need.DUPLICATES}
    assert needed("DUPLICATE", {"callers_may_override": True}, asks(allow_duplicate=True)) == set()
    assert needed("OPEN_ORDERS_MAX", {"count": 1}, changes(asks(quantity="11"), quantity="10")) == set()
    assert set(needs(everything(), COMMAND)).isdisjoint(STATEFUL)


def test_what_a_case_is_judged_by_is_what_its_rule_asked_for() -> None:
    known = {"price": Need.PRICE, "instrument": Need.INSTRUMENT, "exposure": Need.EXPOSURE, "judged": Need.RATE}
    for case in CASES:
        asked_for = needs([a_rule(case.code, case.parameters)], case.asked)
        unasked = {name: getattr(Facts(now=NOW), name) for name, need in known.items() if need not in asked_for}
        without = replace(case, facts=replace(case.facts, **unasked))
        assert judge(without) == judge(case)


def test_a_duplicate_that_is_meant_and_a_replace_are_no_duplicates() -> None:
    rule, facts = a_rule("DUPLICATE", {"callers_may_override": True}), knows(equal_orders=[NOW])
    for command in (asks(allow_duplicate=True), changes(asks(quantity="11"), quantity="10")):
        assert evaluate(a_book(rule), command, facts, Gate.ACCEPT) == []


def test_allow_duplicate_has_an_effect_only_if_every_duplicate_rule_permits_it() -> None:
    facts = knows(equal_orders=[NOW - timedelta(seconds=30)])
    meant = asks(allow_duplicate=True)
    permits, forbids = {"window_millis": 60_000, "callers_may_override": True}, {"callers_may_override": False}
    both = a_book(a_rule("DUPLICATE", permits, scope=Scope.ORGANIZATION), a_rule("DUPLICATE", forbids))
    # The order is older than the window of the rule that forbids it, and still the other rule refuses.
    lines = evaluate(both, meant, facts, Gate.ACCEPT)
    assert [(line.refuses, line.inputs["callers_may_override"]) for line in lines] == [(True, "true"), (False, "false")]
    assert evaluate(a_book(a_rule("DUPLICATE", permits)), meant, facts, Gate.ACCEPT) == []
    watched = a_book(a_rule("DUPLICATE", permits), a_rule("DUPLICATE", forbids, mode=Mode.SHADOW))
    assert not any(line.refuses for line in evaluate(watched, meant, facts, Gate.ACCEPT))


@pytest.mark.parametrize(("environment", "refuses"), [(Environment.LIVE, True), (Environment.PAPER, False)])
def test_a_caller_may_override_duplicates_on_paper_only_unless_the_rule_says_otherwise(
    environment: Environment, refuses: bool
) -> None:
    meant = asks(allow_duplicate=True, environment=environment)
    lines = evaluate(a_book(a_rule("DUPLICATE", {})), meant, knows(equal_orders=[NOW]), Gate.ACCEPT)
    assert any(line.refuses for line in lines) is refuses
    if refuses:
        assert lines[0].would_pass is not None
        assert "allow_duplicate" not in lines[0].would_pass


SMALLER_STOP = changes(asks(SELL, quantity="4", stop="90"), quantity="10")
HIGHER_STOP_LIMIT = changes(asks(BUY, quantity="10", limit="119", stop="110"), quantity="10", limit="120")


@pytest.mark.parametrize(
    ("command", "position", "protects"),
    [
        (SMALLER_STOP, "10", True),
        (SMALLER_STOP, "0", False),
        (SMALLER_STOP, "-10", False),
        (SMALLER_STOP, None, True),
        (HIGHER_STOP_LIMIT, "-10", True),
        (HIGHER_STOP_LIMIT, "10", False),
        (changes(asks(SELL, quantity="4", limit="90"), quantity="10", limit="90"), "10", False),
        (changes(asks(SHORT, quantity="4", stop="90"), quantity="10"), "-10", False),
    ],
)
def test_a_replace_of_a_stop_that_protects_the_position_is_not_exempt(
    command: CommandFacts, position: str | None, protects: bool
) -> None:
    known = with_position(command, None if position is None else Decimal(position))
    assert exemption(known) == (None if protects else "REDUCES_RISK")
    lines = evaluate(a_book(a_rule("SWITCH", HALTED)), known, knows(), Gate.DOOR)
    assert any(line.refuses for line in lines) is protects
    cancelled = replace(known, action_type=ActionType.CANCEL)
    assert exemption(cancelled) == "CANCEL"


def test_a_shadow_rule_never_hides_a_hard_one() -> None:
    rules = [
        a_rule("QTY_MAX", {"quantity": "5"}, mode=Mode.SHADOW, scope=Scope.ORGANIZATION),
        a_rule("QTY_MAX", {"quantity": "6"}),
    ]
    lines = evaluate(a_book(*rules), COMMAND, knows(), Gate.ACCEPT)
    assert [line.verdict for line in lines] == [Verdict.WOULD_REFUSE, Verdict.REFUSED]


def test_what_cannot_be_set_as_a_rule_or_not_there_is_refused_with_what_can() -> None:
    for code in ("SWITCH", "SYMBOL_DISABLED", "NO_SUCH"):
        with pytest.raises(InvalidCommand, match="QTY_MAX"):
            checked_parameters(code, Scope.ACCOUNT, {})
    deny, allow = {"list": "DENY", "symbols": ["A"]}, {"list": "ALLOW_ONLY", "symbols": ["A"]}
    for scope, parameters in ((Scope.SYMBOL, deny), (Scope.KEY, deny), (Scope.PLATFORM, allow)):
        with pytest.raises(InvalidCommand, match=str(scope)):
            checked_parameters("RESTRICTED", scope, parameters)
    for scope, parameters in ((Scope.PLATFORM, deny), (Scope.KEY, allow), (Scope.ORGANIZATION, allow)):
        assert checked_parameters("RESTRICTED", scope, parameters) is not None
    assert len(SETTABLE) == len(CATALOGUE) - 2


@given(
    side=st.sampled_from([BUY, SELL]),
    position=st.integers(-50, 50),
    buys=st.integers(0, 50),
    sells=st.integers(0, 50),
    quantity=st.integers(1, 60),
)
def test_reduce_only_lets_no_position_grow_however_orders_fill(
    side: Any, position: int, buys: int, sells: int, quantity: int
) -> None:
    rule = a_rule("SWITCH", {"status": "REDUCE_ONLY"})
    facts = holds(str(position), buys=str(buys), sells=str(sells))
    [line] = evaluate(a_book(rule), asks(side, str(quantity)), facts, Gate.ACCEPT)
    working = buys if side is BUY else sells
    worst = position + working + quantity if side is BUY else position - working - quantity
    reduces = position < 0 and worst <= 0 if side is BUY else position > 0 and worst >= 0
    assert line.refuses is not reduces
    if not line.refuses:
        assert abs(worst) <= abs(position)
    assert Decimal(str(line.headroom)) >= 0 or line.refuses

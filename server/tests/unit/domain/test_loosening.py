"""Whether a change tightens or loosens: every kind of rule, symbol controls, accounts and keys."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbell_server.domain.access.accounts import AccountRecord, Environment, SessionState
from openbell_server.domain.access.api_keys import ApiKeyRecord
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.access.principals import CONTROL_LOOSEN, Principal, PrincipalKind
from openbell_server.domain.controls.catalogue import CATALOGUE, SETTABLE
from openbell_server.domain.controls.evaluate import evaluate
from openbell_server.domain.controls.facts import Gate
from openbell_server.domain.controls.findings import Mode
from openbell_server.domain.controls.heartbeats import HeartbeatTerms
from openbell_server.domain.controls.loosening import (
    AccountChanged,
    AccountOpened,
    HeartbeatChanged,
    KeyChanged,
    RuleChanged,
    RuleState,
    SymbolSwitched,
    TimesChanged,
    admit_switch,
    admit_times,
    classify,
    require_permission,
)
from openbell_server.domain.controls.rules import OnMissing, Override, RuleTerms
from openbell_server.domain.controls.strictness import Effect
from openbell_server.domain.controls.symbol_controls import ManualControl, OnClose, TimeControl
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.markets.calendars import Session
from openbell_server.domain.markets.trading_windows import DAYS, Day, TradingWindow
from support.authorization.loosening_pairs import HEARTBEATS, INCOMPARABLE, RULES, SWITCHES
from support.builders.control_cases import CASES
from support.builders.control_commands import NOW, Case, a_book, a_rule

TIGHTEN, LOOSEN, NEITHER = Effect.TIGHTEN, Effect.LOOSEN, Effect.NEITHER
STRICTER = [*RULES, *(("SWITCH", loose, strict) for loose, strict in SWITCHES)]


def state(parameters: Mapping[str, Any] | None, mode: Mode = Mode.HARD, missing: OnMissing | None = None) -> RuleState:
    return RuleState(
        parameters if parameters is None else RuleTerms(mode=mode, on_missing=missing, parameters=parameters)
    )


def effect(code: str, before: RuleState, after: RuleState, environment: Environment = Environment.PAPER) -> Effect:
    return classify(RuleChanged(code=code, before=before, after=after, environment=environment)).effect


@pytest.mark.parametrize(("code", "loose", "strict"), STRICTER)
def test_each_parameter_tightens_in_its_declared_direction_and_loosens_in_the_other(
    code: str, loose: Mapping[str, Any], strict: Mapping[str, Any]
) -> None:
    assert effect(code, state(loose), state(strict)) is TIGHTEN
    assert effect(code, state(strict), state(loose)) is LOOSEN
    assert effect(code, state(strict), state(strict)) is NEITHER


@pytest.mark.parametrize(("loose", "strict"), HEARTBEATS)
def test_a_required_promise_of_heartbeats_loosens_in_one_direction(
    loose: Mapping[str, Any] | None, strict: Mapping[str, Any]
) -> None:
    one, other = None if loose is None else HeartbeatTerms(**loose), HeartbeatTerms(**strict)
    assert classify(HeartbeatChanged(other, one)).effect is LOOSEN
    assert classify(HeartbeatChanged(other, other)).effect is NEITHER
    if one is not None:
        assert classify(HeartbeatChanged(one, other)).effect is TIGHTEN


@pytest.mark.parametrize(("code", "one", "other"), INCOMPARABLE)
def test_what_does_both_or_cannot_be_compared_loosens(
    code: str, one: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    assert effect(code, state(one), state(other)) is LOOSEN
    assert effect(code, state(other), state(one)) is LOOSEN


def test_every_settable_kind_declares_which_direction_tightens() -> None:
    assert [code for code in SETTABLE if CATALOGUE[code].tightens is None] == []
    # SELF_MATCH has no parameters, so there is nothing to compare.
    assert {code for code, *_ in STRICTER} == {*SETTABLE, "SWITCH"} - {"SELF_MATCH"}


def test_a_kind_without_a_declaration_loosens_with_any_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "QTY_MAX", replace(CATALOGUE["QTY_MAX"], tightens=None))
    assert effect("QTY_MAX", state({"quantity": "10"}), state({"quantity": "9"})) is LOOSEN
    assert effect("QTY_MAX", state({"quantity": "10"}), state({"quantity": "10.0"})) is NEITHER


@pytest.mark.parametrize("environment", list(Environment))
def test_a_rule_that_tightened_refuses_whatever_it_refused_before(environment: Environment) -> None:
    """Every pair of parameters of every kind, judged on every command of the kind's cases."""
    compared = 0
    for code in SETTABLE:
        cases = [case for case in CASES if case.code == code and _can_be(case)]
        given = [case.parameters for case in cases] + [each for of, *both in STRICTER if of == code for each in both]
        unique = {tuple(sorted((name, _frozen(value)) for name, value in each.items())) for each in given}
        sets = [dict(each) for each in unique]
        for before in sets:
            for after in sets:
                if effect(code, state(_thawed(before)), state(_thawed(after)), environment) is not TIGHTEN:
                    continue
                for case in cases:
                    asked = replace(case.asked, environment=environment)
                    lines = [
                        evaluate(a_book(a_rule(code, _thawed(each))), asked, case.facts, Gate.ACCEPT)
                        for each in (before, after)
                    ]
                    was, is_now = (any(line.refuses for line in each) for each in lines)
                    assert is_now or not was, (code, before, after, case.name)
                    compared += 1
    assert compared > 400


def _can_be(case: Case) -> bool:
    """Some cases count more orders of a side than of the account, which shows that only one of them is read."""
    known = case.facts.exposure
    return known is None or known.open_orders >= known.open_orders_of_symbol >= known.open_orders_of_side


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _thawed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()}


def test_adding_a_rule_tightens_and_removing_or_only_watching_it_loosens() -> None:
    rule, shadow, none = state({"quantity": "9"}), state({"quantity": "9"}, Mode.SHADOW), RuleState()
    assert effect("QTY_MAX", none, rule) is TIGHTEN
    assert effect("QTY_MAX", none, shadow) is TIGHTEN
    assert effect("QTY_MAX", shadow, rule) is TIGHTEN
    assert effect("QTY_MAX", rule, shadow) is LOOSEN
    assert effect("QTY_MAX", rule, none) is LOOSEN
    assert effect("QTY_MAX", shadow, none) is LOOSEN
    assert effect("SWITCH", none, state({"status": "ACTIVE"})) is NEITHER


def test_on_missing_loosens_toward_allow() -> None:
    allow, default, deny = (state({"quantity": "9"}, missing=each) for each in (OnMissing.ALLOW, None, OnMissing.DENY))
    assert effect("POSITION_MAX", allow, default) is TIGHTEN
    assert effect("POSITION_MAX", default, deny) is TIGHTEN
    assert effect("POSITION_MAX", deny, default) is LOOSEN
    assert effect("POSITION_MAX", default, allow) is LOOSEN


def test_an_age_rule_that_is_older_than_the_default_of_live_accounts_loosens_there() -> None:
    none, short, long = RuleState(), state({"max_age_millis": 60_000}), state({"max_age_millis": 60_001})
    assert effect("STALE_ORDER", none, short, Environment.LIVE) is TIGHTEN
    assert effect("STALE_ORDER", none, long, Environment.LIVE) is LOOSEN
    assert effect("STALE_ORDER", none, long, Environment.PAPER) is TIGHTEN
    shadow = state({"max_age_millis": 90_000}, Mode.SHADOW)
    assert effect("STALE_ORDER", none, shadow, Environment.LIVE) is TIGHTEN
    assert effect("STALE_ORDER", shadow, long, Environment.LIVE) is LOOSEN


def temporary(terms: str | None, override: str, hours: int) -> RuleState:
    until = NOW + timedelta(hours=hours)
    permanent = None if terms is None else RuleTerms(parameters={"quantity": terms})
    return RuleState(permanent, Override(terms=RuleTerms(parameters={"quantity": override}), expires_at=until))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (state({"quantity": "10"}), temporary("10", "20", 1), LOOSEN),
        (state({"quantity": "10"}), temporary("10", "5", 1), TIGHTEN),
        (temporary("10", "20", 2), temporary("10", "20", 1), TIGHTEN),
        (temporary("10", "20", 1), temporary("10", "20", 2), LOOSEN),
        (temporary("10", "5", 2), temporary("10", "5", 1), LOOSEN),
        (temporary("10", "20", 1), state({"quantity": "10"}), TIGHTEN),
        (temporary("10", "5", 1), state({"quantity": "10"}), LOOSEN),
        (temporary("10", "20", 1), state({"quantity": "15"}), LOOSEN),
        (RuleState(), temporary(None, "5", 1), TIGHTEN),
        (temporary(None, "5", 1), RuleState(), LOOSEN),
        (temporary(None, "5", 1), temporary(None, "5", 1), NEITHER),
    ],
)
def test_terms_for_a_time_are_compared_at_every_time(before: RuleState, after: RuleState, expected: Effect) -> None:
    assert effect("QTY_MAX", before, after) is expected


def test_a_rule_that_cannot_be_read_refuses_everything_so_that_replacing_it_loosens() -> None:
    assert effect("QTY_MAX", state({"of a later version": 1}), state({"quantity": "1"})) is LOOSEN
    assert effect("QTY_MAX", state({"of a later version": 1}), RuleState()) is LOOSEN


hours = st.one_of(st.none(), st.times().map(lambda t: t.replace(microsecond=0)))
windows = st.builds(
    TradingWindow,
    trading_start=hours,
    trading_end=hours,
    timezone=st.just("UTC"),
    days=st.one_of(
        st.none(), st.sets(st.sampled_from(list(Day)), min_size=1).map(lambda d: tuple(x for x in DAYS if x in d))
    ),
).filter(lambda window: window.trading_end is None or window.trading_end != window.start)


@given(one=windows, other=windows, minutes=st.integers(0, 7 * 1440 - 1))
def test_a_window_covers_another_only_if_it_is_open_whenever_that_is(
    one: TradingWindow, other: TradingWindow, minutes: int
) -> None:
    monday = datetime(2026, 3, 2, tzinfo=UTC)
    edges = {monday + timedelta(minutes=minutes), *one.edges(monday), *other.edges(monday)}
    around = [edge + timedelta(seconds=shift) for edge in edges for shift in (-1, 0)]
    escapes = any(other.opened_on(at) is not None and one.opened_on(at) is None for at in around)
    assert one.covers(other) is not escapes


OFF, ON = ManualControl(manually_disabled=True), ManualControl(manually_disabled=False)


def test_disabling_a_symbol_tightens_and_enabling_it_loosens() -> None:
    assert classify(SymbolSwitched(None, OFF)).effect is TIGHTEN
    assert classify(SymbolSwitched(None, ON)).effect is NEITHER
    assert classify(SymbolSwitched(OFF, replace(OFF, manual_reason="news"))).effect is NEITHER
    assert classify(SymbolSwitched(OFF, ON)).effect is LOOSEN


@pytest.mark.parametrize(
    ("loose", "strict"),
    [
        ({}, {"trading_start": time(9, 30)}),
        ({}, {"days": (Day.MONDAY,)}),
        ({"trading_end": time(17)}, {"trading_end": time(16)}),
        ({}, {"calendar": "XNYS"}),
        ({"calendar": "XNYS", "session": Session.ANY}, {"calendar": "XNYS"}),
        ({}, {"stale_order_millis": 60_000}),
        ({"stale_order_millis": 60_000}, {"stale_order_millis": 1}),
        ({}, {"max_resting_millis": 9_000}),
        ({"max_resting_millis": 9_000}, {"max_resting_millis": 8_000}),
        ({"calendar": "XNYS"}, {"calendar": "XNYS", "on_close": OnClose.CANCEL}),
    ],
)
def test_each_part_of_a_time_control_tightens_in_one_direction(loose: Any, strict: Any) -> None:
    one, other = TimeControl(**loose), TimeControl(**strict)
    assert classify(TimesChanged(before=one, after=other)).effect is TIGHTEN
    assert classify(TimesChanged(before=other, after=one)).effect is LOOSEN


def test_times_that_cannot_be_compared_loosen_and_those_that_restrict_nothing_do_not() -> None:
    start = TimeControl(trading_start=time(9))
    assert classify(TimesChanged(before=start, after=replace(start, timezone="Asia/Tokyo"))).effect is LOOSEN
    assert classify(TimesChanged(before=TimeControl(), after=TimeControl(timezone="Asia/Tokyo"))).effect is NEITHER
    closes = TimeControl(calendar="XNYS", on_close=OnClose.LEAVE)
    assert classify(TimesChanged(before=closes, after=replace(closes, on_close=None))).effect is NEITHER
    late = TimeControl(stale_order_millis=60_001)
    assert classify(TimesChanged(before=TimeControl(), after=late)).effect is LOOSEN
    assert classify(TimesChanged(before=TimeControl(), after=late, environment=Environment.PAPER)).effect is TIGHTEN


ACCOUNT = AccountRecord(
    id=AccountId(UUID(int=1)),
    organization_id=OrganizationId(UUID(int=2)),
    name="Main",
    broker="paper",
    environment=Environment.PAPER,
    external_account_id=None,
    base_currency="USD",
    timezone="UTC",
    disabled=False,
    disabled_reason=None,
    credential_status=CredentialStatus.NOT_REQUIRED,
    session_status=SessionState.READY,
    closed_at=None,
    created_at=NOW,
    updated_at=NOW,
    version=1,
)
KEY = ApiKeyRecord(
    id=UUID(int=3),
    key_id="0" * 12,
    name="bot",
    environment=Environment.PAPER,
    permissions=("intent:edit", "intent:read"),
    own_orders_only=False,
    account_ids=None,
    disabled=False,
    revoked_at=None,
    expires_at=NOW,
    created_at=NOW,
)


def test_a_disabled_or_closed_account_is_tighter_and_an_enabled_one_or_one_of_another_zone_is_not() -> None:
    off = replace(ACCOUNT, disabled=True)
    assert classify(AccountChanged(ACCOUNT, off)).effect is TIGHTEN
    assert classify(AccountChanged(off, ACCOUNT)).effect is LOOSEN
    assert classify(AccountChanged(ACCOUNT, replace(ACCOUNT, closed_at=NOW, disabled=True))).effect is TIGHTEN
    assert classify(AccountChanged(ACCOUNT, replace(ACCOUNT, name="Other"))).effect is NEITHER
    assert classify(AccountChanged(ACCOUNT, replace(ACCOUNT, timezone="Asia/Tokyo"))).effect is LOOSEN
    assert classify(AccountChanged(ACCOUNT, replace(off, timezone="Asia/Tokyo"))).effect is LOOSEN


def test_opening_an_account_loosens_only_while_another_is_stopped() -> None:
    assert classify(AccountOpened(others_are_stopped=True)).effect is LOOSEN
    assert classify(AccountOpened(others_are_stopped=False)).effect is NEITHER


@pytest.mark.parametrize(
    "strict",
    [
        {"disabled": True},
        {"permissions": ("intent:read",)},
        {"expires_at": NOW - timedelta(days=1)},
        {"own_orders_only": True},
    ],
)
def test_a_key_that_may_do_less_is_tighter(strict: Any) -> None:
    other = replace(KEY, **strict)
    assert classify(KeyChanged(KEY, other)).effect is TIGHTEN
    assert classify(KeyChanged(other, KEY)).effect is LOOSEN


def test_a_new_key_loosens_a_revoked_one_tightens_and_a_renamed_one_does_neither() -> None:
    assert classify(KeyChanged(None, KEY)).effect is LOOSEN
    assert classify(KeyChanged(KEY, replace(KEY, revoked_at=NOW))).effect is TIGHTEN
    assert classify(KeyChanged(KEY, replace(KEY, name="other"))).effect is NEITHER
    assert classify(KeyChanged(KEY, replace(KEY, expires_at=None))).effect is LOOSEN


def principal(kind: PrincipalKind, *permissions: str) -> Principal:
    return Principal(
        kind=kind,
        id="someone",
        organization_id=OrganizationId(UUID(int=2)),
        environment=Environment.PAPER if kind is PrincipalKind.API_KEY else None,
        permissions=frozenset(permissions),
    )


A_KEY, A_USER = principal(PrincipalKind.API_KEY, "control:edit:paper"), principal(PrincipalKind.USER)
A_LOOSENER = principal(PrincipalKind.API_KEY, "control:edit:paper", CONTROL_LOOSEN)
RAISED = RuleChanged(code="QTY_MAX", before=state({"quantity": "1"}), after=state({"quantity": "2"}, Mode.SHADOW))


def test_only_a_key_without_the_permission_is_refused_and_the_text_names_it_and_why() -> None:
    for caller in (A_USER, A_LOOSENER, principal(PrincipalKind.OPERATOR), principal(PrincipalKind.SYSTEM)):
        require_permission(caller, RAISED)
    for caller in (A_KEY, principal(PrincipalKind.SERVICE)):
        with pytest.raises(Problem, match=r"mode, quantity of QTY_MAX would be less strict.*control:loosen") as refused:
            require_permission(caller, RAISED)
        assert refused.value.code == "permission_denied"


def test_a_key_undoes_a_disabled_symbol_of_a_key_and_not_that_of_a_user() -> None:
    by_key = admit_switch(A_KEY, None, OFF, frozenset())
    assert admit_switch(A_KEY, OFF, ON, by_key) == frozenset()
    by_user = admit_switch(A_USER, None, OFF, frozenset())
    # A key that disables it once more does not become the one who did.
    still = admit_switch(A_KEY, OFF, replace(OFF, manual_reason="mine"), by_user)
    for kept in (by_user, still):
        with pytest.raises(Problem, match="control:loosen"):
            admit_switch(A_KEY, OFF, ON, kept)
        assert admit_switch(A_LOOSENER, OFF, ON, kept) == frozenset()
    # A user who disables it once more does.
    with pytest.raises(Problem, match="control:loosen"):
        admit_switch(A_KEY, OFF, ON, admit_switch(A_USER, OFF, OFF, by_key))


def test_a_key_undoes_trading_times_of_a_key_and_not_those_of_a_user() -> None:
    none, start = TimeControl(), TimeControl(trading_start=time(9))
    both = replace(start, stale_order_millis=5)
    by_user = admit_times(A_USER, TimesChanged(before=none, after=start), ["trading_start"], frozenset())
    assert by_user == {"trading_start"}
    kept = admit_times(A_KEY, TimesChanged(before=start, after=both), ["stale_order_millis"], by_user)
    assert kept == by_user
    assert admit_times(A_KEY, TimesChanged(before=both, after=start), [], kept) == by_user
    for after in (replace(both, trading_start=None), replace(both, timezone="Asia/Tokyo")):
        with pytest.raises(Problem, match=r"the trading window .*control:loosen"):
            admit_times(A_KEY, TimesChanged(before=both, after=after), [], kept)
    assert admit_times(A_LOOSENER, TimesChanged(before=both, after=none), [], kept) == frozenset()
    # The user names a value that a key has set: from now on it is the user's.
    taken = admit_times(A_USER, TimesChanged(before=both, after=both), ["stale_order_millis"], kept)
    with pytest.raises(Problem, match="stale_order_millis"):
        admit_times(A_KEY, TimesChanged(before=both, after=start), [], taken)

"""Whether a change of a control, an account or an API key tightens or loosens the limits on trading."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from openbell_server.domain.access.accounts import AccountRecord, Environment
from openbell_server.domain.access.api_keys import ApiKeyRecord
from openbell_server.domain.access.authorization import require_loosening
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.findings import Mode
from openbell_server.domain.controls.heartbeats import HeartbeatTerms
from openbell_server.domain.controls.kind import ControlKind
from openbell_server.domain.controls.kinds.times import compare_windows
from openbell_server.domain.controls.rules import SWITCH, OnMissing, Override, Rule, RuleTerms, SwitchState
from openbell_server.domain.controls.strictness import (
    UNDECLARED,
    Compare,
    Effect,
    combined,
    fewer,
    higher,
    lower,
    lower_or_none,
    ranked,
    tightens_if,
)
from openbell_server.domain.controls.symbol_controls import (
    STALE_MILLIS_DEFAULT,
    ManualControl,
    OnClose,
    TimeControl,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.markets.calendars import Session

_MODES: Final = ranked(None, Mode.SHADOW, Mode.HARD)
_ON_MISSING: Final = ranked(OnMissing.ALLOW, None, OnMissing.DENY)
# The fields of a time control that restrict together.
TIME_GROUPS: Final = {
    "window": ("trading_start", "trading_end", "timezone", "days"),
    "market": ("calendar", "session"),
    "stale_order_millis": ("stale_order_millis",),
    "max_resting_millis": ("max_resting_millis",),
    "on_close": ("on_close",),
}


@dataclass(frozen=True, slots=True)
class RuleState:
    """The terms of a rule, and the temporary ones; without either there is no rule."""

    terms: RuleTerms | None = None
    override: Override | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChanged:
    """A change of a rule or switch; overrides that have expired are left out."""

    code: str
    before: RuleState
    after: RuleState
    # Of the accounts that it applies to; LIVE if they are of both.
    environment: Environment = Environment.LIVE


@dataclass(frozen=True, slots=True)
class HeartbeatChanged:
    """A change of a promise that somebody requires; None: it is disarmed."""

    before: HeartbeatTerms
    after: HeartbeatTerms | None


@dataclass(frozen=True, slots=True)
class SymbolSwitched:
    before: ManualControl | None
    after: ManualControl


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesChanged:
    before: TimeControl
    after: TimeControl
    environment: Environment = Environment.LIVE


@dataclass(frozen=True, slots=True)
class AccountOpened:
    # Whether another account of the organization and environment is halted or disabled.
    others_are_stopped: bool


@dataclass(frozen=True, slots=True)
class AccountChanged:
    before: AccountRecord
    after: AccountRecord


@dataclass(frozen=True, slots=True)
class KeyChanged:
    """A change of a key; None before: a new key."""

    before: ApiKeyRecord | None
    after: ApiKeyRecord


Change = RuleChanged | HeartbeatChanged | SymbolSwitched | TimesChanged | AccountOpened | AccountChanged | KeyChanged


@dataclass(frozen=True, slots=True)
class Classified:
    effect: Effect
    # What loosens; empty unless the effect is LOOSEN.
    why: tuple[str, ...] = ()


def classify(change: Change) -> Classified:
    """The effect of a change. One that does both, or cannot be compared, loosens."""
    match change:
        case RuleChanged():
            parts = _rule_parts(change)
        case HeartbeatChanged(before, after):
            parts = _heartbeat_parts(before, after)
        case SymbolSwitched():
            parts = [_symbol_part(change)]
        case TimesChanged():
            parts = list(_time_parts(change).values())
        case AccountOpened(others_are_stopped):
            why = "another account of this environment is halted or disabled, and a new one could trade in its place"
            parts = [(Effect.LOOSEN if others_are_stopped else Effect.NEITHER, why)]
        case AccountChanged():
            parts = _account_parts(change.before, change.after)
        case KeyChanged():
            parts = _key_parts(change.before, change.after)
    effect = combined([effect for effect, _ in parts])
    return Classified(effect, tuple(dict.fromkeys(why for each, why in parts if each is Effect.LOOSEN)))


def require_permission(principal: Principal, change: Change) -> None:
    """Raises Problem if the change loosens and the caller may only tighten."""
    classified = classify(change)
    if classified.effect is Effect.LOOSEN:
        require_loosening(principal, "; ".join(classified.why))


def is_stricter(rule: Rule, than: Rule) -> bool:
    """Whether a rule refuses all that another of its code refuses, and more."""
    effect, _ = _terms_effect(CATALOGUE[rule.code], (than, than.parameters), (rule, rule.parameters))
    return effect is Effect.TIGHTEN


def admit_switch(
    principal: Principal, before: ManualControl | None, after: ManualControl, set_by_users: frozenset[str]
) -> frozenset[str]:
    """The fields that users have set after the change; raises Problem if it undoes one and the caller may not.

    What API keys have set, every key that may edit controls may undo.
    """
    if set_by_users:
        require_permission(principal, SymbolSwitched(before, after))
    is_kept = after.manually_disabled and (principal.kind is not PrincipalKind.API_KEY or bool(set_by_users))
    return frozenset({"manually_disabled"}) if is_kept else frozenset()


def admit_times(
    principal: Principal, change: TimesChanged, named: Iterable[str], set_by_users: frozenset[str]
) -> frozenset[str]:
    """Like admit_switch, for a change that sets the `named` fields; fields that restrict together count as one."""
    loosened = [
        why
        for group, (effect, why) in _time_parts(change).items()
        if effect is Effect.LOOSEN and not set_by_users.isdisjoint(TIME_GROUPS[group])
    ]
    if loosened:
        require_loosening(principal, "; ".join(loosened))
    ours = frozenset(named) if principal.kind is not PrincipalKind.API_KEY else frozenset()
    return frozenset(name for name in set_by_users | ours if getattr(change.after, name) is not None)


def _rule_parts(change: RuleChanged) -> list[tuple[Effect, str]]:
    """Compare the terms in force at every time from now on: they change only when an override expires."""
    ends = {state.override.expires_at for state in (change.before, change.after) if state.override is not None}
    parts = [_terms_part(change, change.before.terms, change.after.terms)]
    for end in sorted(ends):
        pair = [
            state.override.terms if state.override is not None and end <= state.override.expires_at else state.terms
            for state in (change.before, change.after)
        ]
        parts.append(_terms_part(change, *pair))
    return parts


def _terms_part(change: RuleChanged, before: RuleTerms | None, after: RuleTerms | None) -> tuple[Effect, str]:
    code, kind = change.code, CATALOGUE[change.code]
    if after is None:
        effect = Effect.NEITHER if before is None else Effect.LOOSEN
        return effect, f"{code} would no longer apply"
    found = kind.decode(after.parameters)
    was_hard, is_hard = before is not None and before.mode is Mode.HARD, after.mode is Mode.HARD
    if is_hard and not was_hard and kind.replaces_default(found, change.environment):
        return Effect.LOOSEN, f"{code} would replace a stricter default of the platform"
    if before is None:
        # A switch that stops nothing is like none.
        return _absent(kind.code, after), f"{code} would be set"
    try:
        old = kind.decode(before.parameters)
    except InvalidCommand:
        # A rule that cannot be read refuses everything.
        old = None
    effect, loosened = _terms_effect(kind, (before, old), (after, found))
    return effect, f"{', '.join(loosened)} of {code} would be less strict"


def _terms_effect(
    kind: ControlKind, before: tuple[RuleTerms | Rule, object], after: tuple[RuleTerms | Rule, object]
) -> tuple[Effect, list[str]]:
    """The effect of other terms, each with its decoded parameters, and what loosens."""
    (was, old), (is_, new) = before, after
    effects = {
        "mode": _compared(_MODES, was.mode, is_.mode),
        "on_missing": _compared(_ON_MISSING, was.on_missing, is_.on_missing),
    }
    names = [name for name, effect in effects.items() if effect is Effect.LOOSEN]
    if old == new:
        return combined(effects.values()), names
    if old is None or kind.tightens is None:
        return Effect.LOOSEN, [*names, *UNDECLARED]
    effect, loosened = kind.tightens(old, new)
    return combined([*effects.values(), effect]), [*names, *loosened]


def _absent(code: str, after: RuleTerms) -> Effect:
    is_idle = code == SWITCH and after.parameters.get("status") == SwitchState.ACTIVE
    return Effect.NEITHER if is_idle else Effect.TIGHTEN


def _compared(compare: Compare, before: object, after: object) -> Effect:
    return Effect.NEITHER if before == after else compare(before, after)


def _heartbeat_parts(before: HeartbeatTerms, after: HeartbeatTerms | None) -> list[tuple[Effect, str]]:
    if after is None:
        return [(Effect.LOOSEN, "heartbeats would no longer be required")]
    cancels = _compared(higher, before.cancel_working, after.cancel_working)
    return [
        (_compared(lower, before.timeout_seconds, after.timeout_seconds), "heartbeats could be further apart"),
        (cancels, "a missed heartbeat would no longer cancel working orders"),
    ]


def _symbol_part(change: SymbolSwitched) -> tuple[Effect, str]:
    was_off = change.before is not None and change.before.manually_disabled
    if was_off == change.after.manually_disabled:
        return Effect.NEITHER, ""
    return Effect.LOOSEN if was_off else Effect.TIGHTEN, "the symbol would be enabled again"


def _time_parts(change: TimesChanged) -> dict[str, tuple[Effect, str]]:
    """The effect on each group of fields."""
    before, after = change.before, change.after
    # Both in the account's zone where they name none; that zone does not matter as long as it is the same.
    window, _ = compare_windows(before.window(_OWN_ZONE), after.window(_OWN_ZONE))
    sessions = [frozenset((each.session or Session.REGULAR).kinds) for each in (before, after)]
    if before.calendar is None or after.calendar is None:
        market = _compared(
            lambda _before, _after: tightens_if(after.calendar is not None), before.calendar, after.calendar
        )
    elif before.calendar != after.calendar:
        market = Effect.LOOSEN
    else:
        market = _compared(fewer, *sessions)
    stale = _compared(lower_or_none, before.stale_order_millis, after.stale_order_millis)
    default = STALE_MILLIS_DEFAULT.get(change.environment)
    limit = after.stale_order_millis
    if before.stale_order_millis is None and limit is not None and default is not None and limit > default:
        stale = Effect.LOOSEN
    resting = _compared(lower_or_none, before.max_resting_millis, after.max_resting_millis)
    on_close = [each.on_close is OnClose.CANCEL for each in (before, after)]
    closing = _compared(ranked(False, True), *on_close)
    return {
        "window": (window, "the trading window would be open at more times, or cannot be compared"),
        "market": (market, "the market session would be open at more times, or cannot be compared"),
        "stale_order_millis": (stale, "stale_order_millis would be longer, or replace a shorter default"),
        "max_resting_millis": (resting, "max_resting_millis would be longer"),
        "on_close": (closing, "orders would no longer be cancelled at the close"),
    }


def _account_parts(before: AccountRecord, after: AccountRecord) -> list[tuple[Effect, str]]:
    closes = after.closed_at is not None and before.closed_at is None
    if closes:
        return [(Effect.TIGHTEN, "")]
    disabled = _compared(ranked(False, True), before.disabled, after.disabled)
    zone = Effect.NEITHER if before.timezone == after.timezone else Effect.LOOSEN
    return [
        (disabled, "the account would be enabled again"),
        (zone, "windows without a zone would be open at other times"),
    ]


def _key_parts(before: ApiKeyRecord | None, after: ApiKeyRecord) -> list[tuple[Effect, str]]:
    if before is None:
        return [(Effect.LOOSEN, "there would be one more API key")]
    if after.revoked_at is not None:
        return [(Effect.NEITHER if before.revoked_at is not None else Effect.TIGHTEN, "")]
    return [
        (_compared(ranked(False, True), before.disabled, after.disabled), "the key would be enabled again"),
        (_compared(fewer, frozenset(before.permissions), frozenset(after.permissions)), "the key could do more"),
        (_compared(lower_or_none, before.expires_at, after.expires_at), "the key would expire later"),
        (
            _compared(ranked(False, True), before.own_orders_only, after.own_orders_only),
            "the key could change orders of others",
        ),
    ]


_OWN_ZONE: Final = ""

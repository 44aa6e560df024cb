"""Switches set by people: a scope that is halted or reduce-only, and a disabled symbol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from openbell_server.domain.controls.facts import CommandFacts, Facts, Need
from openbell_server.domain.controls.findings import Comparison, Finding, Scope
from openbell_server.domain.controls.kind import NOTHING, ControlKind, found
from openbell_server.domain.controls.kinds.exposure import reducible
from openbell_server.domain.controls.kinds.parameters import Parameters
from openbell_server.domain.controls.rules import SWITCH, Rule, SwitchState
from openbell_server.domain.controls.strictness import Effect
from openbell_server.domain.controls.symbol_controls import SYMBOL_DISABLED, ManualControl
from openbell_server.domain.orders.order_terms import OrderSide

HALTED: Final = "HALTED"
REDUCE_ONLY: Final = "REDUCE_ONLY"
_SHAPE: Final = '{"status": "ACTIVE" | "REDUCE_ONLY" | "HALTED", "cancel_working"?: true | false}'
_MANUAL_SHAPE: Final = '{"manually_disabled": true | false, "manual_reason"?: "…"}'
_REDUCING: Final = "a SELL of no more than is held, or a BUY of no more than is short"
_REDUCING_SIDES: Final = [str(OrderSide.BUY), str(OrderSide.SELL)]


@dataclass(frozen=True, slots=True)
class Switch:
    """What a scope allows, and whether its working orders were to be cancelled when it was set."""

    state: SwitchState
    cancel_working: bool = False


def _compare(before: Switch, after: Switch) -> tuple[Effect, tuple[str, ...]]:
    """A stricter state is stricter whatever it cancels, so that a halt always tightens."""
    old, new = ((tuple(SwitchState).index(each.state), each.cancel_working) for each in (before, after))
    if old == new:
        return Effect.NEITHER, ()
    return (Effect.TIGHTEN, ()) if new > old else (Effect.LOOSEN, ("status",))


def _decode(parameters: Mapping[str, Any]) -> Switch:
    read = Parameters(parameters, _SHAPE).only({"status"}, {"cancel_working"})
    return Switch(read.one_of("status", SwitchState), read.optional("cancel_working", read.flag, default=False))


def _needs(switch: Switch, command: CommandFacts) -> frozenset[Need]:
    reduces = switch.state is SwitchState.REDUCE_ONLY and command.order_side is not OrderSide.SELL_SHORT
    return frozenset({Need.EXPOSURE}) if reduces else NOTHING


def _judge(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    assert isinstance(rule.parameters, Switch)
    state = rule.parameters.state
    if state is not SwitchState.REDUCE_ONLY:
        return found(
            rule,
            Comparison.EQUALS,
            SwitchState.ACTIVE,
            state,
            passes=state is SwitchState.ACTIVE,
            would_pass=f"once the switch of the {rule.scope} is ACTIVE again; until then a CANCEL, or less risk",
            code=HALTED,
        )
    if command.order_side is OrderSide.SELL_SHORT:
        return found(
            rule,
            Comparison.ONE_OF,
            _REDUCING_SIDES,
            command.order_side,
            passes=False,
            would_pass=_REDUCING,
            code=REDUCE_ONLY,
        )
    return reducible(rule, command, facts, code=REDUCE_ONLY, denies_missing=True)


def _decode_manual(parameters: Mapping[str, Any]) -> ManualControl:
    read = Parameters(parameters, _MANUAL_SHAPE).only({"manually_disabled"}, {"manual_reason"})
    reason = read.given.get("manual_reason")
    if reason is not None and not isinstance(reason, str):
        raise read.refusal()
    return ManualControl(manually_disabled=read.flag("manually_disabled"), manual_reason=reason)


def _judge_manual(rule: Rule, command: CommandFacts, _: Facts) -> Finding:
    assert isinstance(rule.parameters, ManualControl)
    control = rule.parameters
    state = "enabled"
    if control.manually_disabled:
        state = "disabled" if control.manual_reason is None else f"disabled: {control.manual_reason}"
    return found(
        rule,
        Comparison.EQUALS,
        "enabled",
        state,
        passes=not control.manually_disabled,
        would_pass=f"once {command.symbol} is enabled again; until then a CANCEL, or less risk",
        inputs=None if control.manual_reason is None else {"manual_reason": control.manual_reason},
    )


SWITCHES: Final = ControlKind(
    code=SWITCH,
    decode=_decode,
    judge=_judge,
    needs=_needs,
    settable=False,
    tightens=_compare,
)
SYMBOL_SWITCHES: Final = ControlKind(
    code=SYMBOL_DISABLED,
    decode=_decode_manual,
    judge=_judge_manual,
    scopes=frozenset({Scope.SYMBOL}),
    settable=False,
)

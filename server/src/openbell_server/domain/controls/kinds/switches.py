"""Switches set by people: a scope that is halted or reduce-only, and a disabled symbol."""

import re
from dataclasses import dataclass
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Facts, Need
from openbell_server.domain.controls.findings import Comparison, Finding, Scope
from openbell_server.domain.controls.kind import NOTHING, ControlKind, found
from openbell_server.domain.controls.kinds.exposure import reducible
from openbell_server.domain.controls.parameters import FLAG, Form, Shape, choice, matching
from openbell_server.domain.controls.rules import SWITCH, Rule, SwitchState
from openbell_server.domain.controls.strictness import Effect
from openbell_server.domain.controls.symbol_controls import SYMBOL_DISABLED, ManualControl
from openbell_server.domain.orders.order_terms import OrderSide

HALTED: Final = "HALTED"
REDUCE_ONLY: Final = "REDUCE_ONLY"
_REASON: Final = Form(
    shown='"…"', must_be="text", schema={"type": "string"}, read=lambda value, _: matching(value, re.compile("(?s).*"))
)
_REDUCING: Final = "a SELL of no more than is held, or a BUY of no more than is short"
_REDUCING_SIDES: Final = [str(OrderSide.BUY), str(OrderSide.SELL)]


@dataclass(frozen=True, slots=True)
class Switch:
    """What a scope allows, and whether its working orders were to be cancelled when it was set."""

    status: SwitchState
    cancel_working: bool = False


def _compare(before: Switch, after: Switch) -> tuple[Effect, tuple[str, ...]]:
    """A stricter state is stricter whatever it cancels, so that a halt always tightens."""
    old, new = ((tuple(SwitchState).index(each.status), each.cancel_working) for each in (before, after))
    if old == new:
        return Effect.NEITHER, ()
    return (Effect.TIGHTEN, ()) if new > old else (Effect.LOOSEN, ("status",))


def _needs(switch: Switch, command: CommandFacts) -> frozenset[Need]:
    reduces = switch.status is SwitchState.REDUCE_ONLY and command.order_side is not OrderSide.SELL_SHORT
    return frozenset({Need.EXPOSURE}) if reduces else NOTHING


def _judge(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    assert isinstance(rule.parameters, Switch)
    state = rule.parameters.status
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
    summary="Set by the switch of a scope. HALTED refuses everything but a CANCEL and less risk, REDUCE_ONLY also lets "
    "orders pass that only reduce a position.",
    shape=Shape(Switch, {"status": choice(SwitchState), "cancel_working": FLAG}),
    counts=True,
    judge=_judge,
    needs=_needs,
    settable=False,
    tightens=_compare,
)
SYMBOL_SWITCHES: Final = ControlKind(
    code=SYMBOL_DISABLED,
    summary="Set by the control of a symbol. Refuses orders of the symbol while it is disabled.",
    shape=Shape(ManualControl, {"manually_disabled": FLAG, "manual_reason": _REASON}),
    judge=_judge_manual,
    scopes=frozenset({Scope.SYMBOL}),
    settable=False,
)

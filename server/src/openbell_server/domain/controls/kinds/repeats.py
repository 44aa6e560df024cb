"""Limits on duplicate and too frequent commands; they count requests, so they apply only at the accept gate."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Final

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.facts import CommandFacts, Facts, Gate, Need
from openbell_server.domain.controls.findings import Comparison, Finding, LazyFinding, Mode, RuleResult
from openbell_server.domain.controls.kind import NOTHING, ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.kinds.numbers import count_since
from openbell_server.domain.controls.kinds.times import utc_text
from openbell_server.domain.controls.parameters import FLAG, Shape, whole
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, higher, lower, ranked
from openbell_server.domain.orders.intents import ActionType

DUPLICATE_MILLIS: Final = 1_000
DUPLICATE_MILLIS_MAX: Final = 60_000
RATE_COUNT_MAX: Final = 1_000
RATE_MILLIS_MAX: Final = 3_600_000
_ACCEPT: Final = frozenset({Gate.ACCEPT})
_DUPLICATES: Final = frozenset({Need.DUPLICATES})
_RATE: Final = frozenset({Need.RATE})


@dataclass(frozen=True, slots=True)
class Window:
    """How long an equal order counts as a duplicate, and whether "allow_duplicate" of a command switches that off."""

    window_millis: int = DUPLICATE_MILLIS
    # None: on paper accounts only.
    callers_may_override: bool | None = None

    def permits_override(self, environment: Environment) -> bool:
        if self.callers_may_override is None:
            return environment is Environment.PAPER
        return self.callers_may_override


@dataclass(frozen=True, slots=True)
class SubmitRate:
    count: int
    window_millis: int


def without_forbidden_override(rules: Iterable[Rule], command: CommandFacts) -> CommandFacts:
    """The command without its "allow_duplicate", unless all duplicate rules among these that refuse permit it."""
    if not command.allow_duplicate:
        return command
    windows = (rule.parameters for rule in rules if isinstance(rule.parameters, Window) and rule.mode is Mode.HARD)
    permitted = all(window.permits_override(command.environment) for window in windows)
    return command if permitted else replace(command, allow_duplicate=False)


def _may_be_duplicate(window: Window, command: CommandFacts) -> bool:
    overridden = command.allow_duplicate and window.permits_override(command.environment)
    return command.action_type is ActionType.CREATE and not overridden


def _duplicate_needs(window: Window, command: CommandFacts) -> frozenset[Need]:
    return _DUPLICATES if _may_be_duplicate(window, command) else NOTHING


def _judge_duplicate(rule: Rule, command: CommandFacts, facts: Facts) -> RuleResult | None:
    assert isinstance(rule.parameters, Window)
    if not _may_be_duplicate(rule.parameters, command):
        return None
    window, may_override = rule.parameters.window_millis, rule.parameters.permits_override(command.environment)
    if facts.equal_orders is None:
        return unavailable(rule, command, Comparison.AT_MOST, 0, "the list of equal orders")
    equal = facts.equal_orders
    observed = count_since(equal, facts.now, window)

    def finding() -> Finding:
        inputs, again = {"window_millis": str(window), "callers_may_override": str(may_override).lower()}, ""
        override = ', one with "allow_duplicate": true' if may_override else ""
        if equal:
            inputs["newest_equal_order_at"] = utc_text(equal[0])
            again = f", or the same one from {utc_text(equal[0] + timedelta(milliseconds=window))} on"
        return found(
            rule,
            Comparison.AT_MOST,
            0,
            observed,
            passes=observed == 0,
            would_pass=f"an order that differs{override}{again}",
            inputs=inputs,
        )

    return LazyFinding(observed == 0, finding)


def _judge_rate(rule: Rule, command: CommandFacts, facts: Facts) -> RuleResult:
    assert isinstance(rule.parameters, SubmitRate)
    limit, window = rule.parameters.count, rule.parameters.window_millis
    judged = facts.judged.get((rule.scope, rule.subject))
    if judged is None:
        return unavailable(rule, command, Comparison.AT_MOST, limit, "the count of earlier commands")
    observed = count_since(judged, facts.now, window) + 1

    def would_pass() -> str:
        # The time at which the oldest command that counts leaves the window.
        free_at = judged[limit - 1] + timedelta(milliseconds=window)
        return f"from {utc_text(free_at)} on, if no other is judged until then"

    def finding() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            limit,
            observed,
            passes=observed <= limit,
            would_pass=would_pass,
            headroom=Decimal(limit - observed),
            inputs={"window_millis": str(window)},
        )

    return LazyFinding(observed <= limit, finding)


DUPLICATE: Final = ControlKind(
    code="DUPLICATE",
    summary="Refuses a CREATE that is equal to another one of the account within the window.",
    shape=Shape(Window, {"window_millis": whole(1, DUPLICATE_MILLIS_MAX), "callers_may_override": FLAG}),
    unit=Unit.MILLIS,
    counts=True,
    judge=_judge_duplicate,
    needs=_duplicate_needs,
    gates=_ACCEPT,
    tightens=by_parameter(window_millis=higher, callers_may_override=ranked(True, None, False)),
)
RATE_ORDERS: Final = ControlKind(
    code="RATE_ORDERS",
    summary="Refuses a CREATE or REPLACE after that many in the sliding window, refused ones included.",
    shape=Shape(SubmitRate, {"count": whole(1, RATE_COUNT_MAX), "window_millis": whole(1, RATE_MILLIS_MAX)}),
    unit=Unit.COMMANDS,
    counts=True,
    judge=_judge_rate,
    needs=lambda _parameters, _command: _RATE,
    gates=_ACCEPT,
    tightens=by_parameter(count=lower, window_millis=higher),
)

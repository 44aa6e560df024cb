"""Limits on an order's whole quantity, fills included; the limits themselves pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from openbell_server.domain.controls.facts import CommandFacts, Facts
from openbell_server.domain.controls.findings import Comparison, Finding, LazyFinding
from openbell_server.domain.controls.kind import ControlKind, found
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, higher, lower
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.orders.intents import plain
from openbell_server.domain.orders.order_terms import EXACT, exact_decimal


@dataclass(frozen=True, slots=True)
class Quantity:
    quantity: Decimal


def _decode(parameters: Mapping[str, Any]) -> Quantity:
    if set(parameters) != {"quantity"} or not isinstance(parameters["quantity"], str):
        raise InvalidCommand("/parameters", 'must be {"quantity": "…"}, a decimal string')
    return Quantity(exact_decimal(parameters["quantity"], "/parameters/quantity"))


def _judge_max(rule: Rule, command: CommandFacts, _: Facts) -> LazyFinding:
    assert isinstance(rule.parameters, Quantity)
    limit, observed = rule.parameters.quantity, command.terms.quantity
    passes = observed <= limit

    def finding() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            plain(limit),
            plain(observed),
            passes=passes,
            would_pass=f"a quantity of at most {plain(limit)}",
            headroom=EXACT.subtract(limit, observed),
        )

    return LazyFinding(passes, finding)


def _judge_min(rule: Rule, command: CommandFacts, _: Facts) -> LazyFinding:
    assert isinstance(rule.parameters, Quantity)
    limit, observed = rule.parameters.quantity, command.terms.quantity
    passes = observed >= limit

    def finding() -> Finding:
        return found(
            rule,
            Comparison.AT_LEAST,
            plain(limit),
            plain(observed),
            passes=passes,
            would_pass=f"a quantity of at least {plain(limit)}",
        )

    return LazyFinding(passes, finding)


QTY_MAX: Final = ControlKind(code="QTY_MAX", decode=_decode, judge=_judge_max, tightens=by_parameter(quantity=lower))
QTY_MIN: Final = ControlKind(code="QTY_MIN", decode=_decode, judge=_judge_min, tightens=by_parameter(quantity=higher))

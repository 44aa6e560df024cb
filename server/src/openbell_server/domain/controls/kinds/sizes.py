"""Limits on an order's whole quantity, fills included; the limits themselves pass."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Facts
from openbell_server.domain.controls.findings import Comparison, Finding, LazyFinding
from openbell_server.domain.controls.kind import ControlKind, Unit, found
from openbell_server.domain.controls.parameters import DECIMAL, Shape
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, higher, lower
from openbell_server.domain.orders.intents import plain
from openbell_server.domain.orders.order_terms import EXACT


@dataclass(frozen=True, slots=True)
class Quantity:
    quantity: Decimal


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


_SHAPE: Final = Shape(Quantity, {"quantity": DECIMAL})
QTY_MAX: Final = ControlKind(
    code="QTY_MAX",
    summary="Refuses an order of a larger quantity.",
    shape=_SHAPE,
    unit=Unit.UNITS,
    judge=_judge_max,
    tightens=by_parameter(quantity=lower),
)
QTY_MIN: Final = ControlKind(
    code="QTY_MIN",
    summary="Refuses an order of a smaller quantity.",
    shape=_SHAPE,
    unit=Unit.UNITS,
    judge=_judge_min,
    tightens=by_parameter(quantity=higher),
)

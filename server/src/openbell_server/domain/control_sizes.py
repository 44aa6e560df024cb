"""Controls of an order's size: the whole quantity, not what is left of it. Limits are inside."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from openbell_server.domain.control_facts import Asked, Facts
from openbell_server.domain.control_kinds import ControlKind, found
from openbell_server.domain.control_rules import Rule
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.findings import Comparison, Finding, Unsaid
from openbell_server.domain.intents import plain
from openbell_server.domain.orders import EXACT, exact_decimal


@dataclass(frozen=True, slots=True)
class Quantity:
    """A limit of quantities."""

    quantity: Decimal


def _decode(parameters: Mapping[str, Any]) -> Quantity:
    if set(parameters) != {"quantity"} or not isinstance(parameters["quantity"], str):
        raise InvalidCommand("/parameters", 'must be {"quantity": "…"}, a decimal string')
    return Quantity(exact_decimal(parameters["quantity"], "/parameters/quantity"))


def _judge_max(rule: Rule, asked: Asked, _: Facts) -> Unsaid:
    assert isinstance(rule.parameters, Quantity)
    limit, observed = rule.parameters.quantity, asked.terms.quantity
    passes = observed <= limit

    def tell() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            plain(limit),
            plain(observed),
            passes=passes,
            would_pass=f"a quantity of at most {plain(limit)}",
            headroom=EXACT.subtract(limit, observed),
        )

    return Unsaid(passes, tell)


def _judge_min(rule: Rule, asked: Asked, _: Facts) -> Unsaid:
    assert isinstance(rule.parameters, Quantity)
    limit, observed = rule.parameters.quantity, asked.terms.quantity
    passes = observed >= limit

    def tell() -> Finding:
        return found(
            rule,
            Comparison.AT_LEAST,
            plain(limit),
            plain(observed),
            passes=passes,
            would_pass=f"a quantity of at least {plain(limit)}",
        )

    return Unsaid(passes, tell)


QTY_MAX: Final = ControlKind(code="QTY_MAX", decode=_decode, judge=_judge_max)
QTY_MIN: Final = ControlKind(code="QTY_MIN", decode=_decode, judge=_judge_min)

"""Refuse what a broker does not support before rules are evaluated, or list the same checks in a receipt."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Final

from openbell_server.application.ports.broker import BrokerDefinition, ReplaceSupport
from openbell_server.domain.controls.findings import Comparison, Finding, Scope, Verdict
from openbell_server.domain.errors import FieldProblem, Problem
from openbell_server.domain.orders.intents import ActionType, CancelIntent, Command, CreateIntent, ReplaceIntent, plain
from openbell_server.domain.orders.order_terms import EXACT, OrderSpec, ReplacementSpec

CAPABILITY: Final = "CAPABILITY"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """One capability that a command needs; texts are built on demand, since most commands pass."""

    what: str
    comparison: Comparison = Comparison.ONE_OF
    # The values that the broker supports.
    limit: Callable[[], str | list[str]]
    observed: str
    passes: bool
    # The error for the caller.
    refusal: Callable[[], Problem]


def require_capability(broker: BrokerDefinition, command: Command) -> None:
    """Raises the Problem of the first check that fails."""
    for check in _checks(broker, command):
        if not check.passes:
            raise check.refusal()


def capability_findings(broker: BrokerDefinition, command: Command) -> list[Finding]:
    """Every capability that the command needs, each with its verdict."""
    return [
        Finding(
            code=CAPABILITY,
            scope=Scope.PLATFORM,
            verdict=Verdict.PASSED if check.passes else Verdict.REFUSED,
            comparison=check.comparison,
            limit=check.limit(),
            observed=check.observed,
            control_version=None,
            would_pass=None if check.passes else _would_pass(check),
            inputs={"broker": broker.name, "judged": check.what},
        )
        for check in _checks(broker, command)
    ]


def _would_pass(check: _Check) -> str:
    limit = check.limit()
    if isinstance(limit, str):
        return f"a {check.what} that is a multiple of {limit}"
    return f"one of {', '.join(limit)} as {check.what}" if limit else f"no {check.what} passes here"


def _checks(broker: BrokerDefinition, command: Command) -> Iterator[_Check]:
    if isinstance(command, CancelIntent):
        return
    allowed = broker.capabilities
    if isinstance(command, ReplaceIntent):
        can_replace = allowed.replace is not ReplaceSupport.NONE
        yield _Check(
            what="command",
            limit=lambda: [str(kind) for kind in ActionType if can_replace or kind is not ActionType.REPLACE],
            observed=ActionType.REPLACE,
            passes=can_replace,
            refusal=lambda: Problem("replace_not_supported", f"{broker.name} cannot replace an order"),
        )
    route = command.route_strategy if isinstance(command, CreateIntent) else None
    for what, value, values in (
        ("order kind", command.spec.order_type, allowed.order_types),
        ("time in force", command.spec.time_in_force, allowed.times_in_force),
        ("route strategy", route, allowed.route_strategies),
    ):
        # A REPLACE without a value keeps that of the order.
        if value is not None:
            yield _Check(
                what=what,
                limit=partial(_names, values),
                observed=value,
                passes=value in values,
                refusal=partial(_unsupported, broker.name, what, value),
            )
    yield _decimals(broker, command.spec)


def _names(values: Iterable[str]) -> list[str]:
    return sorted(str(each) for each in values)


def _unsupported(broker: str, what: str, value: str) -> Problem:
    return Problem("not_supported", f"{broker} does not support the {what} {value}")


def _decimals(broker: BrokerDefinition, spec: OrderSpec | ReplacementSpec) -> _Check:
    # The broker would round such a quantity, or reject it after it was sent.
    decimals = broker.capabilities.quantity_decimals

    def refusal() -> Problem:
        kind = spec.order_type.title().replace("_", "")
        rule = f"must have at most {decimals} digits after the point" if decimals else "must be a whole number"
        place = f"/command/payload/spec/{kind}/quantity"
        return Problem(
            "not_supported", f"quantity {rule} at {broker.name}", (FieldProblem(place, "not_supported", rule),)
        )

    return _Check(
        what="quantity",
        comparison=Comparison.MULTIPLE_OF,
        limit=lambda: format(Decimal(1).scaleb(-decimals), "f"),
        observed=str(plain(spec.quantity)),
        passes=not EXACT.remainder(EXACT.scaleb(spec.quantity, decimals), Decimal(1)),
        refusal=refusal,
    )

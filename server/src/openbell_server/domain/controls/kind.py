"""A kind of control: its parameters, the facts it needs, where it may be set, and how it evaluates a command."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.facts import CommandFacts, Facts, Gate, Need
from openbell_server.domain.controls.findings import Comparison, Finding, Mode, RuleResult, Scope, Value, Verdict
from openbell_server.domain.controls.parameters import Shape
from openbell_server.domain.controls.rules import OnMissing, Rule
from openbell_server.domain.controls.strictness import CompareParameters

NOTHING: Final[frozenset[Need]] = frozenset()
EVERY_SCOPE: Final = frozenset(Scope)
BOTH_GATES: Final = frozenset(Gate)


class Unit(StrEnum):
    """What a limit is measured in."""

    # Of the symbol: shares, contracts or coins.
    UNITS = "UNITS"
    PRICE = "PRICE"
    # Money in the currency that the rule names.
    VALUE = "VALUE"
    PERCENT = "PERCENT"
    MILLIS = "MILLIS"
    ORDERS = "ORDERS"
    COMMANDS = "COMMANDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlKind:
    """One row of the catalogue; P stands for the kind's own type of parameters."""

    code: str
    # What it refuses, as a sentence.
    summary: str
    # The parameters as JSON; decodes them into P.
    shape: Shape
    # Raises InvalidCommand if parameters P cannot be set together.
    check: Callable[[Any], None] = lambda _parameters: None
    # What its limit is measured in; None if that is not a number.
    unit: Unit | None = None
    # Whether it counts orders, positions or commands under the account's lock.
    counts: bool = False
    # The rule's parameters are P. None: the rule does not apply to the command.
    judge: Callable[[Rule, CommandFacts, Facts], RuleResult | None]
    # From P and the command.
    needs: Callable[[Any, CommandFacts], frozenset[Need]] = lambda _parameters, _command: NOTHING
    gates: frozenset[Gate] = BOTH_GATES
    scopes: frozenset[Scope] = EVERY_SCOPE
    # Where parameters P may be set, if that is not every one of `scopes`.
    scopes_of: Callable[[Any], frozenset[Scope]] | None = None
    # Which direction each parameter tightens. None: any change of the parameters loosens.
    tightens: CompareParameters | None = None
    # Whether a rule with P replaces a stricter default of the platform, which applies where nobody set a rule.
    replaces_default: Callable[[Any, Environment], bool] = lambda _parameters, _environment: False
    # Whether it is set as a rule; other kinds have their own endpoint.
    settable: bool = True

    def decode(self, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of type P
        """Raises InvalidCommand."""
        decoded = self.shape.decode(parameters)
        self.check(decoded)
        return decoded


def found(
    rule: Rule,
    comparison: Comparison,
    limit: Value,
    observed: Value,
    *,
    passes: bool,
    would_pass: str | Callable[[], str],
    headroom: Decimal | None = None,
    inputs: Mapping[str, str] | None = None,
    code: str | None = None,
) -> Finding:
    """The finding of a rule; `would_pass` is built only if the command does not pass."""
    hint = None
    if not passes:
        hint = would_pass if isinstance(would_pass, str) else would_pass()
    refusal = Verdict.REFUSED if rule.mode is Mode.HARD else Verdict.WOULD_REFUSE
    return Finding(
        code=code or rule.code,
        scope=rule.scope,
        mode=rule.mode,
        verdict=Verdict.PASSED if passes else refusal,
        comparison=comparison,
        limit=limit,
        observed=observed,
        control_version=rule.version,
        would_pass=hint,
        headroom=None if headroom is None else format(headroom, "f"),
        inputs=inputs or {},
    )


def unavailable(
    rule: Rule,
    command: CommandFacts,
    comparison: Comparison,
    limit: Value,
    missing: str,
    *,
    code: str | None = None,
    denies: bool | None = None,
) -> Finding:
    """The finding without a needed input: by default it refuses on a live account and passes on paper."""
    if denies is not None:
        allows = not denies
    elif rule.on_missing is not None:
        allows = rule.on_missing is OnMissing.ALLOW
    else:
        allows = command.environment is Environment.PAPER
    without = found(rule, comparison, limit, None, passes=allows, would_pass=f"once there is {missing}", code=code)
    return replace(without, missing=missing)

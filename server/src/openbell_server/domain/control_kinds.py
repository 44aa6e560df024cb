"""What a kind of control is: its parameters, what it must know, where it may be set, and how it judges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from openbell_server.domain.accounts import Environment
from openbell_server.domain.control_facts import Asked, Facts, Gate, Need
from openbell_server.domain.control_rules import OnMissing, Rule
from openbell_server.domain.findings import Comparison, Finding, Mode, Scope, Value, Verdict, Word

NOTHING: Final[frozenset[Need]] = frozenset()
EVERY_SCOPE: Final = frozenset(Scope)
BOTH_GATES: Final = frozenset(Gate)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlKind:
    """One row of the catalogue; P stands for the kind's own type of parameters."""

    code: str
    # Makes P of JSON, or refuses it with InvalidCommand.
    decode: Callable[[Mapping[str, Any]], Any]
    # Of the rule, whose parameters are P. None: the rule does not speak about such a command.
    judge: Callable[[Rule, Asked, Facts], Word | None]
    # Of P and the command.
    needs: Callable[[Any, Asked], frozenset[Need]] = lambda _parameters, _asked: NOTHING
    gates: frozenset[Gate] = BOTH_GATES
    scopes: frozenset[Scope] = EVERY_SCOPE
    # Of P: where such parameters may be set, if that is not everywhere among those.
    scopes_of: Callable[[Any], frozenset[Scope]] | None = None
    # Whether it is set as a rule; others have an address of their own.
    settable: bool = True


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
    """What a rule says; a rule in shadow mode only says what it would do. Words are made where it does not pass."""
    words = None
    if not passes:
        words = would_pass if isinstance(would_pass, str) else would_pass()
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
        would_pass=words,
        headroom=None if headroom is None else format(headroom, "f"),
        inputs=inputs or {},
    )


def unavailable(
    rule: Rule,
    asked: Asked,
    comparison: Comparison,
    limit: Value,
    missing: str,
    *,
    code: str | None = None,
    denies: bool | None = None,
) -> Finding:
    """What a rule says without an input that it needs: by default no on a live account, yes on paper."""
    if denies is not None:
        allows = not denies
    elif rule.on_missing is not None:
        allows = rule.on_missing is OnMissing.ALLOW
    else:
        allows = asked.environment is Environment.PAPER
    refusal = Verdict.REFUSED if rule.mode is Mode.HARD else Verdict.WOULD_REFUSE
    return Finding(
        code=code or rule.code,
        scope=rule.scope,
        mode=rule.mode,
        verdict=Verdict.PASSED if allows else refusal,
        comparison=comparison,
        limit=limit,
        observed=None,
        control_version=rule.version,
        would_pass=None if allows else f"once there is {missing}",
        missing=missing,
    )

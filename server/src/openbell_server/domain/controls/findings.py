"""The result of one rule for one command: a line of its receipt, from which the comparison can be repeated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Scope(StrEnum):
    """Where a rule is set, from widest to narrowest. All rules that apply are evaluated, so the strictest wins."""

    PLATFORM = "PLATFORM"
    ORGANIZATION = "ORGANIZATION"
    ACCOUNT = "ACCOUNT"
    # One symbol of one account.
    SYMBOL = "SYMBOL"
    # One API key.
    KEY = "KEY"


class Mode(StrEnum):
    """Whether a rule refuses commands."""

    HARD = "HARD"
    # Only records in the receipt that it would refuse.
    SHADOW = "SHADOW"


class Verdict(StrEnum):
    """The decision of a rule, or of all rules together."""

    PASSED = "PASSED"
    REFUSED = "REFUSED"
    # A rule in shadow mode, or on a paper account whose organization only watches its rules.
    WOULD_REFUSE = "WOULD_REFUSE"
    # The reason of a cancel by the platform itself.
    EXCEEDED = "EXCEEDED"


class Comparison(StrEnum):
    """How the observed value is compared with the limit; both are in the receipt."""

    EQUALS = "EQUALS"
    AT_MOST = "AT_MOST"
    AT_LEAST = "AT_LEAST"
    MULTIPLE_OF = "MULTIPLE_OF"
    # The limit is a list.
    ONE_OF = "ONE_OF"
    NONE_OF = "NONE_OF"
    # The limit is a list of pairs [from, to): the start is inclusive, the end exclusive.
    WITHIN = "WITHIN"


Value = str | int | list[str] | list[list[str]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    code: str
    scope: Scope
    mode: Mode = Mode.HARD
    verdict: Verdict
    comparison: Comparison
    limit: Value
    # None where an input was missing.
    observed: Value
    control_version: int | None
    # A sentence on what would pass; None where the command passes.
    would_pass: str | None = None
    # How much more would pass, for numeric limits.
    headroom: str | None = None
    # The missing input; the rule's on_missing decided.
    missing: str | None = None
    # The inputs of the observed value, each with its time if it has one.
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_clear(self) -> bool:
        """Whether the command passes with all inputs known."""
        return self.verdict is Verdict.PASSED and self.missing is None

    def finding(self) -> "Finding":
        return self

    @property
    def refuses(self) -> bool:
        return self.verdict is Verdict.REFUSED

    @property
    def reason(self) -> str:
        """The reason code of a refusal; a missing input has its own code."""
        return CONTROL_INPUT_UNAVAILABLE if self.missing is not None else self.code


class RuleResult(Protocol):
    """A rule's result: whether the command clearly passes, and the finding for the receipt."""

    @property
    def is_clear(self) -> bool: ...

    def finding(self) -> Finding:
        """Must be called before the counted facts change."""


@dataclass(frozen=True, slots=True)
class LazyFinding:
    """The result of a counting rule; its finding is built only if needed."""

    is_clear: bool
    finding: Callable[[], Finding]


CONTROL_INPUT_UNAVAILABLE = "CONTROL_INPUT_UNAVAILABLE"

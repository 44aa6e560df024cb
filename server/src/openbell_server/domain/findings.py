"""What one rule says of one command: a line of its receipt, from which anybody can repeat the comparison."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Scope(StrEnum):
    """Where a rule is set. All that apply are evaluated, so the strictest wins; from the widest to the narrowest."""

    PLATFORM = "platform"
    ORGANIZATION = "organization"
    ACCOUNT = "account"
    # One symbol of one account.
    SYMBOL = "symbol"
    # One API key.
    KEY = "key"


class Mode(StrEnum):
    """What a rule does that would refuse."""

    HARD = "hard"
    # Only says so in the receipt.
    SHADOW = "shadow"


class Verdict(StrEnum):
    """What a rule says, and what all of them together say."""

    PASSED = "PASSED"
    REFUSED = "REFUSED"
    # A rule in shadow mode, or one of a paper account whose organization only watches them.
    WOULD_REFUSE = "WOULD_REFUSE"
    # Why the platform asks for a cancel by itself.
    EXCEEDED = "EXCEEDED"


class Comparison(StrEnum):
    """How what was observed is held against the limit; both are in the receipt."""

    EQUALS = "equals"
    AT_MOST = "at_most"
    AT_LEAST = "at_least"
    MULTIPLE_OF = "multiple_of"
    # The limit is a list.
    ONE_OF = "one_of"
    NONE_OF = "none_of"
    # The limit is a list of pairs [from, to): the start is inside, the end is not.
    WITHIN = "within"


Value = str | int | list[str] | list[list[str]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule, its limit, what was observed, and the verdict."""

    code: str
    scope: Scope
    mode: Mode = Mode.HARD
    verdict: Verdict
    comparison: Comparison
    limit: Value
    # None where an input was missing.
    observed: Value
    control_version: int | None
    # What it would take to pass, in words; None where it passes.
    would_pass: str | None = None
    # How much more would pass, where that is a number.
    headroom: str | None = None
    # What could not be known; the rule's on_missing decided.
    missing: str | None = None
    # What the observed value was made of, each with its time where it has one.
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_clear(self) -> bool:
        """Whether the command passes, and nothing was missing to say so."""
        return self.verdict is Verdict.PASSED and self.missing is None

    def tell(self) -> "Finding":
        """It is told already."""
        return self

    @property
    def refuses(self) -> bool:
        """Whether the command must not pass."""
        return self.verdict is Verdict.REFUSED

    @property
    def reason(self) -> str:
        """What a refusal is called: an input that is not there is a reason of its own."""
        return CONTROL_INPUT_UNAVAILABLE if self.missing is not None else self.code


class Word(Protocol):
    """A rule's word on a command: whether it clearly passes, and the finding for whoever reads it."""

    @property
    def is_clear(self) -> bool:
        """Whether the command passes, and nothing was missing to say so."""

    def tell(self) -> Finding:
        """The finding; it must be asked for before what was counted changes."""


@dataclass(frozen=True, slots=True)
class Unsaid:
    """A word of a rule that counts: the numbers of its finding are written only where somebody reads them."""

    is_clear: bool
    tell: Callable[[], Finding]


CONTROL_INPUT_UNAVAILABLE = "CONTROL_INPUT_UNAVAILABLE"

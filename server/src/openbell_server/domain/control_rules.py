"""Rules as they are set: a code, where it applies, what it does, and parameters of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from openbell_server.domain.findings import Mode, Scope
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol

# Whose rules those of the whole platform are; no organization has this id.
PLATFORM_ID: Final = OrganizationId(UUID(int=0))
# The switch of a scope is kept like a rule, under this code; people know it by its states.
SWITCH: Final = "SWITCH"


class OnMissing(StrEnum):
    """What becomes of a command that a rule cannot judge, because an input is missing."""

    DENY = "deny"
    ALLOW = "allow"


class SwitchState(StrEnum):
    """What a scope lets pass; the strictest of all scopes wins."""

    ACTIVE = "ACTIVE"
    REDUCE_ONLY = "REDUCE_ONLY"
    HALTED = "HALTED"


class ControlChange(StrEnum):
    """What became of a control, as the account's log has it."""

    CREATED = "CREATED"
    CHANGED = "CHANGED"
    REMOVED = "REMOVED"
    # It was only for a time, which is over.
    EXPIRED = "EXPIRED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a rule is set: of which organization, at which scope, and of whom there."""

    organization_id: OrganizationId
    scope: Scope
    account_id: AccountId | None = None
    symbol: Symbol | None = None
    key_id: str | None = None

    @property
    def subject(self) -> str:
        """Of whom, as one text; empty for an organization and for the platform."""
        return " ".join(str(part) for part in (self.account_id, self.symbol, self.key_id) if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTerms:
    """What a rule does, by parameters that its code defines."""

    mode: Mode = Mode.HARD
    # None: deny on live accounts, allow on paper.
    on_missing: OnMissing | None = None
    # As JSON has them, checked by the code's own type when they were set.
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Other terms for a time; when it ends, those of before apply by themselves."""

    terms: RuleTerms
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """A rule as it is kept: its terms, other terms for a time, or only those."""

    address: Address
    code: str
    terms: RuleTerms | None
    override: Override | None
    version: int
    reason: str | None
    created_at: datetime
    updated_at: datetime
    # Who set it last: a type and an id.
    principal: tuple[str, str]

    def in_force(self, now: datetime) -> RuleTerms | None:
        """The terms that apply now; None if none do."""
        if self.override is not None and now < self.override.expires_at:
            return self.override.terms
        return self.terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule as it is evaluated for the commands of one account."""

    code: str
    scope: Scope
    # Whom it is about at its scope, as Address.subject has it.
    subject: str
    # Only commands of this symbol or by this key; None: all.
    symbol: Symbol | None
    key_id: str | None
    # Of the code's own type (domain/controls_catalogue.py).
    parameters: object
    mode: Mode
    on_missing: OnMissing | None
    # None: no one set it, the platform has it by default.
    version: int | None
    # Applies at and after the first, and before the second.
    applies_from: datetime | None = None
    applies_until: datetime | None = None

    def speaks_about(self, symbol: Symbol, key_id: str | None) -> bool:
        """Whether it speaks about such a command while it is in force."""
        return (self.symbol is None or self.symbol == symbol) and (self.key_id is None or self.key_id == key_id)

    def is_in_force(self, now: datetime) -> bool:
        """Whether it applies at this time."""
        return (self.applies_from is None or self.applies_from <= now) and (
            self.applies_until is None or now < self.applies_until
        )

    def applies(self, symbol: Symbol, key_id: str | None, now: datetime) -> bool:
        """Whether it speaks about such a command now."""
        return self.speaks_about(symbol, key_id) and self.is_in_force(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook:
    """Every rule that can speak about a command of one account, at one pair of epochs."""

    organization_epoch: int
    account_epoch: int
    rules: Sequence[Rule]
    # Those that this version cannot read: what they speak about passes no gate.
    unreadable: Sequence[Rule] = ()
    # Whether a refusal is only said and not enforced: a paper account of an organization that wants it so.
    is_watched_only: bool = False

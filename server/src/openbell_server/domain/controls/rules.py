"""Rules as they are stored and evaluated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol

# Owner of the platform's rules; no organization has this id.
PLATFORM_ID: Final = OrganizationId(UUID(int=0))
# A scope's switch is stored like a rule under this code; receipts name it by its state.
SWITCH: Final = "SWITCH"


class OnMissing(StrEnum):
    """The decision of a rule when an input is missing."""

    DENY = "DENY"
    ALLOW = "ALLOW"


class SwitchState(StrEnum):
    """What a scope allows; the strictest of all scopes wins."""

    ACTIVE = "ACTIVE"
    REDUCE_ONLY = "REDUCE_ONLY"
    HALTED = "HALTED"


class ControlChange(StrEnum):
    """What happened to a control, as the account's log shows it."""

    CREATED = "CREATED"
    CHANGED = "CHANGED"
    REMOVED = "REMOVED"
    # It had an expiry, which has passed.
    EXPIRED = "EXPIRED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    organization_id: OrganizationId
    scope: Scope
    account_id: AccountId | None = None
    symbol: Symbol | None = None
    api_key_id: str | None = None

    @property
    def subject(self) -> str:
        """Account, symbol and key as one text; empty for an organization and for the platform."""
        return " ".join(str(part) for part in (self.account_id, self.symbol, self.api_key_id) if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTerms:
    mode: Mode = Mode.HARD
    # None: deny on live accounts, allow on paper.
    on_missing: OnMissing | None = None
    # As JSON, validated by the control kind when they were set.
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Temporary terms; when they expire, the rule's own terms apply again."""

    terms: RuleTerms
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """A rule as stored: its terms, temporary terms, or both."""

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
        """The terms that apply now, or None."""
        if self.override is not None and now < self.override.expires_at:
            return self.override.terms
        return self.terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who set a rule, when and why."""

    # A type and an id.
    principal: tuple[str, str]
    reason: str | None
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    code: str
    scope: Scope
    # As Address.subject.
    subject: str
    # Applies to commands of this symbol or by this key; None: to all.
    symbol: Symbol | None
    api_key_id: str | None
    # Of the kind's own type (domain/controls/catalogue.py).
    parameters: object
    mode: Mode
    on_missing: OnMissing | None
    # None: a default of the platform that nobody set.
    version: int | None
    # The start is inclusive, the end exclusive.
    applies_from: datetime | None = None
    applies_until: datetime | None = None
    # None for defaults of the platform and for controls of symbols.
    origin: Origin | None = field(default=None, compare=False)

    def matches(self, symbol: Symbol, api_key_id: str | None) -> bool:
        """Whether the rule applies to such a command while it is in force."""
        return (self.symbol is None or self.symbol == symbol) and (
            self.api_key_id is None or self.api_key_id == api_key_id
        )

    def is_in_force(self, now: datetime) -> bool:
        return (self.applies_from is None or self.applies_from <= now) and (
            self.applies_until is None or now < self.applies_until
        )

    def applies(self, symbol: Symbol, api_key_id: str | None, now: datetime) -> bool:
        return self.matches(symbol, api_key_id) and self.is_in_force(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook:
    """Every rule that can apply to a command of one account, at one pair of epochs."""

    organization_epoch: int
    account_epoch: int
    rules: Sequence[Rule]
    # Rules that this version cannot read: commands that they match are refused.
    unreadable: Sequence[Rule] = ()
    # Whether refusals are recorded but not enforced: on a paper account of an organization that chose so.
    is_watched_only: bool = False

"""Rules and switches as the platform answers them."""

from datetime import datetime
from typing import Any

from openbell.models import Record


class RuleAddress(Record, frozen=True, kw_only=True):
    """Where a rule is set: on the organization, an account, a symbol on it, or an API key."""

    organization_id: str
    scope: str
    account_id: str | None = None
    symbol: str | None = None
    api_key_id: str | None = None

    def __str__(self) -> str:
        """In words."""
        named = (self.account_id, self.symbol, self.api_key_id)
        return " ".join((self.scope, *(name for name in named if name is not None)))


class RuleTerms(Record, frozen=True, kw_only=True):
    """What a rule does; terms for a time say when they end."""

    mode: str
    parameters: dict[str, Any]
    on_missing: str | None = None
    expires_at: datetime | None = None


class Rule(Record, frozen=True, kw_only=True):
    """A rule: terms for good, terms for a time, and which of them are in force."""

    code: str
    address: RuleAddress
    in_force: RuleTerms
    version: int
    created_at: datetime
    updated_at: datetime
    principal_type: str
    principal_id: str
    terms: RuleTerms | None = None
    override: RuleTerms | None = None
    reason: str | None = None


class RuleList(Record, frozen=True, kw_only=True):
    """Every rule at one address."""

    data: tuple[Rule, ...]


class RuleChange(Record, frozen=True, kw_only=True):
    """One change of a rule: without one before it was not there, without one after it was removed."""

    code: str
    version: int
    changed_at: datetime
    principal_type: str
    principal_id: str
    before: Rule | None = None
    after: Rule | None = None
    reason: str | None = None


class RuleChangePage(Record, frozen=True, kw_only=True):
    """A page of changes, the newest first."""

    data: tuple[RuleChange, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class Switch(Record, frozen=True, kw_only=True):
    """What a scope lets pass: ACTIVE, REDUCE_ONLY or HALTED; at version 0 nobody ever touched it."""

    address: RuleAddress
    state: str
    cancel_working: bool
    version: int
    reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    principal_type: str | None = None
    principal_id: str | None = None

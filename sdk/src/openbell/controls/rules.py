"""Rules and switches."""

from datetime import datetime
from typing import Any

from openbell.models import Record


class Placed(Record, frozen=True, kw_only=True):
    """What is set on the organization, an account, a symbol on it, or an API key."""

    organization_id: str
    scope: str
    account_id: str | None = None
    symbol: str | None = None
    api_key_id: str | None = None

    @property
    def place(self) -> str:
        """Scope and ids as one text."""
        named = (self.account_id, self.symbol, self.api_key_id)
        return " ".join((self.scope, *(name for name in named if name is not None)))


class RuleTerms(Record, frozen=True, kw_only=True):
    """The terms of a rule; the terms of an override have expires_at."""

    mode: str
    parameters: dict[str, Any]
    on_missing: str | None = None
    expires_at: datetime | None = None


class Rule(Placed, frozen=True, kw_only=True):
    """A rule: its permanent terms, its override, and which of them are in force."""

    code: str
    in_force: RuleTerms
    version: int
    created_at: datetime
    updated_at: datetime
    principal_type: str
    principal_id: str
    terms: RuleTerms | None = None
    override: RuleTerms | None = None
    reason: str | None = None


class RuleChange(Placed, frozen=True, kw_only=True):
    """One change of a rule or switch; before is None if it was not set, after is None if it was removed."""

    code: str
    version: int
    changed_at: datetime
    principal_type: str
    principal_id: str
    before: Rule | None = None
    after: Rule | None = None
    reason: str | None = None


class Switch(Placed, frozen=True, kw_only=True):
    """The state of a scope: ACTIVE, REDUCE_ONLY or HALTED; version 0 means that it was never set."""

    status: str
    cancel_working: bool
    version: int
    reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    principal_type: str | None = None
    principal_id: str | None = None

"""The controls in force at a place, and the kinds of rules."""

from datetime import datetime
from typing import Any

from openbell.models import PageOf, Record, SymbolControl, SymbolTime


class EffectiveRule(Record, frozen=True, kw_only=True):
    """A rule or switch in force; a default of the platform has no version.

    Without parameters the server cannot read it, and it refuses everything.
    """

    scope: str
    code: str
    mode: str
    # No other rule of this code that refuses, and applies wherever this one does, is stricter.
    is_strictest: bool
    account_id: str | None = None
    symbol: str | None = None
    api_key_id: str | None = None
    parameters: dict[str, Any] | None = None
    on_missing: str | None = None
    expires_at: datetime | None = None
    version: int | None = None
    updated_at: datetime | None = None
    principal_type: str | None = None
    # An operator of the platform has no id here.
    principal_id: str | None = None
    reason: str | None = None

    @property
    def place(self) -> str:
        """Scope and symbol or key as one text."""
        return " ".join(filter(None, (self.scope, self.symbol, self.api_key_id)))


class ControlKind(Record, frozen=True, kw_only=True):
    """A kind of rule; `parameters` is a JSON schema."""

    code: str
    summary: str
    parameters: dict[str, Any]
    scopes: tuple[str, ...]
    # When it is evaluated: ACCEPT, DOOR or both.
    gates: tuple[str, ...]
    # Whether it counts orders, positions or commands.
    counts: bool
    # False if it is set by a switch or the control of a symbol.
    settable: bool
    # What its limit is measured in.
    unit: str | None = None


class EffectiveControls(PageOf[EffectiveRule], frozen=True, kw_only=True):
    """The rules and switches in force, the widest scope first, and the controls of the symbol if they were ever set."""

    # Whether refusals are recorded and not enforced on the account.
    watched_only: bool
    symbol_control: SymbolControl | None = None
    symbol_times: SymbolTime | None = None

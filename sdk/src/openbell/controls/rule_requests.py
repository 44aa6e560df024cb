"""Options of the calls about rules, switches and symbols, and the parameters of their scopes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypedDict

from openbell.connection import Connection
from openbell.requests import path_of

Mode = Literal["HARD", "SHADOW"]
OnMissing = Literal["DENY", "ALLOW"]
SwitchStatus = Literal["ACTIVE", "REDUCE_ONLY", "HALTED"]


class RuleScope(TypedDict, total=False):
    """One scope: an account (default: the client's), a symbol on it, an API key by its id, or the organization."""

    account_id: str | None
    symbol: str | None
    api_key_id: str | None
    organization: bool


class RuleOptions(RuleScope, total=False):
    """Options of a rule; with expires_at it is an override that ends then."""

    mode: Mode
    on_missing: OnMissing | None
    expires_at: datetime | None
    if_version: int | None


class RemoveOptions(RuleScope, total=False):
    """Options of a removal."""

    reason: str | None
    if_version: int | None


class SwitchOptions(RuleScope, total=False):
    """Options of a switch; cancel_working also cancels the working orders of the scope."""

    cancel_working: bool
    if_version: int | None


class TimeOptions(TypedDict, total=False):
    """Trading times of a symbol; `clear` names the fields to remove."""

    account_id: str | None
    trading_start: str | None
    trading_end: str | None
    timezone: str | None
    days: Sequence[str] | None
    stale_order_millis: int | None
    max_resting_millis: int | None
    calendar: str | None
    session: str | None
    on_close: str | None
    clear: Sequence[str]


def scope_parameters(connection: Connection, scope: RuleScope) -> dict[str, str]:
    """The query parameters of a scope; raises ValueError if more than one scope is named."""
    account_id, symbol, api_key_id = scope.get("account_id"), scope.get("symbol"), scope.get("api_key_id")
    is_organization = bool(scope.get("organization"))
    if is_organization + bool(api_key_id) + bool(account_id or symbol) > 1:
        raise ValueError("Name one scope: organization, api_key_id, or an account with or without a symbol.")
    if is_organization:
        return {"scope": "ORGANIZATION"}
    if api_key_id:
        return {"scope": "KEY", "api_key_id": api_key_id}
    account = {"account_id": connection.account(account_id)}
    return {"scope": "SYMBOL", **account, "symbol": symbol} if symbol else {"scope": "ACCOUNT", **account}


def symbol_path(connection: Connection, symbol: str, account_id: str | None, *parts: str) -> str:
    return path_of("controls", "accounts", connection.account(account_id), "symbols", symbol, *parts)

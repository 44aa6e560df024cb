"""Requests about rules and switches, which both clients share."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict
from urllib.parse import quote

from openbell.connection import Connection
from openbell.requests import PAGE_LIMIT, Request, change, if_match, page, text_of

Mode = Literal["hard", "shadow"]
OnMissing = Literal["deny", "allow"]
State = Literal["ACTIVE", "REDUCE_ONLY", "HALTED"]


class RuleScope(TypedDict, total=False):
    """Where: an account (the client's own, if none is named), a symbol on it, an API key by its id, or all of it."""

    account_id: str | None
    symbol: str | None
    key_id: str | None
    organization: bool


class RuleOptions(RuleScope, total=False):
    """What a rule may carry; with expires_at it applies only until then, with if_version only onto that version."""

    mode: Mode
    on_missing: OnMissing | None
    expires_at: datetime | None
    if_version: int | None


class RemoveOptions(RuleScope, total=False):
    """What a removal may carry."""

    reason: str | None
    if_version: int | None


class SwitchOptions(RuleScope, total=False):
    """What setting a switch may carry."""

    cancel_working: bool
    if_version: int | None


def rules(connection: Connection, scope: RuleScope) -> Request:
    """Every rule at an address."""
    return Request("GET", f"{_place(connection, scope)}/rules")


def rule(connection: Connection, code: str, scope: RuleScope) -> Request:
    """One rule."""
    return Request("GET", _rule(connection, code, scope))


def set_rule(
    connection: Connection, code: str, parameters: Mapping[str, Any], reason: str, options: RuleOptions
) -> Request:
    """Set a rule."""
    body: dict[str, Any] = {"mode": options.get("mode", "hard"), "parameters": dict(parameters), "reason": reason}
    if on_missing := options.get("on_missing"):
        body["on_missing"] = on_missing
    if expires_at := options.get("expires_at"):
        body["expires_at"] = text_of("expires_at", expires_at)
    return if_match(change("PUT", _rule(connection, code, options), body), options.get("if_version"))


def remove_rule(connection: Connection, code: str, options: RemoveOptions) -> Request:
    """Remove a rule."""
    reason = options.get("reason")
    request = Request("DELETE", _rule(connection, code, options), {} if reason is None else {"reason": reason})
    return if_match(request, options.get("if_version"))


def rule_history(connection: Connection, code: str, scope: RuleScope) -> Request:
    """The first page of a rule's changes."""
    return page(f"{_rule(connection, code, scope)}/history", None, PAGE_LIMIT)


def switch(connection: Connection, scope: RuleScope) -> Request:
    """The switch of a scope."""
    return Request("GET", f"{_place(connection, scope)}/switch")


def set_switch(connection: Connection, state: State, reason: str, options: SwitchOptions) -> Request:
    """Set the switch of a scope."""
    body: dict[str, Any] = {"state": state, "reason": reason}
    if options.get("cancel_working"):
        body["cancel_working"] = True
    return if_match(change("PUT", f"{_place(connection, options)}/switch", body), options.get("if_version"))


def switch_history(connection: Connection, scope: RuleScope) -> Request:
    """The first page of a switch's changes."""
    return page(f"{_place(connection, scope)}/switch/history", None, PAGE_LIMIT)


def _rule(connection: Connection, code: str, scope: RuleScope) -> str:
    return f"{_place(connection, scope)}/rules/{quote(code, safe='')}"


def _place(connection: Connection, scope: RuleScope) -> str:
    account_id, symbol, key_id = scope.get("account_id"), scope.get("symbol"), scope.get("key_id")
    wider = [bool(scope.get("organization")), bool(key_id)]
    if sum(wider) + bool(account_id or symbol) > 1:
        raise ValueError("Name one scope: organization, key_id, or an account with or without a symbol.")
    if wider[0]:
        return "/v1/controls/organization"
    if key_id:
        return f"/v1/controls/keys/{quote(key_id, safe='')}"
    account = f"/v1/controls/accounts/{quote(connection.account(account_id), safe='')}"
    return f"{account}/symbols/{quote(symbol, safe='')}" if symbol else account

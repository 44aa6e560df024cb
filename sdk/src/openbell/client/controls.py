# Generated from openbell/async_client/controls.py by make generate. Do not edit.
"""Calls about rules, switches, symbols, halts and back-tests."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from openbell.client.calls import Calls
from openbell.controls.backtests import Backtest, BacktestOptions, backtest_request
from openbell.controls.halts import HaltReport
from openbell.controls.rule_requests import (
    RemoveOptions,
    RuleOptions,
    RuleScope,
    SwitchOptions,
    SwitchStatus,
    TimeOptions,
    scope_path,
    symbol_path,
)
from openbell.controls.rules import Rule, RuleChange, Switch
from openbell.models import PageOf, SymbolControl, SymbolTime
from openbell.requests import Request, change, if_match, page, text_of, without_none


class ControlCalls(Calls):
    """Set and read controls. Rules and switches take one scope: see RuleScope."""

    def rules(self, **scope: Unpack[RuleScope]) -> tuple[Rule, ...]:
        """Read every rule of a scope, sorted by code, with the terms in force."""
        found = self._session.get(PageOf[Rule], scope_path(self._connection, scope, "rules"))
        return found.data

    def rule(self, code: str, **scope: Unpack[RuleScope]) -> Rule:
        """Read one rule. Raises NotFound if it is not set."""
        return self._session.get(Rule, scope_path(self._connection, scope, "rules", code))

    def set_rule(
        self, code: str, parameters: Mapping[str, Any], *, reason: str, **options: Unpack[RuleOptions]
    ) -> Rule:
        """Set a rule. With `expires_at` the terms end then, and the terms before apply again.

        `mode` is hard (default) or shadow, which only records what the rule would refuse. With `if_version` it raises
        Conflict unless the rule has that version; 0: unless it is not set.
        """
        body = {"mode": options.get("mode", "HARD"), "parameters": dict(parameters), "reason": reason}
        if on_missing := options.get("on_missing"):
            body["on_missing"] = on_missing
        if expires_at := options.get("expires_at"):
            body["expires_at"] = text_of("expires_at", expires_at)
        path = scope_path(self._connection, options, "rules", code)
        return self._session.fetch(change("PUT", path, body, if_version=options.get("if_version")), Rule)

    def remove_rule(self, code: str, **options: Unpack[RemoveOptions]) -> None:
        """Remove a rule and its override. Its history stays."""
        path = scope_path(self._connection, options, "rules", code)
        request = Request("DELETE", path, without_none({"reason": options.get("reason")}))
        self._session.request(if_match(request, options.get("if_version")))

    def rule_history(self, code: str, **scope: Unpack[RuleScope]) -> Iterator[RuleChange]:
        """List every change of a rule, the newest first."""
        request = page(scope_path(self._connection, scope, "rules", code, "history"))
        return self._session.items(request, PageOf[RuleChange])

    def switch(self, **scope: Unpack[RuleScope]) -> Switch:
        """Read the switch of one scope. The switch of a wider scope may be stricter."""
        return self._session.get(Switch, scope_path(self._connection, scope, "switch"))

    def set_switch(self, status: SwitchStatus, *, reason: str, **options: Unpack[SwitchOptions]) -> Switch:
        """Set the switch of a scope to HALTED, REDUCE_ONLY or ACTIVE.

        With `cancel_working` the platform also cancels the working orders of the scope. To set a switch to a less
        strict status, use the access token of a user; an API key raises PermissionDenied.
        """
        body: dict[str, Any] = {"status": status, "reason": reason}
        if options.get("cancel_working"):
            body["cancel_working"] = True
        path = scope_path(self._connection, options, "switch")
        return self._session.fetch(change("PUT", path, body, if_version=options.get("if_version")), Switch)

    def switch_history(self, **scope: Unpack[RuleScope]) -> Iterator[RuleChange]:
        """List every change of a switch, the newest first."""
        request = page(scope_path(self._connection, scope, "switch", "history"))
        return self._session.items(request, PageOf[RuleChange])

    def backtest(self, rules: Sequence[Mapping[str, Any]], **options: Unpack[BacktestOptions]) -> Backtest:
        """Count what rules would have refused of the recorded commands; nothing is changed.

        `since` and `until` bound the window (default: the last seven days). With `replace=False` the rules are
        evaluated beside those in force, not instead of them. May take half a minute.
        """
        return self._session.fetch(backtest_request(self._connection, rules, options), Backtest)

    def halt_report(self, account_id: str | None = None) -> HaltReport:
        """Read the halts of the account, their effect, and whether the broker confirms that no order is working."""
        return self._session.get(HaltReport, self._connection.path(account_id, "halt-report"))

    def set_symbol_control(
        self, symbol: str, *, disabled: bool, reason: str | None = None, account_id: str | None = None
    ) -> SymbolControl:
        """Disable or enable a symbol on the account. Without `reason`, an earlier reason is removed."""
        body = without_none({"manually_disabled": disabled, "manual_reason": reason})
        path = symbol_path(self._connection, symbol, account_id)
        return self._session.fetch(change("PUT", path, body), SymbolControl)

    def symbol_control(self, symbol: str, *, account_id: str | None = None) -> SymbolControl:
        """Read whether a symbol is disabled. Raises NotFound if that was never set."""
        return self._session.get(SymbolControl, symbol_path(self._connection, symbol, account_id))

    def patch_symbol_time(self, symbol: str, **options: Unpack[TimeOptions]) -> SymbolTime:
        """Change when a symbol may be traded. Fields that are left out stay; `clear` names fields to remove."""
        path = symbol_path(self._connection, symbol, options.get("account_id"), "time")
        return self._session.fetch(change("PATCH", path, without_none(options, "account_id")), SymbolTime)

    def symbol_time(self, symbol: str, *, account_id: str | None = None) -> SymbolTime:
        """Read when a symbol may be traded. Raises NotFound if that was never set."""
        return self._session.get(SymbolTime, symbol_path(self._connection, symbol, account_id, "time"))

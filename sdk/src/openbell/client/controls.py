# Generated from openbell/async_client/controls.py by make generate. Do not edit.
"""Calls about rules, switches, symbols, halts, heartbeats and back-tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Unpack

import msgspec

from openbell.client.calls import Calls
from openbell.controls.backtests import Backtest, BacktestOptions, backtest_request
from openbell.controls.effective import ControlKind, EffectiveControls
from openbell.controls.halts import HaltReport
from openbell.controls.heartbeats import (
    HEARTBEATS,
    Heartbeat,
    Heartbeats,
    heartbeat_request,
    heartbeat_scope,
)
from openbell.controls.rule_requests import (
    RemoveOptions,
    RuleOptions,
    RuleScope,
    SwitchOptions,
    SwitchStatus,
    TimeOptions,
    scope_parameters,
    symbol_path,
)
from openbell.controls.rules import Rule, RuleChange, Switch
from openbell.errors import NotFound
from openbell.models import PageOf, SymbolControl, SymbolTime
from openbell.requests import (
    PAGE_LIMIT,
    Request,
    change,
    following_page,
    if_match,
    narrowed,
    page,
    path_of,
    text_of,
    without_none,
)

_EFFECTIVE: Final = path_of("controls", "effective")
_RULES: Final = path_of("controls", "rules")
_SWITCHES: Final = path_of("controls", "switches")


class ControlCalls(Calls):
    """Set and read controls. Rules and switches take one scope: see RuleScope."""

    def effective_controls(
        self,
        symbol: str | None = None,
        *,
        account_id: str | None = None,
        api_key_id: str | None = None,
        organization: bool = False,
    ) -> EffectiveControls:
        """Read every rule and switch in force for a symbol, for an account with its symbols, or for the organization.

        Also those of the platform; those of an API key if it is named. For a symbol also its controls.
        """
        account = None if organization else self._connection.account(account_id)
        request = page(_EFFECTIVE, account_id=account, symbol=symbol, api_key_id=api_key_id)
        found = self._session.fetch(request, EffectiveControls)
        while (following := following_page(request, found.next_cursor)) is not None:
            further = self._session.fetch(following, EffectiveControls)
            found = msgspec.structs.replace(further, data=(*found.data, *further.data))
        return found

    def control_kinds(self) -> tuple[ControlKind, ...]:
        """Read every kind of rule: what it refuses, its parameters, and where it can be set."""
        return (self._session.get(PageOf[ControlKind], path_of("controls", "kinds"))).data

    def rules(self, **scope: Unpack[RuleScope]) -> tuple[Rule, ...]:
        """Read every rule of a scope, with the terms in force."""
        # There are fewer kinds of rules than rows on a page.
        request = narrowed(page(_RULES), scope_parameters(self._connection, scope))
        return (self._session.fetch(request, PageOf[Rule])).data

    def all_rules(self) -> Iterator[Rule]:
        """List the rules of every scope of the organization."""
        return self._session.items(page(_RULES), PageOf[Rule])

    def rule(self, code: str, **scope: Unpack[RuleScope]) -> Rule:
        """Read one rule. Raises NotFound if it is not set."""
        return self._session.get(Rule, _rule(code), scope_parameters(self._connection, scope))

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
        parameters, version = scope_parameters(self._connection, options), options.get("if_version")
        return self._session.fetch(change("PUT", _rule(code), body, parameters=parameters, if_version=version), Rule)

    def remove_rule(self, code: str, **options: Unpack[RemoveOptions]) -> None:
        """Remove a rule and its override. Its history stays."""
        parameters = scope_parameters(self._connection, options) | without_none({"reason": options.get("reason")})
        request = Request("DELETE", _rule(code), parameters)
        self._session.request(if_match(request, options.get("if_version")))

    def control_changes(self, code: str | None = None, **scope: Unpack[RuleScope]) -> Iterator[RuleChange]:
        """List every change of the rules and the switch of a scope, the newest first; of one `code` if it is named."""
        request = page(path_of("controls", "changes"), code=code)
        return self._session.items(narrowed(request, scope_parameters(self._connection, scope)), PageOf[RuleChange])

    def all_control_changes(self, code: str | None = None) -> Iterator[RuleChange]:
        """List the changes of every scope of the organization, the newest first."""
        return self._session.items(page(path_of("controls", "changes"), code=code), PageOf[RuleChange])

    def switch(self, **scope: Unpack[RuleScope]) -> Switch:
        """Read the switch of one scope. The switch of a wider scope may be stricter."""
        found = self._session.get(PageOf[Switch], _SWITCHES, scope_parameters(self._connection, scope))
        return found.data[0]

    def all_switches(self) -> Iterator[Switch]:
        """List the switches of every scope of the organization that were ever set."""
        return self._session.items(page(_SWITCHES), PageOf[Switch])

    def set_switch(self, status: SwitchStatus, *, reason: str, **options: Unpack[SwitchOptions]) -> Switch:
        """Set the switch of a scope to HALTED, REDUCE_ONLY or ACTIVE.

        With `cancel_working` the platform also cancels the working orders of the scope. To set a switch to a less
        strict status, use the access token of a user; an API key raises PermissionDenied.
        """
        body: dict[str, Any] = {"status": status, "reason": reason}
        if options.get("cancel_working"):
            body["cancel_working"] = True
        parameters, version = scope_parameters(self._connection, options), options.get("if_version")
        return self._session.fetch(change("PUT", _SWITCHES, body, parameters=parameters, if_version=version), Switch)

    def send_heartbeat(
        self,
        timeout_seconds: int,
        *,
        cancel_working: bool = False,
        account_id: str | None = None,
        api_key_id: str | None = None,
    ) -> Heartbeat:
        """Promise the next heartbeat within 5 to 300 seconds; without it, the calling key is halted.

        With `account_id` the account is halted instead, with `api_key_id` another key, which takes an admin's token.
        Send it from the loop that trades: it proves more than a heartbeat from the background. Raises Conflict if one
        was missed before, and then the scope is halted.
        """
        scope = heartbeat_scope(self._connection, account_id, api_key_id)
        request = heartbeat_request(scope, timeout_seconds, cancel_working=cancel_working)
        return self._session.fetch(request, Heartbeat)

    def disarm_heartbeats(self, *, account_id: str | None = None, api_key_id: str | None = None) -> None:
        """End the promise. Raises PermissionDenied for a promise that somebody else requires."""
        scope = heartbeat_scope(self._connection, account_id, api_key_id)
        self._session.request(Request("DELETE", HEARTBEATS, scope))

    def heartbeats(self) -> Iterator[Heartbeat]:
        """List the promises of the organization, also those that were missed."""
        return self._session.items(page(HEARTBEATS), PageOf[Heartbeat])

    def promise_heartbeats(
        self,
        timeout_seconds: int,
        *,
        cancel_working: bool = False,
        is_healthy: Callable[[], bool] = lambda: True,
        account_id: str | None = None,
        api_key_id: str | None = None,
    ) -> Heartbeats:
        """Send heartbeats in the background at a third of the timeout: `with client.promise_heartbeats(30): …`.

        They prove only that the process lives, and what `is_healthy` checks. A program that trades in a loop should
        call `send_heartbeat` there instead.
        """
        scope = heartbeat_scope(self._connection, account_id, api_key_id)
        request = heartbeat_request(scope, timeout_seconds, cancel_working=cancel_working)

        def beat() -> Heartbeat:
            return self._session.fetch(replace(request, timeout=timeout_seconds / 3), Heartbeat)

        def disarm() -> None:
            self._session.request(Request("DELETE", HEARTBEATS, scope))

        return Heartbeats(beat, disarm, timeout_seconds, is_healthy)

    def backtest(self, rules: Sequence[Mapping[str, Any]], **options: Unpack[BacktestOptions]) -> Backtest:
        """Count what rules would have refused of the recorded commands; nothing is changed.

        `since` and `until` bound the window (default: the last seven days). With `replace=False` the rules are
        evaluated beside those in force, not instead of them. May take half a minute.
        """
        return self._session.fetch(backtest_request(self._connection, rules, options), Backtest)

    def halt_reports(self, account_id: str | None = None) -> Iterator[HaltReport]:
        """List the reports of all halts of the account, the newest first, also of those that ended."""
        return self._session.items(self._halt_reports(account_id), PageOf[HaltReport])

    def halt_report(self, account_id: str | None = None, *, report_id: str | None = None) -> HaltReport:
        """Read the report of the newest halt, or the one with this id. Raises NotFound if there is none."""
        if report_id is None:
            for newest in (self._session.fetch(self._halt_reports(account_id, 1), PageOf[HaltReport])).data:
                return newest
            raise NotFound(code="not_found", status=404, detail="the account was never halted")
        for report in self.halt_reports(account_id):
            if report.id == report_id:
                return report
        raise NotFound(code="not_found", status=404, detail="the account has no such halt report")

    def _halt_reports(self, account_id: str | None, limit: int = PAGE_LIMIT) -> Request:
        return page(path_of("halt-reports"), limit=limit, account_id=self._connection.account(account_id))

    def set_symbol_control(
        self, symbol: str, *, disabled: bool, reason: str | None = None, account_id: str | None = None
    ) -> SymbolControl:
        """Disable or enable a symbol on the account. Without `reason`, an earlier reason is removed."""
        body = without_none({"manually_disabled": disabled, "manual_reason": reason})
        path = symbol_path(self._connection, symbol, account_id)
        return self._session.fetch(change("PUT", path, body), SymbolControl)

    def patch_symbol_time(self, symbol: str, **options: Unpack[TimeOptions]) -> SymbolTime:
        """Change when a symbol may be traded. Fields that are left out stay; `clear` names fields to remove."""
        path = symbol_path(self._connection, symbol, options.get("account_id"), "time")
        return self._session.fetch(change("PATCH", path, without_none(options, "account_id")), SymbolTime)


def _rule(code: str) -> str:
    return path_of("controls", "rules", code)

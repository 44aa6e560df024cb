"""The commands under `openbell controls rules` and `openbell controls switch`, and `openbell halt` and `resume`."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.controls.parameters import HELP, read_parameters
from openbell.cli.options import Account, AccountArgument, Yes, group, moment_of
from openbell.cli.plain_text import printable, time_text
from openbell.json_lines import json_line

if TYPE_CHECKING:
    from openbell.controls.effective import EffectiveRule
    from openbell.controls.rule_requests import Mode, OnMissing, SwitchStatus
    from openbell.controls.rules import Rule, RuleTerms, Switch

rules_app = group("Set and read rules.")
switch_app = group("Halt, and resume.")

Code = Annotated[str, typer.Argument(metavar="CODE", help="For example QTY_MAX.")]
Reason = Annotated[str, typer.Option("--reason", help="Recorded in the history.")]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", help="Only if it has this version; 0: only if it is not set.")
]
Everywhere = Annotated[bool, typer.Option("--all", help="Of every scope of the organization.")]
CancelWorking = Annotated[bool, typer.Option("--cancel-working", help="Also cancel every working order.")]

_about_scope = connected(account=Account, token=True, scope=True)


@rules_app.command("list")
@_about_scope
def list_rules(call: Call, everywhere: Everywhere = False) -> None:
    """List the rules of a scope, with the terms in force."""
    _show_rules(call, list(call.client.all_rules()) if everywhere else call.client.rules(**call.scope))


@rules_app.command("show")
@_about_scope
def show_rule(call: Call, code: Code) -> None:
    """Show one rule."""
    _show_rules(call, [call.client.rule(code, **call.scope)])


# Options that this command does not know are parameters of the rule, and arrive in `arguments`.
@rules_app.command("set", context_settings={"ignore_unknown_options": True})
@_about_scope
def set_rule(
    call: Call,
    code: Code,
    reason: Reason,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--PARAMETER VALUE]...", help=HELP, show_default=False),
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", help="HARD refuses; SHADOW only records what it would refuse.")
    ] = "HARD",
    on_missing: Annotated[
        str | None, typer.Option("--on-missing", help="DENY or ALLOW, if an input is missing.")
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="Only until then, such as 2026-01-31T21:00:00Z.")
    ] = None,
    if_version: IfVersion = None,
) -> None:
    """Set a rule, permanently or until a time, for example: set QTY_MAX --quantity 500 --reason "fat fingers"."""
    parameters = read_parameters(
        code,
        arguments or [],
        lambda: {kind.code: kind.parameters["properties"] for kind in call.client.control_kinds() if kind.settable},
    )
    values: tuple[Mode, OnMissing | None] = (mode.upper(), on_missing and on_missing.upper())  # type: ignore[assignment]  # the platform checks them
    rule = call.client.set_rule(
        code,
        parameters,
        reason=reason,
        mode=values[0],
        on_missing=values[1],
        expires_at=moment_of("--expires-at", expires_at),
        if_version=if_version,
        **call.scope,
    )
    _show_rules(call, [rule])


@rules_app.command("remove")
@_about_scope
def remove_rule(
    call: Call,
    code: Code,
    reason: Annotated[str | None, typer.Option("--reason", help="Recorded in the history.")] = None,
    if_version: IfVersion = None,
) -> None:
    """Remove a rule. Its history stays."""
    call.client.remove_rule(code, reason=reason, if_version=if_version, **call.scope)
    typer.echo(json_line({"code": code, "removed": True}) if call.as_json else f"{printable(code)} is removed")


@_about_scope
def show_changes(
    call: Call,
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="Only this rule, or SWITCH.")] = None,
    everywhere: Everywhere = False,
) -> None:
    """List the changes of rules and switches, the newest first: when, where, from, to, by whom and why."""
    client = call.client
    changes = client.all_control_changes(code) if everywhere else client.control_changes(code, **call.scope)
    call.show_table(
        changes,
        ("changed", "place", "rule", "version", "from", "to", "by", "reason"),
        lambda change: (
            time_text(change.changed_at),
            change.place,
            change.code,
            change.version,
            "" if change.before is None else _dated_terms(change.before.in_force),
            "removed" if change.after is None else _dated_terms(change.after.in_force),
            f"{change.principal_type} {change.principal_id}",
            change.reason or "",
        ),
    )


@switch_app.command("list")
@connected(token=True)
def list_switches(call: Call) -> None:
    """List the switches of every scope that were ever set: what is halted, since when, by whom and why."""
    call.show_table(
        call.client.all_switches(),
        ("place", "status", "since", "by", "reason"),
        lambda switch: (
            switch.place,
            switch.status,
            time_text(switch.updated_at),
            f"{switch.principal_type} {switch.principal_id}",
            switch.reason or "",
        ),
    )


@switch_app.command("show")
@_about_scope
def show_switch(call: Call) -> None:
    """Show the switch of one scope. The switch of a wider scope may be stricter."""
    _show_switch(call, call.client.switch(**call.scope))


@switch_app.command("set")
@_about_scope
def set_switch(
    call: Call,
    status: Annotated[str, typer.Argument(metavar="STATUS", help="ACTIVE, REDUCE_ONLY or HALTED.")],
    reason: Reason,
    cancel_working: CancelWorking = False,
    if_version: IfVersion = None,
) -> None:
    """Set the switch of one scope. A less strict status takes an admin's access token."""
    wanted: SwitchStatus = status.upper()  # type: ignore[assignment]  # the platform checks it
    _show_switch(
        call,
        call.client.set_switch(
            wanted, reason=reason, cancel_working=cancel_working, if_version=if_version, **call.scope
        ),
    )


@connected(account=AccountArgument, token=True)
def halt(call: Call, reason: Reason, cancel_working: CancelWorking = False) -> None:
    """Halt an account: only cancels and commands that reduce risk are accepted and sent."""
    _show_switch(call, call.client.set_switch("HALTED", reason=reason, cancel_working=cancel_working))


@connected(account=AccountArgument, token=True)
def resume(call: Call, reason: Reason, yes: Yes = False) -> None:
    """End an account's halt. It takes an admin's access token, not an API key."""
    call.confirm_live("let an account trade again", yes=yes)
    _show_switch(call, call.client.set_switch("ACTIVE", reason=reason))


def show_effective(call: Call, rules: "Sequence[EffectiveRule]") -> None:
    """By scope, with the strictest of each code marked."""
    _show_by_place(rules, lambda some: _show_effective(call, some))


def _show_effective(call: Call, rules: "Sequence[EffectiveRule]") -> None:
    call.show_table(
        rules,
        ("rule", "in force", "strictest", "until", "version", "reason"),
        lambda rule: (
            rule.code,
            "cannot be read: refuses everything" if rule.parameters is None else _terms(rule),
            "yes" if rule.is_strictest else "",
            time_text(rule.expires_at),
            "default" if rule.version is None else rule.version,
            rule.reason or "",
        ),
    )


def _show_rules(call: Call, rules: "Sequence[Rule]") -> None:
    if call.as_json or not rules:
        _show_table(call, rules)
    else:
        _show_by_place(rules, lambda some: _show_table(call, some))


def _show_by_place(rules: Sequence[Any], show: Callable[[list[Any]], None]) -> None:
    # As a column, the ids of their places would take the width of the rules.
    for place in dict.fromkeys(rule.place for rule in rules):
        typer.echo(printable(f"{place}:"))
        show([rule for rule in rules if rule.place == place])


def _show_table(call: Call, rules: "Sequence[Rule]") -> None:
    call.show_table(
        rules,
        ("rule", "in force", "until", "otherwise", "version", "reason"),
        lambda rule: (
            rule.code,
            _terms(rule.in_force),
            time_text(rule.in_force.expires_at),
            "" if rule.override is None else "nothing" if rule.terms is None else _terms(rule.terms),
            rule.version,
            rule.reason or "",
        ),
    )


def _show_switch(call: Call, switch: "Switch") -> None:
    why = "" if switch.reason is None else f": {switch.reason}"
    cancels = ", working orders are cancelled" if switch.cancel_working else ""
    call.show_line(switch, f"{switch.place} is {switch.status}{cancels}{why} (version {switch.version})")


def _dated_terms(terms: "RuleTerms") -> str:
    return _terms(terms) + ("" if terms.expires_at is None else f" until {time_text(terms.expires_at)}")


def _terms(terms: "RuleTerms | EffectiveRule") -> str:
    missing = "" if terms.on_missing is None else f", {terms.on_missing} on missing"
    return f"{terms.mode} {json.dumps(terms.parameters, ensure_ascii=False)}{missing}"

"""The commands under `openbell controls rules` and `openbell controls switch`, and `openbell halt` and `resume`."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openbell.cli.options import (
    Account,
    AccountArgument,
    Json,
    Key,
    Token,
    Url,
    Yes,
    client_for,
    confirm_live,
    moment_of,
)
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.rule_requests import Mode, OnMissing, RuleScope, State
    from openbell.rules import Rule, RuleChange, RuleTerms, Switch

rules_app = typer.Typer(help="Set and read rules.", no_args_is_help=True, rich_markup_mode=None)
switch_app = typer.Typer(help="Halt, and let go on.", no_args_is_help=True, rich_markup_mode=None)

Code = Annotated[str, typer.Argument(metavar="CODE", help="Such as QTY_MAX.")]
OfSymbol = Annotated[str | None, typer.Option("--symbol", help="Of one symbol on the account.")]
OfKey = Annotated[str | None, typer.Option("--key-id", help="Of one API key, by its id.")]
OfOrganization = Annotated[bool, typer.Option("--organization", help="Of the whole organization.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for whoever reads the history.")]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", help="Only if it is at this version; 0: only if it is not there.")
]
CancelWorking = Annotated[bool, typer.Option("--cancel-working", help="Cancel every order that works, too.")]


def _scope(account: str | None, symbol: str | None, key_id: str | None, *, organization: bool) -> "RuleScope":
    """The account of the environment is meant only where no wider scope is named."""
    if organization or key_id:
        return {"symbol": symbol, "key_id": key_id, "organization": organization}
    return {"account_id": account, "symbol": symbol}


@rules_app.command("list")
def list_rules(
    symbol: OfSymbol = None,
    key_id: OfKey = None,
    organization: OfOrganization = False,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List what is set, and which terms are in force until when."""
    scope = _scope(account, symbol, key_id, organization=organization)
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        _show_rules(client.rules(**scope), as_json=as_json)


@rules_app.command("show")
def show_rule(
    code: Code,
    symbol: OfSymbol = None,
    key_id: OfKey = None,
    organization: OfOrganization = False,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show one rule."""
    scope = _scope(account, symbol, key_id, organization=organization)
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        _show_rules([client.rule(code, **scope)], as_json=as_json)


@rules_app.command("set")
def set_rule(
    code: Code,
    parameters: Annotated[str, typer.Argument(metavar="PARAMETERS", help='JSON, such as {"quantity": "500"}.')],
    reason: Reason,
    mode: Annotated[str, typer.Option("--mode", help="hard refuses; shadow only says what it would do.")] = "hard",
    on_missing: Annotated[
        str | None, typer.Option("--on-missing", help="deny or allow, where an input is missing.")
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="Only until then, such as 2026-01-31T21:00:00Z.")
    ] = None,
    if_version: IfVersion = None,
    symbol: OfSymbol = None,
    key_id: OfKey = None,
    organization: OfOrganization = False,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Set a rule, for good or for a time."""
    scope = _scope(account, symbol, key_id, organization=organization)
    words: tuple[Mode, OnMissing | None] = (mode, on_missing)  # type: ignore[assignment]  # the platform judges them
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        rule = client.set_rule(
            code,
            _object(parameters),
            reason=reason,
            mode=words[0],
            on_missing=words[1],
            expires_at=moment_of("--expires-at", expires_at),
            if_version=if_version,
            **scope,
        )
        _show_rules([rule], as_json=as_json)


@rules_app.command("remove")
def remove_rule(
    code: Code,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for whoever reads the history.")] = None,
    if_version: IfVersion = None,
    symbol: OfSymbol = None,
    key_id: OfKey = None,
    organization: OfOrganization = False,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Remove a rule; its history stays."""
    scope = _scope(account, symbol, key_id, organization=organization)
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        client.remove_rule(code, reason=reason, if_version=if_version, **scope)
        typer.echo(json.dumps({"code": code, "removed": True}) if as_json else f"{printable(code)} is removed")


@rules_app.command("history")
def history(
    code: Annotated[str, typer.Argument(metavar="CODE", help="Such as QTY_MAX, or SWITCH.")],
    symbol: OfSymbol = None,
    key_id: OfKey = None,
    organization: OfOrganization = False,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Who changed a rule, when, why, and to what; the newest first."""
    scope = _scope(account, symbol, key_id, organization=organization)
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        changes = client.switch_history(**scope) if code == "SWITCH" else client.rule_history(code, **scope)
        _show_changes(list(changes), as_json=as_json)


@switch_app.command("show")
def show_switch(
    symbol: OfSymbol = None,
    key_id: OfKey = None,
    organization: OfOrganization = False,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show the switch of one scope; a wider one may be stricter."""
    scope = _scope(account, symbol, key_id, organization=organization)
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        _show_switch(client.switch(**scope), as_json=as_json)


@switch_app.command("set")
def set_switch(
    state: Annotated[str, typer.Argument(metavar="STATE", help="ACTIVE, REDUCE_ONLY or HALTED.")],
    reason: Reason,
    cancel_working: CancelWorking = False,
    if_version: IfVersion = None,
    symbol: OfSymbol = None,
    key_id: OfKey = None,
    organization: OfOrganization = False,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Set the switch of one scope; to lift it takes an admin's access token."""
    scope = _scope(account, symbol, key_id, organization=organization)
    wanted: State = state.upper()  # type: ignore[assignment]  # the platform judges it
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        switch = client.set_switch(wanted, reason=reason, cancel_working=cancel_working, if_version=if_version, **scope)
        _show_switch(switch, as_json=as_json)


def halt(
    reason: Reason,
    account: AccountArgument = None,
    cancel_working: CancelWorking = False,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Halt an account: nothing is accepted or sent but cancels and what reduces risk."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        switch = client.set_switch("HALTED", reason=reason, cancel_working=cancel_working)
        _show_switch(switch, as_json=as_json)


def resume(
    reason: Reason,
    account: AccountArgument = None,
    yes: Yes = False,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Lift an account's halt; it takes an admin's access token, never an API key."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        confirm_live(client, "let an account trade again", yes=yes, key=api_key, token=token)
        _show_switch(client.set_switch("ACTIVE", reason=reason), as_json=as_json)


def _object(text: str) -> dict[str, Any]:
    try:
        parameters: dict[str, Any] = dict(json.loads(text).items())
    except (ValueError, AttributeError):
        raise ValueError('The parameters must be a JSON object, such as {"quantity": "500"}.') from None
    return parameters


def _show_rules(rules: "list[Rule] | tuple[Rule, ...]", *, as_json: bool) -> None:
    if as_json:
        for rule in rules:
            typer.echo(rule.to_json())
        return
    from openbell.cli.tables import show_rows, told_at

    # All are of one address; in a column of its own its ids would leave no room for the rules.
    for address in sorted({str(rule.address) for rule in rules}):
        typer.echo(printable(f"{address}:"))
    show_rows(
        ("rule", "in force", "until", "otherwise", "version", "reason"),
        [
            (
                rule.code,
                _terms(rule.in_force),
                "" if rule.in_force.expires_at is None else told_at(rule.in_force.expires_at),
                "" if rule.override is None else "nothing" if rule.terms is None else _terms(rule.terms),
                str(rule.version),
                rule.reason or "",
            )
            for rule in rules
        ],
    )


def _show_changes(changes: "list[RuleChange]", *, as_json: bool) -> None:
    if as_json:
        for change in changes:
            typer.echo(change.to_json())
        return
    from openbell.cli.tables import show_rows, told_at

    show_rows(
        ("changed", "version", "from", "to", "by", "reason"),
        [
            (
                told_at(change.changed_at),
                str(change.version),
                "" if change.before is None else _told(change.before.in_force),
                "removed" if change.after is None else _told(change.after.in_force),
                f"{change.principal_type} {change.principal_id}",
                change.reason or "",
            )
            for change in changes
        ],
    )


def _show_switch(switch: "Switch", *, as_json: bool) -> None:
    why = "" if switch.reason is None else f": {switch.reason}"
    cancels = ", working orders are cancelled" if switch.cancel_working else ""
    text = f"{switch.address} is {switch.state}{cancels}{why} (version {switch.version})"
    typer.echo(switch.to_json() if as_json else printable(text))


def _told(terms: "RuleTerms") -> str:
    from openbell.cli.tables import told_at

    until = "" if terms.expires_at is None else f" until {told_at(terms.expires_at)}"
    return f"{_terms(terms)}{until}"


def _terms(terms: "RuleTerms") -> str:
    missing = "" if terms.on_missing is None else f", {terms.on_missing} on missing"
    return f"{terms.mode} {json.dumps(terms.parameters, ensure_ascii=False)}{missing}"

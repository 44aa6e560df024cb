"""Commands about the platform's rules and switch."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from openbell.cli.controls.parameters import HELP, read_parameters
from openbell_server.cli.operators import (
    ActingAs,
    AsJson,
    RowLimit,
    acting_operator,
    known,
    operate,
    short_time,
    show_list,
    show_one,
)
from openbell_server.domain.errors import OperatorError, Problem

if TYPE_CHECKING:
    from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
    from openbell_server.application.controls.ports.rules import RuleFilter
    from openbell_server.domain.access.principals import Principal
    from openbell_server.domain.controls.rules import Address, Override, RuleTerms, StoredRule

T = TypeVar("T")
COLUMNS: Final = ("code", "in_force", "until", "otherwise", "version", "by", "updated_at", "reason")
CHANGE_COLUMNS: Final = ("changed_at", "version", "before", "after", "by", "reason")
# There are fewer kinds of control than this.
RULES_MAX: Final = 100
CodeArgument = Annotated[str, typer.Argument(metavar="CODE", help="Such as QTY_MAX, or SWITCH.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the history.")]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", min=0, help="Only if the rule has this version; 0: only if it is not set.")
]
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def show_all(as_json: AsJson = False) -> None:
    """List the platform's rules and its switch, with the terms in force."""
    rules = _act(lambda store, address, _: store.list_rules(_all_at(address), 0, RULES_MAX))
    facts = [_facts(rule, as_json=as_json) for _, rule in rules]
    show_list("rules", sorted(facts, key=lambda rule: str(rule["code"])), COLUMNS, as_json=as_json)


# Options that this command does not know are parameters of the rule, and arrive in `arguments`.
@app.command("set", context_settings={"ignore_unknown_options": True})
def set_rule(
    code: CodeArgument,
    reason: ReasonOption,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[--PARAMETER VALUE]...", help=HELP, show_default=False)
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="HARD refuses; SHADOW only reports in the receipt.")] = "HARD",
    on_missing: Annotated[str, typer.Option("--on-missing", help="DENY or ALLOW if an input is missing.")] = "",
    expires_at: Annotated[str, typer.Option("--expires-at", help="Only until this time: 2026-01-31T21:00:00Z.")] = "",
    if_version: IfVersion = None,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Set a rule for every organization, or the switch: SWITCH --status HALTED."""
    change = _wanted(code, arguments or [], mode, on_missing, expires_at)
    _check_reason(reason)
    expected = None if if_version is None else {if_version}
    rule = _act(lambda store, address, who: store.save_rule(address, code, change, reason, who, expected), acting_as)
    assert rule is not None, "a rule that was just set exists"
    show_one(_facts(rule, as_json=as_json), COLUMNS, as_json=as_json)


@app.command()
def remove(
    code: CodeArgument,
    reason: ReasonOption,
    if_version: IfVersion = None,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Remove a rule of the platform; its history stays."""
    _check_reason(reason)
    expected = None if if_version is None else {if_version}
    _act(lambda store, address, who: store.save_rule(address, code, None, reason, who, expected), acting_as)
    show_one({"code": code, "removed": True}, ("code", "removed"), as_json=as_json)


@app.command()
def history(code: CodeArgument, limit: RowLimit = 50, as_json: AsJson = False) -> None:
    """List the changes of a rule of the platform, newest first: who, when, why, and the terms."""
    found = _act(lambda store, address, _: store.list_changes(_all_at(address, code), None, limit))
    rows = [
        {
            "changed_at": _time(change.changed_at, as_json=as_json),
            "version": change.version,
            "before": None if change.before is None else _in_force(change.before),
            "after": "removed" if change.after is None else _in_force(change.after),
            "by": " ".join(change.principal),
            "reason": change.reason,
        }
        for _, change in found
    ]
    show_list("changes", rows, CHANGE_COLUMNS, as_json=as_json)


def _act(act: "Callable[[PostgresRuleStore, Address, Principal], Awaitable[T]]", acting_as: str = "") -> T:
    from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
    from openbell_server.domain.access.principals import operator_principal
    from openbell_server.domain.controls.findings import Scope
    from openbell_server.domain.controls.rules import PLATFORM_ID, Address

    address = Address(organization_id=PLATFORM_ID, scope=Scope.PLATFORM)
    who = operator_principal(acting_operator(acting_as), PLATFORM_ID)
    try:
        return operate(lambda store: act(PostgresRuleStore(store.pool), address, who), acting_as)
    except Problem as problem:
        raise OperatorError(f"Nothing was changed: {problem.detail}.") from problem


def _all_at(address: "Address", code: str | None = None) -> "RuleFilter":
    from openbell_server.application.controls.ports.rules import RuleFilter

    return RuleFilter(organization_id=address.organization_id, scope=address.scope, code=code)


def _wanted(code: str, arguments: list[str], mode: str, on_missing: str, expires_at: str) -> "RuleTerms | Override":
    from openbell_server.domain.controls.catalogue import CATALOGUE, SETTABLE, checked_parameters
    from openbell_server.domain.controls.findings import Mode, Scope
    from openbell_server.domain.controls.rules import SWITCH, OnMissing, Override, RuleTerms

    (chosen,) = known([mode.upper()], Mode, "mode")
    missing = OnMissing(known([on_missing.upper()], OnMissing, "value for --on-missing")[0]) if on_missing else None
    try:
        given = read_parameters(
            code,
            arguments,
            lambda: {each: CATALOGUE[each].shape.schema()["properties"] for each in (*SETTABLE, SWITCH)},
        )
    except ValueError as error:
        raise OperatorError(str(error)) from None
    try:
        if code == SWITCH:
            CATALOGUE[SWITCH].decode(given)
        else:
            checked_parameters(code, Scope.PLATFORM, given)
    except Problem as problem:
        raise OperatorError(f"Nothing was changed: {problem.detail}.") from problem
    terms = RuleTerms(mode=Mode(chosen), on_missing=missing, parameters=given)
    if code == SWITCH and (expires_at or chosen != Mode.HARD):
        raise OperatorError("A switch has no expiry and is always hard: leave out --expires-at and --mode.")
    return Override(terms=terms, expires_at=_moment(expires_at)) if expires_at else terms


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise OperatorError("--expires-at takes a time with an offset, such as 2026-01-31T21:00:00Z.")
    return moment.astimezone(UTC)


def _check_reason(reason: str) -> None:
    from openbell_server.domain.names import check_reason

    try:
        check_reason("--reason", reason)
    except Problem as problem:
        raise OperatorError(f"{problem.detail}.") from problem


def _facts(rule: "StoredRule", *, as_json: bool) -> dict[str, Any]:
    override = rule.override
    return {
        "code": rule.code,
        "in_force": _in_force(rule),
        "until": None if override is None else _time(override.expires_at, as_json=as_json),
        "otherwise": None if override is None or rule.terms is None else _describe(rule.terms),
        "version": rule.version,
        "by": " ".join(rule.principal),
        "updated_at": _time(rule.updated_at, as_json=as_json),
        "reason": rule.reason,
    }


def _in_force(rule: "StoredRule") -> str:
    terms = rule.terms if rule.override is None else rule.override.terms
    assert terms is not None, "a stored rule has terms"
    return _describe(terms)


def _describe(terms: "RuleTerms") -> str:
    missing = "" if terms.on_missing is None else f", {terms.on_missing} on missing"
    return f"{terms.mode} {json.dumps(dict(terms.parameters))}{missing}"


def _time(moment: datetime, *, as_json: bool) -> str:
    return moment.isoformat() if as_json else short_time(moment.isoformat())

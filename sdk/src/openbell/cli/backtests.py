"""The command `openbell controls backtest`."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openbell.cli.options import AccountArgument, Json, Key, Token, Url, client_for
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.backtests import Backtest, BacktestExample, RuleTally

_SPAN = re.compile(r"([1-9][0-9]{0,3})([hd])")
_HOURS = {"h": 1, "d": 24}


def backtest(
    rules: Annotated[
        Path, typer.Option("--rules", help="A JSON file: a list of rules, each with scope, code and parameters.")
    ],
    account: AccountArgument = None,
    since: Annotated[str, typer.Option("--since", help="How far back, such as 7d or 12h; at most 31d.")] = "7d",
    beside: Annotated[bool, typer.Option("--beside", help="Beside the rules in force, not in their place.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="How many examples, at most 100.")] = 10,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Say what rules would have refused of what was recorded; nothing is changed."""
    begins = datetime.now(UTC) - _span(since)
    proposed = _rules(rules)
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        told = client.backtest(proposed, since=begins, replace=not beside, limit=limit)
        if as_json:
            typer.echo(told.to_json())
        else:
            _show(told)


def _span(text: str) -> timedelta:
    parts = _SPAN.fullmatch(text)
    if parts is None:
        raise typer.BadParameter("must be a number of days or hours, such as 7d or 12h", param_hint="--since")
    return timedelta(hours=int(parts[1]) * _HOURS[parts[2]])


def _rules(path: Path) -> list[dict[str, Any]]:
    try:
        read = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"cannot be read: {error}", param_hint="--rules") from None
    if not isinstance(read, list) or not all(isinstance(rule, dict) for rule in read):
        raise typer.BadParameter("must hold a JSON list of rules", param_hint="--rules")
    return read


def _show(told: "Backtest") -> None:
    typer.echo(printable(f"{told}, since {told.window.since:%Y-%m-%d %H:%M} UTC"))
    if told.newly_refused or told.newly_accepted:
        typer.echo(f"{told.newly_refused:,} were accepted then, {told.newly_accepted:,} were refused and would pass")
    for line in told.by_rule:
        typer.echo(printable(_line(line)))
    for example in told.examples:
        typer.echo(printable(_example(example)))


def _line(line: "RuleTally") -> str:
    of = f" of {line.symbol or line.key_id}" if line.symbol or line.key_id else ""
    counts = [(line.refused, "refused"), (line.would_refuse, "in shadow mode"), (line.undecided, "undecided")]
    return f"  {line.code} ({line.scope}{of}): " + (
        ", ".join(f"{count:,} {what}" for count, what in counts if count) or "nothing"
    )


def _example(example: "BacktestExample") -> str:
    which = f"action {example.action_id}" if example.action_id else f"receipt {example.receipt_id}"
    said = [
        f"{finding['code']} {finding['observed']} against {finding['limit']}"
        for finding in example.findings
        if finding["verdict"] == "REFUSED"
    ]
    verdict = f"refused by {', '.join(said)}" if example.would_be_refused else "would pass"
    return f"  {example.at:%Y-%m-%d %H:%M:%S} {example.action_type} {example.symbol} {which}: {verdict}"

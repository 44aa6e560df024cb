"""The command `openbell controls backtest`."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import AccountArgument
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.controls.backtests import Backtest, BacktestExample, RuleTally

_SPAN = re.compile(r"([1-9][0-9]{0,3})([hd])")
_HOURS = {"h": 1, "d": 24}


@connected(account=AccountArgument, token=True)
def backtest(
    call: Call,
    rules: Annotated[
        Path, typer.Option("--rules", help="A JSON file: a list of rules, each with scope, code and parameters.")
    ],
    since: Annotated[str, typer.Option("--since", help="How far back, such as 7d or 12h; at most 31d.")] = "7d",
    beside: Annotated[
        bool, typer.Option("--beside", help="Evaluate them beside the rules in force, not instead of them.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", help="How many examples to show, at most 100.")] = 10,
) -> None:
    """Count what rules would have refused of the recorded commands; nothing is changed."""
    begins = datetime.now(UTC) - _span(since)
    call.show(call.client.backtest(_rules(rules), since=begins, replace=not beside, limit=limit), _show)


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


def _show(result: "Backtest") -> None:
    typer.echo(printable(f"{result}, since {result.window.since:%Y-%m-%d %H:%M} UTC"))
    if result.newly_refused or result.newly_accepted:
        typer.echo(
            f"{result.newly_refused:,} were accepted then, {result.newly_accepted:,} were refused and would pass"
        )
    for line in (*map(_line, result.by_rule), *map(_example, result.examples)):
        typer.echo(printable(line))


def _line(line: "RuleTally") -> str:
    of = f" of {line.symbol or line.api_key_id}" if line.symbol or line.api_key_id else ""
    counts = [(line.refused, "refused"), (line.would_refuse, "in shadow mode"), (line.undecided, "undecided")]
    return f"  {line.code} ({line.scope}{of}): " + (
        ", ".join(f"{count:,} {what}" for count, what in counts if count) or "nothing"
    )


def _example(example: "BacktestExample") -> str:
    which = f"action {example.action_id}" if example.action_id else f"receipt {example.receipt_id}"
    refusals = [
        f"{finding['code']} {finding['observed']} against {finding['limit']}"
        for finding in example.findings
        if finding["verdict"] == "REFUSED"
    ]
    verdict = f"refused by {', '.join(refusals)}" if example.would_be_refused else "would pass"
    return f"  {example.at:%Y-%m-%d %H:%M:%S} {example.action_type} {example.symbol} {which}: {verdict}"

"""Commands about backups of the database."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from openbell_server.adapters.postgres.operators.backup_check import BackupReport, Finding

_NOT_WHOLE = 1
_CANNOT_BE_CHECKED = 2
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def check(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check that the database at OPENBELL_DATABASE_URL, normally a restored copy, is whole. Only reads.

    Exit code 0: it is whole. 1: it is not. 2: it cannot be checked.
    """
    from openbell_server.adapters.postgres.operators.backup_check import CannotBeChecked, check_backup
    from openbell_server.settings import Settings

    url = Settings().require("database_url")
    try:
        report = asyncio.run(check_backup(url))
    except CannotBeChecked as why:
        if as_json:
            typer.echo(json.dumps({"whole": None, "problem": str(why)}))
        else:
            typer.echo(str(why), err=True)
        raise typer.Exit(_CANNOT_BE_CHECKED) from None
    if as_json:
        typer.echo(json.dumps(_as_json(report)))
    else:
        _print(report)
    if not report.is_whole:
        raise typer.Exit(_NOT_WHOLE)


def _as_json(report: "BackupReport") -> dict[str, object]:
    return {
        "whole": report.is_whole,
        "revision": report.revision,
        **report.sizes,
        "unsettled": report.unsettled,
        "checks": [
            {
                "check": finding.check.name,
                "holds": finding.holds,
                "offenders": finding.offenders,
                "offenders_total": finding.total,
                "unreadable": finding.unreadable,
                "remedy": None if finding.holds else finding.check.remedy,
            }
            for finding in report.findings
        ],
    }


def _print(report: "BackupReport") -> None:
    for finding in report.findings:
        typer.secho("✓ " if finding.holds else "✗ ", fg="green" if finding.holds else "red", nl=False)
        typer.echo(f"{finding.check.name:<11}{finding.check.fact}")
        if not finding.holds:
            typer.echo(f"{'':13}{_found(finding)}\n{'':13}{finding.check.remedy}")
    if report.unsettled:
        queued, past_door = report.unsettled["queued"], report.unsettled["past_door"]
        open_actions = f"{queued + past_door} actions had no outcome: {queued} queued, {past_door} past the door."
        typer.echo(f"· {'unsettled':<11}{open_actions}")
    facts = [*(f"{number} {name}" for name, number in report.sizes.items()), f"revision {report.revision}"]
    typer.echo(f"This database is {'whole' if report.is_whole else 'NOT whole'}: {', '.join(facts)}.")


def _found(finding: "Finding") -> str:
    if finding.unreadable:
        return f"PostgreSQL cannot read the data of this check ({finding.unreadable})."
    more = f" and {finding.total - len(finding.offenders)} more" if finding.total > len(finding.offenders) else ""
    return f"Not so for {', '.join(finding.offenders)}{more}."

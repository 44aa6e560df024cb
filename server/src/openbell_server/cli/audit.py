"""Commands about the audit log."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from openbell_server.cli.operators import AsJson, RowLimit, operate, short_time

if TYPE_CHECKING:
    from openbell_server.domain.access.audit_chain import Closed, Entry, Verification

FLAWS_SHOWN: Final = 20
_BROKEN: Final = 1
Organization = Annotated[
    UUID | None, typer.Option(help="Only the log of this organization; all zeros for the platform's.")
]
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def show_all(
    organization: Organization = None,
    limit: RowLimit = 50,
    as_json: AsJson = False,
) -> None:
    """List changes, newest first; --json shows each with its values before and after."""
    entries = operate(lambda store: store.audit.list_entries(organization, limit))
    if as_json:
        typer.echo(json.dumps({"entries": entries}))
    else:
        _print(entries)


@app.command()
def export(organization: Organization = None) -> None:
    """Write every entry to standard output, one JSON object per line, and after each organization's last its head.

    `audit verify` verifies the file offline. Keep its heads where nobody who can write to the database can change them.
    """
    from openbell_server.cli.audit_lines import FIRST_LINE, last_line, line_of

    counted = {"entry": 0, "head": 0}

    def take(part: "Entry | Closed") -> None:
        line = line_of(part)
        if line is not None:
            counted[line["kind"]] += 1
            sys.stdout.write(f"{json.dumps(line)}\n")

    sys.stdout.write(f"{json.dumps(FIRST_LINE)}\n")
    operate(lambda store: store.audit.follow_chains(organization, take))
    sys.stdout.write(f"{json.dumps(last_line(counted['entry'], counted['head']))}\n")


@app.command()
def verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An export. Default: the database at OPENBELL_DATABASE_URL.")
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="What was exported before: the file, or NUMBER:HASH of one log.")
    ] = None,
    organization: Organization = None,
    as_json: AsJson = False,
) -> None:
    """Verify that no entry was changed, removed, inserted or exchanged. Only reads; a file is verified offline.

    The removal of the newest entries together with the head shows only against a head that was exported before.
    Exit code 0: intact. 1: broken. 2: it could not be verified.
    """
    from openbell_server.cli.audit_lines import known_heads, read_parts

    result = known_heads(head, organization)
    if file is None:
        operate(lambda store: store.audit.follow_chains(organization, result.take))
    else:
        for part in read_parts(file):
            if organization is None or part.organization_id == str(organization):
                result.take(part)
    result.end()
    if as_json:
        typer.echo(json.dumps(_as_json(result)))
    else:
        _show(result, compared=head is not None)
    raise typer.Exit(0 if result.holds else _BROKEN)


def _as_json(result: "Verification") -> dict[str, object]:
    return {
        "intact": result.holds,
        "entries": result.entries,
        "heads": {organization_id: str(head) for organization_id, head in result.heads.items()},
        "flaws_total": result.found,
        "flaws": [
            {
                "organization_id": flaw.organization_id,
                "number": flaw.number,
                "tampering": flaw.tampering,
                "what": flaw.what,
            }
            for flaw in result.flaws
        ],
    }


def _show(result: "Verification", *, compared: bool) -> None:
    from openbell.cli.plain_text import printable

    for flaw in result.flaws[:FLAWS_SHOWN]:
        typer.echo(f"WRONG  {printable(str(flaw))}")
    if result.found > FLAWS_SHOWN:
        typer.echo(f"… and {result.found - FLAWS_SHOWN} more; --json has the first {len(result.flaws)}.")
    counted = f"{result.entries} entries of {len(result.heads)} logs"
    if not result.holds:
        typer.echo(f"{counted}: {result.found} things are wrong.")
        return
    typer.echo(f"{counted}: intact{' since the known heads' if compared else ''}.")
    if not compared:
        typer.echo("Whether the newest entries were removed shows only with --head and an earlier export.")


def _print(entries: Iterable[dict[str, Any]]) -> None:
    """Print two lines per entry: who did what and when; then the object. So a whole id fits on its line."""
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.plain_text import printable
    from openbell.cli.tables import console

    table = Table(box=None, show_header=False)
    for entry in entries:
        who = f"{entry['principal_type'].lower()} {entry['principal_id']} (login {entry['login']})"
        table.add_row(short_time(entry["occurred_at"]), Text(printable(f"{who}: {entry['operation']}")))
        changed = ", ".join(_changed(entry["before"] or {}, entry["after"]))
        table.add_row("", Text(printable(f"{entry['object_id']}  {changed}".rstrip()), style="dim"))
    console().print(table)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> Iterable[str]:
    """Names of the fields that changed; none for a new object."""
    return [name.replace("_", " ") for name in after if before and before.get(name) != after[name]]

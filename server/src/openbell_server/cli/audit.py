"""Commands about the audit log."""

import json
from collections.abc import Iterable
from typing import Annotated, Any
from uuid import UUID

import typer

from openbell_server.cli.operators import AsJson, RowLimit, operate, short_time

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def show_all(
    organization: Annotated[UUID | None, typer.Option(help="Only changes in this organization.")] = None,
    limit: RowLimit = 50,
    as_json: AsJson = False,
) -> None:
    """List changes, newest first; --json shows each with its values before and after."""
    entries = operate(lambda store: store.list_audit_log(organization, limit))
    if as_json:
        typer.echo(json.dumps({"entries": entries}))
    else:
        _print(entries)


def _print(entries: Iterable[dict[str, Any]]) -> None:
    """Print two lines per entry: who did what and when; then the object. So a whole id fits on its line."""
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.plain_text import printable
    from openbell.cli.tables import console

    table = Table(box=None, show_header=False)
    for entry in entries:
        who = f"{entry['principal_type'].lower()} {entry['principal_id']}"
        table.add_row(short_time(entry["occurred_at"]), Text(printable(f"{who}: {entry['operation']}")))
        changed = ", ".join(_changed(entry["before"] or {}, entry["after"]))
        table.add_row("", Text(printable(f"{entry['object_id']}  {changed}".rstrip()), style="dim"))
    console().print(table)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> Iterable[str]:
    """Names of the fields that changed; none for a new object."""
    return [name.replace("_", " ") for name in after if before and before.get(name) != after[name]]

"""The commands under `openbell audit`."""

import json
from itertools import islice
from typing import Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import AtMost, group, moment_of

app = group("The organization's audit log: who changed what.")

_with_token = connected(key=False, token=True)


@app.command("list")
@_with_token
def list_entries(
    call: Call,
    since: Annotated[str | None, typer.Option("--since", help="Only changes then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only changes before then.")] = None,
    operation: Annotated[str | None, typer.Option("--operation", help="For example 'keys create'.")] = None,
    principal: Annotated[str | None, typer.Option("--principal", help="Only changes by this user or key.")] = None,
    limit: AtMost = None,
) -> None:
    """List changes, the newest first; --json shows each with the object before and after."""
    first, last = moment_of("--since", since), moment_of("--until", until)
    found = call.client.audit.list(
        since=first, until=last, operation=operation, principal_id=principal, newest_first=True
    )
    call.show_table(
        islice(found, limit),
        ("when", "who", "operation", "object"),
        lambda each: (
            each.occurred_at[:19].replace("T", " "),
            f"{each.principal_type} {each.principal_id}",
            each.operation,
            each.object_id,
        ),
    )


@app.command()
@connected(key=False, token=True, json=False)
def export(call: Call) -> None:
    """Write every entry to standard output, one JSON object per line, for `openbell-server audit verify`."""
    from openbell.access.audit import export_lines

    for line in export_lines(call.client.audit.list()):
        typer.echo(json.dumps(line))

"""The commands under `openbell operations` and `openbell users`."""

from typing import Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import group
from openbell.cli.plain_text import printable, time_text

app = group("Commands for operators and sign-in services.")
users_app = group("The user of the access token.")

_with_token = connected(key=False, token=True)


@app.command()
@connected(token=True)
def health(call: Call) -> None:
    """Check that the API answers."""
    found = call.client.operations.health()
    call.show_line(found, found.status)


@connected(token=True)
def me(call: Call) -> None:
    """Show who the credential belongs to, and what it may do."""
    found = call.client.operations.me()
    where = "" if found.organization is None else f" of {found.organization.name}"
    what = " ".join(filter(None, (found.role, found.environment)))
    call.show_line(
        found,
        f"{found.principal_type} {found.principal_id}{where}{f' ({what})' if what else ''} may use:"
        f" {', '.join(found.operations)}",
    )


@app.command()
@_with_token
def outboxes(call: Call) -> None:
    """Show the state of all queues, and what to do."""
    found = call.client.operations.outboxes()
    if call.as_json:
        typer.echo(found.to_json())
        return
    typer.echo(printable(found.verdict))
    call.show_table(
        found.queues,
        ("queue", "verdict", "pending", "processing", "failed", "lag", "why"),
        lambda queue: (
            queue.name,
            queue.verdict,
            queue.pending,
            queue.processing,
            queue.failed,
            f"{queue.lag_seconds:g} s",
            queue.explanation,
        ),
    )


@app.command("account-outbox")
@_with_token
def account_outbox(call: Call) -> None:
    """Show the queue of account changes by status and event type."""
    found = call.client.operations.outbox_health()
    if call.as_json:
        typer.echo(found.to_json())
        return
    call.show_table(
        found.entries,
        ("status", "event", "rows", "oldest", "most attempts"),
        lambda entry: (
            entry.status,
            entry.event_type,
            entry.count,
            time_text(entry.oldest_created_at),
            entry.max_attempts,
        ),
    )


@app.command()
@_with_token
def organization(
    call: Call,
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="For example workos.")],
    provider_id: Annotated[str, typer.Argument(metavar="ID", help="The organization's id at the provider.")],
) -> None:
    """Find an organization by the identity provider's id."""
    found = call.client.operations.organization(provider, provider_id)
    call.show_line(found, f"{found.id}  {found.name}" + ("  disabled" if found.disabled else ""))


@users_app.command("delete-me")
@connected(key=False, token=True, json=False)
def delete_me(
    call: Call, yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False
) -> None:
    """Delete the user of the access token permanently."""
    if not yes:
        typer.confirm("Delete the user of this access token permanently?", abort=True, err=True)
    call.client.operations.delete_me()
    typer.echo("deleted")

"""The commands under `openbell operations`, and what a user does about itself."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.options import Json, Key, Token, Url, client_for
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.operation_requests import Outboxes, OutboxHealth

app = typer.Typer(help="What operators and sign-in services ask.", no_args_is_help=True, rich_markup_mode=None)
users_app = typer.Typer(help="The user who asks.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def health(url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False) -> None:
    """Tell whether the API serves."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        found = client.operations.health()
    typer.echo(found.to_json() if as_json else printable(found.status))


@app.command()
def outboxes(url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show how all queues stand, and what to do."""
    with told_plainly(as_json=as_json), client_for(url, None, None, token=token) as client:
        found = client.operations.outboxes()
    typer.echo(found.to_json()) if as_json else _show_outboxes(found)


@app.command("account-outbox")
def account_outbox(url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show the queue of account changes by status and event type."""
    with told_plainly(as_json=as_json), client_for(url, None, None, token=token) as client:
        found = client.operations.outbox_health()
    typer.echo(found.to_json()) if as_json else _show_entries(found)


@app.command()
def organization(
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="Such as workos.")],
    provider_id: Annotated[str, typer.Argument(metavar="ID", help="As the provider calls it.")],
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Find an organization by the identity provider's id."""
    with told_plainly(as_json=as_json), client_for(url, None, None, token=token) as client:
        found = client.operations.organization(provider, provider_id)
    text = f"{found.id}  {found.name}" + ("  disabled" if found.disabled else "")
    typer.echo(found.to_json() if as_json else printable(text))


@users_app.command("delete-me")
def delete_me(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False, url: Url = None, token: Token = None
) -> None:
    """Delete yourself for good."""
    if not yes:
        typer.confirm("Delete the user whose access token this is, for good?", abort=True, err=True)
    with told_plainly(as_json=False), client_for(url, None, None, token=token) as client:
        client.operations.delete_me()
    typer.echo("deleted")


def _show_outboxes(found: "Outboxes") -> None:
    from openbell.cli.tables import show_rows

    typer.echo(printable(found.verdict))
    show_rows(
        ("queue", "verdict", "pending", "processing", "failed", "lag", "why"),
        (
            (
                queue.name,
                queue.verdict,
                *(str(count) for count in (queue.pending, queue.processing, queue.failed)),
                f"{queue.lag_seconds:g} s",
                queue.explanation,
            )
            for queue in found.queues
        ),
    )


def _show_entries(found: "OutboxHealth") -> None:
    from openbell.cli.tables import show_rows

    show_rows(
        ("status", "event", "rows", "oldest", "most attempts"),
        (
            (
                entry.status,
                entry.event_type,
                str(entry.count),
                f"{entry.oldest_created_at:%Y-%m-%d %H:%M:%S}Z",
                str(entry.max_attempts),
            )
            for entry in found.entries
        ),
    )

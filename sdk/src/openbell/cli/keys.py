"""The commands under `openbell keys`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import group, moment_of
from openbell.cli.plain_text import time_text

if TYPE_CHECKING:
    from openbell.access.accounts import Environment
    from openbell.access.api_keys import ApiKey

app = group("The organization's API keys.")
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `openbell keys list` shows it.")]

_with_token = connected(key=False, token=True)


@app.command()
@_with_token
def create(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")],
    permissions: Annotated[list[str], typer.Argument(metavar="PERMISSION...", help="For example intent:read.")],
    live: Annotated[bool, typer.Option("--live", help="For live accounts; without it, for paper accounts.")] = False,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="For example 2027-03-06T21:00:00Z.", show_default=False)
    ] = None,
    own_orders_only: Annotated[
        bool, typer.Option("--own-orders-only", help="Let it cancel and replace only orders that it created.")
    ] = False,
) -> None:
    """Create a key and print it. It cannot be printed again."""
    environment: Environment = "live" if live else "paper"
    until = moment_of("--expires-at", expires_at)
    made = call.client.api_keys.create(
        name, environment=environment, permissions=permissions, expires_at=until, own_orders_only=own_orders_only
    )
    _show(call, [made])
    if made.api_key is not None and not call.as_json:
        typer.echo(f"{made.api_key}  (shown this once)")


@app.command("list")
@_with_token
def list_all(call: Call) -> None:
    """List the keys, the newest first."""
    _show(call, call.client.api_keys.list())


@app.command()
@_with_token
def show(call: Call, key: KeyArgument) -> None:
    """Show one key."""
    _show(call, [call.client.api_keys.show(key)])


@app.command()
@_with_token
def disable(call: Call, key: KeyArgument) -> None:
    """Disable a key until it is enabled. It takes effect on all servers within a second."""
    _show(call, [call.client.api_keys.change(key, disabled=True)])


@app.command()
@_with_token
def enable(call: Call, key: KeyArgument) -> None:
    """Enable a key again."""
    _show(call, [call.client.api_keys.change(key, disabled=False)])


@app.command()
@connected(key=False, token=True, json=False)
def revoke(call: Call, key: KeyArgument) -> None:
    """Revoke a key permanently. Its queued commands that were not sent are skipped."""
    call.client.api_keys.revoke(key)
    typer.echo("revoked")


@app.command()
@connected()
def whose(call: Call) -> None:
    """Show the organization of the API key that this command uses."""
    found = call.client.api_keys.validate()
    text = f"key {found.id} of organization {found.organization_id}, {found.environment}"
    call.show_line(found, text + (", disabled" if found.disabled else ""))


def _show(call: Call, keys: "Iterable[ApiKey]") -> None:
    call.show_table(
        keys,
        ("key", "public id", "name", "environment", "permissions", "last used", "standing"),
        lambda key: (
            key.id,
            key.key_id,
            key.name,
            key.environment,
            " ".join(key.permissions),
            time_text(key.last_used_at),
            _state(key),
        ),
    )


def _state(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return "revoked"
    until = "" if key.expires_at is None else f"until {key.expires_at:%Y-%m-%d %H:%M}Z"
    facts = ("disabled" if key.disabled else until, "own orders only" if key.own_orders_only else "")
    return ", ".join(fact for fact in facts if fact)

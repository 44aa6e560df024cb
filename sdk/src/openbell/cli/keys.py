"""The commands under `openbell keys`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.options import Json, Key, Token, Url, client_for, moment_of
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.account_requests import Environment
    from openbell.key_requests import ApiKey

app = typer.Typer(help="The organization's API keys.", no_args_is_help=True, rich_markup_mode=None)
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `openbell keys list` shows it.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="For people.")],
    permissions: Annotated[list[str], typer.Argument(metavar="PERMISSION...", help="Such as intent:read.")],
    live: Annotated[bool, typer.Option("--live", help="For live accounts; without it, for paper.")] = False,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="Such as 2027-03-06T21:00:00Z.", show_default=False)
    ] = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a key and tell it, once."""
    environment: Environment = "live" if live else "paper"
    with told_plainly(as_json=as_json), client_for(url, None, None, token=token) as client:
        until = moment_of("--expires-at", expires_at)
        made = client.api_keys.create(name, environment=environment, permissions=permissions, expires_at=until)
    _show([made], as_json=as_json)
    if made.api_key is not None and not as_json:
        typer.echo(f"{made.api_key}  (shown this once)")


@app.command("list")
def list_all(url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the keys, the newest first."""
    with told_plainly(as_json=as_json), client_for(url, None, None, token=token) as client:
        found = list(client.api_keys.list())
    _show(found, as_json=as_json)


@app.command()
def show(key: KeyArgument, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show one key."""
    with told_plainly(as_json=as_json), client_for(url, None, None, token=token) as client:
        _show([client.api_keys.show(key)], as_json=as_json)


@app.command()
def disable(key: KeyArgument, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Let nobody use it until it is enabled; it acts everywhere within a second."""
    with told_plainly(as_json=as_json), client_for(url, None, None, token=token) as client:
        _show([client.api_keys.change(key, disabled=True)], as_json=as_json)


@app.command()
def enable(key: KeyArgument, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Let it be used again."""
    with told_plainly(as_json=as_json), client_for(url, None, None, token=token) as client:
        _show([client.api_keys.change(key, disabled=False)], as_json=as_json)


@app.command()
def revoke(key: KeyArgument, url: Url = None, token: Token = None) -> None:
    """End it for good; what it has queued and was not sent yet is skipped."""
    with told_plainly(as_json=False), client_for(url, None, None, token=token) as client:
        client.api_keys.revoke(key)
    typer.echo("revoked")


@app.command()
def whose(url: Url = None, api_key: Key = None, as_json: Json = False) -> None:
    """Tell whose key this command runs with."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None) as client:
        found = client.api_keys.validate()
    text = f"key {found.id} of organization {found.organization_id}, {found.environment}"
    typer.echo(found.to_json() if as_json else printable(text + (", disabled" if found.disabled else "")))


def _show(keys: "Iterable[ApiKey]", *, as_json: bool) -> None:
    if as_json:
        for key in keys:
            typer.echo(key.to_json())
        return
    from openbell.cli.tables import show_rows

    show_rows(
        ("key", "begins", "name", "environment", "permissions", "standing"),
        ((key.id, key.key_id, key.name, key.environment, " ".join(key.permissions), _standing(key)) for key in keys),
    )


def _standing(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return "revoked"
    until = "" if key.expires_at is None else f"until {key.expires_at:%Y-%m-%d %H:%M}Z"
    return "disabled" if key.disabled else until

"""The commands under `openbell accounts` and `openbell credentials`."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.options import AccountArgument, Json, Key, Token, Url, Yes, client_for, confirm_live, moment_of
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.account_requests import Account, AccountChanges, Credential, Environment
    from openbell.client import Client

app = typer.Typer(help="The organization's trading accounts.", no_args_is_help=True, rich_markup_mode=None)
credentials_app = typer.Typer(
    help="What accounts sign in with at their brokers.", no_args_is_help=True, rich_markup_mode=None
)
Version = Annotated[
    int | None, typer.Option("--if-version", min=1, help="Only if it has this version.", show_default=False)
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="For people.")],
    broker: Annotated[str, typer.Option("--broker", help="As `openbell brokers` calls it.")] = "paper",
    live: Annotated[bool, typer.Option("--live", help="For real money; without it, paper.")] = False,
    external_id: Annotated[
        str | None, typer.Option("--external-id", help="As the broker calls the account.", show_default=False)
    ] = None,
    currency: Annotated[str | None, typer.Option("--currency", help="Such as USD.", show_default=False)] = None,
    timezone: Annotated[str | None, typer.Option("--timezone", help="Such as UTC.", show_default=False)] = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Open an account at a broker."""
    environment: Environment = "live" if live else "paper"
    given = {"external_account_id": external_id, "base_currency": currency, "timezone": timezone}
    more = {field: value for field, value in given.items() if value is not None}
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        made = client.accounts.create(name, broker=broker, environment=environment, **more)
    _show([made], as_json=as_json)


@app.command("list")
def list_all(url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False) -> None:
    """List the accounts, the newest first."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        found = list(client.accounts.list())
    _show(found, as_json=as_json)


@app.command()
def show(
    account: AccountArgument = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show one account, and how its broker's session stands."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        found = client.accounts.show()
    _show([found], as_json=as_json)


@app.command()
def rename(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="For people.")],
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Give it another name."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        _show([client.accounts.change(account, name=name)], as_json=as_json)


@app.command()
def disable(
    account: AccountArgument = None,
    reason: Annotated[str, typer.Option("--reason", help="Kept with the account.")] = "",
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Take no new order; those that work are followed, and can be cancelled."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        changes: AccountChanges = {"disabled": True, "disabled_reason": reason} if reason else {"disabled": True}
        _show([client.accounts.change(**changes)], as_json=as_json)


@app.command()
def enable(
    account: AccountArgument = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Take orders again."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        _show([client.accounts.change(disabled=False)], as_json=as_json)


@app.command()
def close(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id.")],
    if_version: Version = None,
    yes: Yes = False,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
) -> None:
    """Close it for good; refused while it has something to do."""
    with told_plainly(as_json=False), client_for(url, api_key, account, token=token) as client:
        confirm_live(client, f"close account {account} for good", yes=yes, key=api_key, token=token)
        client.accounts.close(account, if_version=if_version)
    typer.echo("closed")


@credentials_app.command("set")
def set_credential(
    account: AccountArgument = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="The fields as a JSON object; - reads them from standard input.", allow_dash=True),
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="Such as 2026-03-06T21:00:00Z.", show_default=False)
    ] = None,
    if_version: Version = None,
    yes: Yes = False,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Set what the account signs in with; asks for each field that its broker wants, unless a file has them."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        until = moment_of("--expires-at", expires_at)
        confirm_live(client, "set the credential of an account", yes=yes, key=api_key, token=token)
        fields = _fields_in(file) if file is not None else _fields_asked(client)
        made = client.accounts.set_credential(fields, expires_at=until, if_version=if_version)
    _show_credential(made, as_json=as_json)


@credentials_app.command("show")
def show_credential(
    account: AccountArgument = None, url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False
) -> None:
    """Show how it stands; nobody reads its secrets back."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        found = client.accounts.credential()
    _show_credential(found, as_json=as_json)


@credentials_app.command("verify")
def verify_credential(
    account: AccountArgument = None, url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False
) -> None:
    """Have the broker asked about it now."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        found = client.accounts.verify_credential()
    _show_credential(found, as_json=as_json)


@credentials_app.command("remove")
def remove_credential(
    account: AccountArgument = None,
    if_version: Version = None,
    yes: Yes = False,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
) -> None:
    """Remove it; its secrets are destroyed."""
    with told_plainly(as_json=False), client_for(url, api_key, account, token=token) as client:
        confirm_live(client, "remove the credential of an account", yes=yes, key=api_key, token=token)
        client.accounts.remove_credential(if_version=if_version)
    typer.echo("removed")


def _fields_in(file: Path) -> Mapping[str, str]:
    try:
        found = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"--file cannot be read as JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError('--file must have one JSON object of texts, such as {"key_id": "…", "secret": "…"}.')
    return found


def _fields_asked(client: "Client") -> Mapping[str, str]:
    """What the account's broker asks for, from whoever sits there; what is secret is not shown."""
    name = client.accounts.show().broker
    form = next((broker.credentials for broker in client.brokers() if broker.name == name), None)
    if form is None:
        raise ValueError(f"Accounts at {name} sign in with nothing.")
    return {field.name: typer.prompt(field.title, hide_input=field.secret, err=True) for field in form.fields}


def _show(accounts: "Iterable[Account]", *, as_json: bool) -> None:
    if as_json:
        for account in accounts:
            typer.echo(account.to_json())
        return
    from openbell.cli.tables import show_rows

    show_rows(
        ("account", "name", "broker", "environment", "session", "credential", "version"),
        (
            (
                account.id,
                account.name,
                account.broker,
                account.environment,
                account.session_state
                if account.halt_code is None
                else f"{account.session_state} ({account.halt_code})",
                account.credential_status,
                str(account.version),
            )
            for account in accounts
        ),
    )


def _show_credential(credential: "Credential", *, as_json: bool) -> None:
    until = f", until {credential.expires_at:%Y-%m-%d %H:%M}Z" if credential.expires_at else ""
    text = f"{credential.kind} {credential.hint} at {credential.broker}: {credential.status}{until}"
    typer.echo(credential.to_json() if as_json else printable(text))

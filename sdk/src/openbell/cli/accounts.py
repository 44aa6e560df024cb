"""The commands under `openbell accounts` and `openbell credentials`."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import AccountArgument, Yes, group, moment_of

if TYPE_CHECKING:
    from openbell.access.accounts import Account, AccountChanges, Credential, Environment
    from openbell.client import Client

app = group("The organization's trading accounts.")
credentials_app = group("The broker credentials of accounts.")
Version = Annotated[
    int | None, typer.Option("--if-version", min=1, help="Only if it has this version.", show_default=False)
]
AccountId = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")]

_about_account = connected(account=AccountArgument, token=True)


@app.command()
@connected(token=True)
def create(
    call: Call,
    name: Name,
    broker: Annotated[str, typer.Option("--broker", help="The broker's name in `openbell brokers`.")] = "paper",
    profile: Annotated[
        str | None,
        typer.Option("--paper-profile", help="Of the paper broker: A (default), W, B or C.", show_default=False),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Real money; without it, a paper account.")] = False,
    external_id: Annotated[
        str | None, typer.Option("--external-id", help="The account's id at the broker.", show_default=False)
    ] = None,
    currency: Annotated[str | None, typer.Option("--currency", help="For example USD.", show_default=False)] = None,
    timezone: Annotated[str | None, typer.Option("--timezone", help="For example UTC.", show_default=False)] = None,
) -> None:
    """Open an account at a broker."""
    environment: Environment = "live" if live else "paper"
    given = {"external_account_id": external_id, "base_currency": currency, "timezone": timezone, "profile": profile}
    more: Any = {field: value for field, value in given.items() if value is not None}
    _show(call, [call.client.accounts.create(name, broker=broker, environment=environment, **more)])


@app.command("list")
@connected(token=True)
def list_all(call: Call) -> None:
    """List the accounts, the newest first."""
    _show(call, call.client.accounts.list())


@app.command()
@_about_account
def show(call: Call) -> None:
    """Show one account and the state of its broker session."""
    _show(call, [call.client.accounts.show()])


@app.command()
@connected(account=AccountId, token=True)
def rename(call: Call, name: Name) -> None:
    """Rename an account."""
    _show(call, [call.client.accounts.change(name=name)])


@app.command()
@_about_account
def disable(call: Call, reason: Annotated[str, typer.Option("--reason", help="Stored with the account.")] = "") -> None:
    """Reject new orders. Working orders are still followed and can be cancelled."""
    changes: AccountChanges = {"disabled": True, "disabled_reason": reason} if reason else {"disabled": True}
    _show(call, [call.client.accounts.change(**changes)])


@app.command()
@_about_account
def enable(call: Call) -> None:
    """Accept orders again."""
    _show(call, [call.client.accounts.change(disabled=False)])


@app.command()
@connected(account=AccountId, token=True, json=False)
def close(call: Call, if_version: Version = None, yes: Yes = False) -> None:
    """Close an account permanently. Fails while it has open orders or queued commands."""
    call.confirm_live(f"close account {call.account} permanently", yes=yes)
    call.client.accounts.close(if_version=if_version)
    typer.echo("closed")


@credentials_app.command("set")
@_about_account
def set_credential(
    call: Call,
    file: Annotated[
        Path | None, typer.Option("--file", help="The fields as a JSON object; - is standard input.", allow_dash=True)
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="For example 2026-03-06T21:00:00Z.", show_default=False)
    ] = None,
    if_version: Version = None,
    yes: Yes = False,
) -> None:
    """Set the account's broker credential. Prompts for each field of the broker, unless --file holds them."""
    until = moment_of("--expires-at", expires_at)
    call.confirm_live("set the credential of an account", yes=yes)
    fields = _fields_in(file) if file is not None else _prompted_fields(call.client)
    _show_credential(call, call.client.accounts.set_credential(fields, expires_at=until, if_version=if_version))


@credentials_app.command("show")
@_about_account
def show_credential(call: Call) -> None:
    """Show the state of the credential. Its secrets cannot be read."""
    _show_credential(call, call.client.accounts.credential())


@credentials_app.command("verify")
@_about_account
def verify_credential(call: Call) -> None:
    """Check the credential with the broker now."""
    _show_credential(call, call.client.accounts.verify_credential())


@credentials_app.command("remove")
@connected(account=AccountArgument, token=True, json=False)
def remove_credential(call: Call, if_version: Version = None, yes: Yes = False) -> None:
    """Remove the credential; the platform destroys its secrets."""
    call.confirm_live("remove the credential of an account", yes=yes)
    call.client.accounts.remove_credential(if_version=if_version)
    typer.echo("removed")


def _fields_in(file: Path) -> Mapping[str, str]:
    try:
        found = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"--file cannot be read as JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError('--file must have one JSON object of texts, such as {"key_id": "…", "secret": "…"}.')
    return found


def _prompted_fields(client: "Client") -> Mapping[str, str]:
    name = client.accounts.show().broker
    form = next((broker.credentials for broker in client.brokers() if broker.name == name), None)
    if form is None:
        raise ValueError(f"Accounts at {name} have no credential.")
    return {field.name: typer.prompt(field.title, hide_input=field.secret, err=True) for field in form.fields}


def _show(call: Call, accounts: "Iterable[Account]") -> None:
    call.show_table(
        accounts,
        ("account", "name", "broker", "environment", "session", "credential", "version"),
        lambda account: (
            account.id,
            account.name,
            account.broker + (f" {account.profile}" if account.profile else ""),
            account.environment,
            account.session_status + ("" if account.halt_code is None else f" ({account.halt_code})"),
            account.credential_status,
            account.version,
        ),
    )


def _show_credential(call: Call, credential: "Credential") -> None:
    until = f", until {credential.expires_at:%Y-%m-%d %H:%M}Z" if credential.expires_at else ""
    call.show_line(
        credential, f"{credential.kind} {credential.hint} at {credential.broker}: {credential.status}{until}"
    )

"""Commands about API keys."""

import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from openbell_server.cli.operators import ActingAs, AsJson, known, operate, plain_name, show_list, show_one
from openbell_server.cli.organizations import OrganizationArgument
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import PERMISSIONS
from openbell_server.domain.errors import OperatorError

COLUMNS = (
    "key_id",
    "name",
    "environment",
    "permissions",
    "own_orders_only",
    "disabled",
    "revoked_at",
    "expires_at",
    "created_at",
)
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="Its public id, as `keys list` shows it.")]
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def create(
    organization: OrganizationArgument,
    environment: Annotated[Environment, typer.Option(help="The environment of its accounts.")],
    permission: Annotated[list[str], typer.Option(help=f"Any of {', '.join(sorted(PERMISSIONS))}; repeat the option.")],
    name: Annotated[str, typer.Option(help="What it is for.")] = "key",
    expires: Annotated[str, typer.Option(help="When it expires, as 2027-01-31 or 2027-01-31T12:00:00Z.")] = "",
    own_orders_only: Annotated[
        bool, typer.Option("--own-orders-only", help="Let it cancel and replace only orders that it created.")
    ] = False,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Create a key. Its text is shown only once, because only a hash is stored."""
    plain_name(name, "--name")
    permissions = known(permission, PERMISSIONS, "permission")
    expires_at = _time(expires) if expires else None
    text, presented = api_keys.mint(environment, os.urandom(api_keys.ENTROPY_BYTES))
    created = operate(
        lambda store: store.create_api_key(
            organization,
            presented,
            name=name,
            environment=environment,
            permissions=permissions,
            expires_at=expires_at,
            own_orders_only=own_orders_only,
        ),
        acting_as,
    )
    if as_json:
        show_one(created | {"key": text}, COLUMNS, as_json=True)
        return
    show_one(created, COLUMNS, as_json=False)
    typer.echo(f"\n{text}\n\nSave it now: it is not stored and cannot be shown again.")


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise OperatorError("--expires takes a time as 2027-01-31 or 2027-01-31T12:00:00Z.") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@app.command("list")
def show_all(organization: OrganizationArgument, as_json: AsJson = False) -> None:
    """List the keys of an organization, oldest first."""
    show_list("keys", operate(lambda store: store.list_api_keys(organization)), COLUMNS, as_json=as_json)


@app.command()
def disable(key: KeyArgument, acting_as: ActingAs = "", as_json: AsJson = False) -> None:
    """Refuse requests with this key, within a second."""
    show_one(operate(lambda store: store.disable_api_key(key, disabled=True), acting_as), COLUMNS, as_json=as_json)


@app.command()
def enable(key: KeyArgument, acting_as: ActingAs = "", as_json: AsJson = False) -> None:
    """Accept a disabled key again."""
    show_one(operate(lambda store: store.disable_api_key(key, disabled=False), acting_as), COLUMNS, as_json=as_json)


@app.command()
def revoke(key: KeyArgument, acting_as: ActingAs = "", as_json: AsJson = False) -> None:
    """Revoke a key permanently, within a second."""
    show_one(operate(lambda store: store.revoke_api_key(key), acting_as), COLUMNS, as_json=as_json)

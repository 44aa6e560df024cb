"""The command that creates access tokens for developers."""

from pathlib import Path
from typing import Annotated

import typer

from openbell_server.cli.operators import plain_name
from openbell_server.domain.access.principals import PrincipalKind, Role
from openbell_server.domain.errors import OperatorError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Typer needs a callback here: without one, a group with one command becomes that command."""


@app.command()
def mint(
    user: Annotated[str, typer.Option(help="A user: the identity provider's id.")] = "",
    organization: Annotated[str, typer.Option(help="The user's organization, by its external id.")] = "",
    role: Annotated[Role | None, typer.Option(help="The user's role in the organization.")] = None,
    service: Annotated[str, typer.Option(help="Or a service account: its name.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="What it may do; repeat the option.")] = None,
) -> None:
    """Print an access token for the `dev` that runs in this folder; it is valid for one hour."""
    from openbell_server.devtools.dev_issuer import mint as sign

    if bool(user) == bool(service) or (user and scope) or (service and (organization or role)):
        raise OperatorError("Use --user with --organization and --role, or --service with --scope.")
    if user:
        kind, claims = PrincipalKind.USER, {"org_id": organization, "role": str(role or "")}
    else:
        kind, claims = PrincipalKind.SERVICE, {"scope": " ".join(scope or [])}
    given = {name: value for name, value in claims.items() if value}
    typer.echo(sign(Path(".openbell"), kind, plain_name(user or service, "--user or --service"), given))

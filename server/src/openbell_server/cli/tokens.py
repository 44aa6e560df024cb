"""The command that makes access tokens for a developer."""

from pathlib import Path
from typing import Annotated

import typer

from openbell_server.cli.operators import plain_name
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.principals import PrincipalKind, Role


def register(app: typer.Typer) -> None:
    """Add the command."""
    tokens = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    tokens.callback()(_group)
    tokens.command("mint")(mint)
    app.add_typer(tokens, name="tokens", help="What users and service accounts identify themselves with, beside `dev`.")


def _group() -> None:
    """Without it one command would be taken for the group."""


def mint(
    user: Annotated[str, typer.Option(help="A user: who it is, in the words of the identity provider.")] = "",
    organization: Annotated[str, typer.Option(help="The user's organization, by its external id.")] = "",
    role: Annotated[Role | None, typer.Option(help="What the user is there.")] = None,
    service: Annotated[str, typer.Option(help="Or a service account: its name.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="What it may do; repeat the option.")] = None,
) -> None:
    """Print an access token of the `dev` that runs in this folder; it lives for an hour."""
    from openbell_server.processes.dev_issuer import mint as sign

    if bool(user) == bool(service) or (user and scope) or (service and (organization or role)):
        raise OperatorError("Say --user with --organization and --role, or --service with --scope.")
    if user:
        kind, claims = PrincipalKind.USER, {"org_id": organization, "role": str(role or "")}
    else:
        kind, claims = PrincipalKind.SERVICE, {"scope": " ".join(scope or [])}
    given = {name: value for name, value in claims.items() if value}
    typer.echo(sign(Path(".openbell"), kind, plain_name(user or service, "--user or --service"), given))

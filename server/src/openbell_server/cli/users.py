"""Commands about users of the identity provider."""

from typing import Annotated
from uuid import UUID

import typer

from openbell_server.cli.operators import ActingAs, AsJson, operate, plain_name, show_one

COLUMNS = ("provider", "subject", "disabled", "reason", "denied_at")
ProviderArgument = Annotated[str, typer.Argument(metavar="PROVIDER", help="The identity provider, such as workos.")]
SubjectArgument = Annotated[str, typer.Argument(metavar="SUBJECT", help="Its id for the user: `sub` in the token.")]
OrganizationOption = Annotated[
    UUID | None,
    typer.Option("--organization", help="The organization whose audit log records this. Default: the platform's log."),
]
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def disable(
    provider: ProviderArgument,
    subject: SubjectArgument,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "disabled",
    organization: OrganizationOption = None,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Refuse every token of a user or service account, within a second."""
    _check(provider, subject)
    plain_name(reason, "--reason")
    changed = operate(lambda store: store.disable_user(provider, subject, reason, organization), acting_as)
    show_one(changed, COLUMNS, as_json=as_json)


@app.command()
def enable(
    provider: ProviderArgument,
    subject: SubjectArgument,
    organization: OrganizationOption = None,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Accept the tokens of a disabled user again."""
    _check(provider, subject)
    changed = operate(lambda store: store.enable_user(provider, subject, organization), acting_as)
    show_one(changed, COLUMNS, as_json=as_json)


def _check(provider: str, subject: str) -> None:
    plain_name(provider, "PROVIDER")
    plain_name(subject, "SUBJECT")

"""Commands about organizations."""

from typing import Annotated
from uuid import UUID

import typer

from openbell_server.cli.operators import ActingAs, AsJson, known, operate, plain_name, show_list, show_one
from openbell_server.domain.access.accounts import DEFAULT_ENTITLEMENTS, ENTITLEMENTS
from openbell_server.domain.errors import OperatorError

COLUMNS = (
    "organization_id",
    "name",
    "provider",
    "external_id",
    "disabled",
    "internal",
    "entitlements",
    "paper_enforcement",
)
OrganizationArgument = Annotated[
    UUID, typer.Argument(metavar="ORGANIZATION", help="Its id, as `organizations list` shows it.")
]
EntitlementsArgument = Annotated[
    list[str], typer.Argument(metavar="ENTITLEMENT…", help=f"Any of {', '.join(sorted(ENTITLEMENTS))}.")
]
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def create(
    name: str,
    external_id: Annotated[str, typer.Option(help="Its id at the identity provider.")] = "",
    provider: Annotated[str, typer.Option(help="The identity provider. Default with --external-id: workos.")] = "",
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Add an organization.

    It may use controls, unless OPENBELL_SELLS_PLANS is true; grant live trading with `organizations entitle`.
    """
    from openbell_server.settings import Settings

    if provider and not external_id:
        raise OperatorError(f"Add the organization's id at {provider}: --external-id ID.")
    plain_name(name, "NAME")
    provider = plain_name(provider or ("workos" if external_id else "openbell"), "--provider")
    external = plain_name(external_id, "--external-id") if external_id else None
    entitlements = () if Settings().sells_plans else DEFAULT_ENTITLEMENTS
    created = operate(
        lambda store: store.create_organization(
            name=name, external_id=external, provider=provider, entitlements=entitlements
        ),
        acting_as,
    )
    show_one(created, COLUMNS, as_json=as_json)


@app.command("list")
def show_all(as_json: AsJson = False) -> None:
    """List organizations, oldest first."""
    show_list("organizations", operate(lambda store: store.list_across_organizations()), COLUMNS, as_json=as_json)


@app.command()
def disable(organization: OrganizationArgument, acting_as: ActingAs = "", as_json: AsJson = False) -> None:
    """Refuse every command of an organization except cancels, at once."""
    changed = operate(lambda store: store.disable_organization(organization, disabled=True), acting_as)
    show_one(changed, COLUMNS, as_json=as_json)


@app.command()
def enable(organization: OrganizationArgument, acting_as: ActingAs = "", as_json: AsJson = False) -> None:
    """Permit a disabled organization to trade again."""
    changed = operate(lambda store: store.disable_organization(organization, disabled=False), acting_as)
    show_one(changed, COLUMNS, as_json=as_json)


@app.command()
def entitle(
    organization: OrganizationArgument,
    entitlements: EntitlementsArgument,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Add entitlements to an organization."""
    added = known(entitlements, ENTITLEMENTS, "entitlement")
    show_one(operate(lambda store: store.entitle(organization, added), acting_as), COLUMNS, as_json=as_json)


@app.command()
def revoke_entitlement(
    organization: OrganizationArgument,
    entitlements: EntitlementsArgument,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Remove entitlements from an organization."""
    removed = known(entitlements, ENTITLEMENTS, "entitlement")
    show_one(
        operate(lambda store: store.revoke_entitlements(organization, removed), acting_as), COLUMNS, as_json=as_json
    )


@app.command()
def internal(
    organization: OrganizationArgument,
    is_internal: Annotated[bool, typer.Option("--internal/--no-internal", help="The operator's own, or not.")] = True,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Mark an organization as the operator's own."""
    changed = operate(lambda store: store.set_internal(organization, internal=is_internal), acting_as)
    show_one(changed, COLUMNS, as_json=as_json)


@app.command()
def enforce_paper(
    organization: OrganizationArgument,
    enforcement: Annotated[str, typer.Argument(metavar="ENFORCE|SHADOW", help="Refuse, or only report in receipts.")],
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Choose whether controls refuse commands on paper accounts, or only report in receipts what they would refuse."""
    (wanted,) = known([enforcement.upper()], ("ENFORCE", "SHADOW"), "way")
    changed = operate(lambda store: store.enforce_paper(organization, wanted), acting_as)
    show_one(changed, COLUMNS, as_json=as_json)

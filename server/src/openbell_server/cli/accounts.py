"""Commands about trading accounts."""

from typing import Annotated
from uuid import UUID

import typer

from openbell_server.cli.operators import ActingAs, AsJson, known, operate, plain_name, show_list, show_one
from openbell_server.cli.organizations import OrganizationArgument
from openbell_server.domain.access.accounts import (
    PAPER,
    Environment,
    NewAccount,
    PaperProfile,
    broker_with_profile,
    known_brokers,
)

COLUMNS = ("account_id", "name", "broker", "environment")
LISTED = ("account_id", "organization_id", "name", "broker", "environment", "halt_code", "halted_at", "halt_detail")
RESUMED = ("account_id", "halt_code", "resumed_at")
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def create(
    organization: OrganizationArgument,
    name: Annotated[str, typer.Option(help="The account's name.")],
    broker: Annotated[str, typer.Option(help="The broker that executes its orders.")],
    environment: Annotated[Environment, typer.Option(help="Cannot be changed later.")],
    profile: Annotated[str, typer.Option(help="Of the paper broker: A (default), W, B or C.")] = "A",
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Open a trading account."""
    from openbell_server.application.access.manage_accounts import first_status
    from openbell_server.brokers.registry import BROKERS

    plain_name(name, "--name")
    known([broker], known_brokers(BROKERS), "broker")
    (chosen,) = known([profile.upper()], PaperProfile, "profile")
    if broker == PAPER:
        broker = broker_with_profile(broker, PaperProfile(chosen))
    known([environment], BROKERS[broker].capabilities.environments, f"environment of {broker}")
    new, status = NewAccount(name=name, broker=broker, environment=environment), first_status(BROKERS[broker])
    created = operate(lambda store: store.create_account(organization, new, status), acting_as)
    show_one(created, COLUMNS, as_json=as_json)


@app.command("list")
def show_all(
    organization: Annotated[UUID | None, typer.Option(help="Only of this organization.")] = None,
    halted: Annotated[bool, typer.Option("--halted", help="Only accounts that stopped automatically.")] = False,
    as_json: AsJson = False,
) -> None:
    """List accounts, oldest first, with the reason for which they stopped."""
    found = operate(lambda store: store.list_accounts(organization, halted_only=halted))
    show_list("accounts", found, LISTED, as_json=as_json)


@app.command()
def resume(
    account: Annotated[UUID, typer.Argument(metavar="ACCOUNT", help="Its id, as `accounts list` shows it.")],
    because: Annotated[str, typer.Option(help="Why it may continue, for the audit log.")],
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Resume an account that stopped automatically; its current orders at the broker count as checked."""
    plain_name(because, "--because")
    resumed = operate(lambda store: store.resume_account(account, because), acting_as)
    show_one(resumed, RESUMED, as_json=as_json)

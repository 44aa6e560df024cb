"""Commands about trading accounts."""

from typing import Annotated

import typer

from openbell_server.cli.operators import ActingAs, AsJson, known, operate, plain_name, show_one
from openbell_server.cli.organizations import OrganizationArgument
from openbell_server.domain.accounts import Environment, NewAccount

COLUMNS = ("account_id", "name", "broker", "environment")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    accounts = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    accounts.command("create")(create)
    app.add_typer(accounts, name="accounts", help="Where organizations trade.")


def create(
    organization: OrganizationArgument,
    name: Annotated[str, typer.Option(help="What people call it.")],
    broker: Annotated[str, typer.Option(help="The broker that executes its orders.")],
    environment: Annotated[Environment, typer.Option(help="Fixed for life.")],
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Open a trading account."""
    from openbell_server.application.manage_accounts import first_status
    from openbell_server.brokers.registry import BROKERS

    plain_name(name, "--name")
    known([broker], BROKERS, "broker")
    new, status = NewAccount(name=name, broker=broker, environment=environment), first_status(BROKERS[broker])
    created = operate(lambda store: store.create_account(organization, new, status), acting_as)
    show_one(created, COLUMNS, as_json=as_json)

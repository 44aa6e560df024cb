"""The command line `openbell`."""

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from openbell.cli import (
    accounts,
    audit,
    brokers,
    calendars,
    events,
    intents,
    keys,
    login,
    operations,
    orders,
    paper,
    prices,
    profiles,
    receipts,
    watch,
    webhooks,
)
from openbell.cli.agents import install
from openbell.cli.controls import halts, heartbeats, rules, symbols
from openbell.cli.desk import desk_commands
from openbell.cli.outcomes import OUTCOME_UNKNOWN, errors_as_messages

app = typer.Typer(
    help="Trade through Openbell: submit intents, follow, replace and cancel them.",
    epilog="Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable or outcome unknown.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(intents.app, name="intents")
app.add_typer(events.app, name="events")
app.add_typer(orders.app, name="orders")
orders.app.command("cancel-all")(desk_commands.cancel_all)
orders.app.command("desk-commands")(desk_commands.list_desk_commands)
orders.app.command("desk-command")(desk_commands.show_desk_command)
orders.positions_app.command("close")(desk_commands.close_position)
app.add_typer(orders.executions_app, name="executions")
app.add_typer(orders.positions_app, name="positions")
app.add_typer(symbols.app, name="controls")
app.add_typer(heartbeats.app, name="heartbeat")
app.add_typer(receipts.app, name="receipts")
app.add_typer(paper.app, name="paper")
app.add_typer(prices.app, name="prices")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(accounts.app, name="accounts")
app.add_typer(accounts.credentials_app, name="credentials")
app.add_typer(keys.app, name="keys")
app.add_typer(audit.app, name="audit")
app.add_typer(operations.app, name="operations")
app.add_typer(operations.users_app, name="users")
app.add_typer(profiles.app, name="profiles")
app.add_typer(install.app, name="mcp")
app.command("login")(login.login)
app.command("brokers")(brokers.show_brokers)
app.command("calendars")(calendars.show_calendars)
app.command("me")(operations.me)
app.command("overview")(orders.overview)
app.command("balances")(orders.balances)
app.command("halt")(rules.halt)
app.command("resume")(rules.resume)
app.command("halt-report")(halts.show_halt_reports)
app.command("watch")(watch.watch)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"openbell {version('openbell')}")
        raise typer.Exit


@app.callback()
def choose(
    context: typer.Context,
    profile: Annotated[
        str | None,
        typer.Option("--profile", envvar="OPENBELL_PROFILE", help="See `openbell profiles`.", show_default=False),
    ] = None,
    _: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    # These two must also work if a profile cannot be used, or does not exist yet.
    if context.invoked_subcommand not in ("profiles", "login"):
        with errors_as_messages(as_json=False):
            profiles.apply_profile(profile)


def main() -> None:
    try:
        app()
    except OSError as error:
        sys.stderr.write(f"The output could not be written: {error}\nWrite it to another place.\n")
        sys.exit(OUTCOME_UNKNOWN)
    except Exception as error:
        if os.environ.get("OPENBELL_DEBUG"):
            raise
        sys.stderr.write(
            f"openbell itself failed: {type(error).__name__}: {error}\n"
            "This is a defect: run it again with OPENBELL_DEBUG=1 and report the output.\n"
        )
        sys.exit(OUTCOME_UNKNOWN)

"""The command line `openbell`: what a person needs to submit, follow, replace and cancel intents from a terminal."""

import os
import sys
from typing import Annotated

import typer

from openbell.cli import (
    accounts,
    brokers,
    calendars,
    controls,
    events,
    halts,
    intents,
    keys,
    operations,
    orders,
    paper,
    prices,
    profiles,
    receipts,
    rules,
    watch,
    webhooks,
)
from openbell.cli.outcomes import OUTCOME_UNKNOWN, told_plainly

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
app.add_typer(orders.executions_app, name="executions")
app.add_typer(orders.positions_app, name="positions")
app.add_typer(controls.app, name="controls")
app.add_typer(receipts.app, name="receipts")
app.add_typer(paper.app, name="paper")
app.add_typer(prices.app, name="prices")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(accounts.app, name="accounts")
app.add_typer(accounts.credentials_app, name="credentials")
app.add_typer(keys.app, name="keys")
app.add_typer(operations.app, name="operations")
app.add_typer(operations.users_app, name="users")
app.add_typer(profiles.app, name="profiles")
app.command("brokers")(brokers.show_brokers)
app.command("calendars")(calendars.show_calendars)
app.command("halt")(rules.halt)
app.command("resume")(rules.resume)
app.command("halt-report")(halts.show_halt_report)
app.command("watch")(watch.watch)


@app.callback()
def choose(
    context: typer.Context,
    profile: Annotated[
        str | None,
        typer.Option("--profile", envvar="OPENBELL_PROFILE", help="See `openbell profiles`.", show_default=False),
    ] = None,
) -> None:
    """Say who calls, and where."""
    # Profiles are kept with themselves, also where one of them cannot be used.
    if context.invoked_subcommand != "profiles":
        with told_plainly(as_json=False):
            profiles.apply_profile(profile)


def main() -> None:
    """Entry point."""
    try:
        app()
    except OSError as error:
        sys.stderr.write(f"The output could not be written: {error}\nGive it another place to go.\n")
        sys.exit(OUTCOME_UNKNOWN)
    except Exception as error:
        if os.environ.get("OPENBELL_DEBUG"):
            raise
        sys.stderr.write(
            f"openbell itself failed: {type(error).__name__}: {error}\n"
            "This is a defect: run it again with OPENBELL_DEBUG=1 and report what it prints.\n"
        )
        sys.exit(OUTCOME_UNKNOWN)

"""The command line `openbell`: what a person needs to submit, follow, replace and cancel intents from a terminal."""

import os
import sys

import typer

from openbell.cli import brokers, controls, events, intents, paper, prices, receipts, rules
from openbell.cli.outcomes import OUTCOME_UNKNOWN

app = typer.Typer(
    help="Trade through Openbell: submit intents, follow, replace and cancel them.",
    epilog="Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable or outcome unknown.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(intents.app, name="intents")
app.add_typer(events.app, name="events")
app.add_typer(controls.app, name="controls")
app.add_typer(receipts.app, name="receipts")
app.add_typer(paper.app, name="paper")
app.add_typer(prices.app, name="prices")
app.command("brokers")(brokers.show_brokers)
app.command("halt")(rules.halt)
app.command("resume")(rules.resume)


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

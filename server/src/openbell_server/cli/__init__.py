"""The operator's command line: `openbell-server`."""

import sys

import typer

from openbell_server.cli import (
    accounts,
    actions,
    audit,
    backup,
    calendars,
    controls,
    database,
    demo,
    dev,
    doctor,
    keys,
    organizations,
    outbox,
    processes,
    recovery,
    services,
    tokens,
    users,
    vault,
)

app = typer.Typer(
    help="Run and operate Openbell.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    # Rich would print a traceback past the filter of the logs.
    pretty_exceptions_enable=False,
)
dev.register(app)
database.register(app)
organizations.register(app)
accounts.register(app)
keys.register(app)
controls.register(app)
users.register(app)
calendars.register(app)
tokens.register(app)
outbox.register(app)
actions.register(app)
audit.register(app)
recovery.register(app)
backup.register(app)
vault.register(app)
doctor.register(app)
processes.register(app)
demo.register(app)
services.register(app)


def main() -> None:
    """Entry point; what an operator can mend is a sentence, not a traceback."""
    from openbell_server.domain.errors import OperatorError

    try:
        app()
    except OperatorError as error:
        typer.echo(str(error), err=True)
        sys.exit(2)

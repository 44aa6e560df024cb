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
    halts,
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
    # Rich would print tracebacks without the secret filter of the logs.
    pretty_exceptions_enable=False,
)
dev.register(app)
database.register(app)
organizations.register(app)
accounts.register(app)
halts.register(app)
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
    """Run the command line; errors that an operator can fix are printed without a traceback, with exit code 2."""
    from openbell_server.domain.errors import OperatorError

    try:
        app()
    except OperatorError as error:
        typer.echo(str(error), err=True)
        sys.exit(2)

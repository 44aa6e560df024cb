"""The operator's command line: `openbell-server`."""

import sys

import typer

from openbell_server.cli import (
    accounts,
    backup,
    database,
    demo,
    dev,
    keys,
    organizations,
    processes,
    recovery,
    services,
    tokens,
    users,
)

app = typer.Typer(help="Run and operate Openbell.", no_args_is_help=True, rich_markup_mode=None, add_completion=False)
dev.register(app)
database.register(app)
organizations.register(app)
accounts.register(app)
keys.register(app)
users.register(app)
tokens.register(app)
recovery.register(app)
backup.register(app)
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

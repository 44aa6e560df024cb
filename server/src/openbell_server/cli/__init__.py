"""The operator's command line: `openbell-server`."""

import sys

import typer

from openbell_server.cli import database, demo, dev, processes, services

app = typer.Typer(help="Run and operate Openbell.", no_args_is_help=True, rich_markup_mode=None, add_completion=False)
dev.register(app)
database.register(app)
processes.register(app)
demo.register(app)
services.register(app)


def main() -> None:
    """Entry point; a missing setting is a sentence, not a traceback."""
    from openbell_server.settings import MissingSetting

    try:
        app()
    except MissingSetting as missing:
        typer.echo(str(missing), err=True)
        sys.exit(2)

"""The operator's command line: `openbell-server`."""

import typer

from openbell_server.cli import processes, services

app = typer.Typer(help="Run and operate Openbell.", no_args_is_help=True, rich_markup_mode=None, add_completion=False)
processes.register(app)
services.register(app)


def main() -> None:
    """Entry point."""
    app()

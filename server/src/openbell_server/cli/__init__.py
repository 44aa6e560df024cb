"""The operator's command line: `openbell-server`."""

import typer

from openbell_server.cli import processes

app = typer.Typer(help="Run and operate Openbell.", no_args_is_help=True, rich_markup_mode=None, add_completion=False)
processes.register(app)


def main() -> None:
    """Entry point."""
    app()

"""Commands that start and stop PostgreSQL and NATS for the current folder."""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

import typer

from openbell_server.devtools.background_services import KeptServices, running_services, start_services, stop_services
from openbell_server.devtools.child_processes import ChildFailed

_FOLDER = Path(".openbell")
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def up() -> None:
    """Start the services unless they run, and print their addresses."""
    with errors_as_messages():
        _print_addresses(start_services(_FOLDER))


@app.command()
def down() -> None:
    """Stop the services and remove all their data."""
    with errors_as_messages():
        typer.echo("The services have ended." if stop_services(_FOLDER) else "No services were running here.")


@app.command()
def status() -> None:
    """Show whether the services run, and their addresses."""
    _print_addresses(_running())


@app.command()
def env() -> None:
    """Print the settings of the services: eval "$(openbell-server services env)"."""
    for name, value in _running().environment().items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@contextlib.contextmanager
def errors_as_messages() -> Iterator[None]:
    """Print the failure of a child process without a traceback, and exit with code 1."""
    try:
        yield
    except ChildFailed as failure:
        typer.echo(str(failure), err=True)
        raise typer.Exit(1) from None


def _running() -> KeptServices:
    kept = running_services(_FOLDER)
    if kept is None:
        typer.echo("No services are running here; start them with: openbell-server services up", err=True)
        raise typer.Exit(1)
    return kept


def _print_addresses(kept: KeptServices) -> None:
    typer.echo(f"PostgreSQL  {kept.database_url}")
    typer.echo(f"            {kept.paper_database_url}")
    typer.echo(f"NATS        {kept.nats_url}")

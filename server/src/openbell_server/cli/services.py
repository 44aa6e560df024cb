"""Commands that start and end PostgreSQL and NATS for the current folder."""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

import typer

from openbell_server.processes.children import ChildFailed
from openbell_server.processes.services_keeper import (
    KeptServices,
    running_services,
    start_services,
    stop_services,
)

_FOLDER = Path(".openbell")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    services = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    services.command("up")(up)
    services.command("down")(down)
    services.command("status")(status)
    services.command("env")(env)
    app.add_typer(services, name="services", help="PostgreSQL and NATS for this folder, in the background.")


def up() -> None:
    """Start them, unless they run, and say where they listen."""
    with _said_plainly():
        _print_addresses(start_services(_FOLDER))


def down() -> None:
    """End them and remove all they wrote."""
    with _said_plainly():
        typer.echo("The services have ended." if stop_services(_FOLDER) else "No services were running here.")


def status() -> None:
    """Say whether they run, and where they listen."""
    _print_addresses(_running())


def env() -> None:
    """Print the settings that use them: eval "$(openbell-server services env)"."""
    for name, value in _running().environment().items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@contextlib.contextmanager
def _said_plainly() -> Iterator[None]:
    """Show a failure as its sentence, not as a traceback."""
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
